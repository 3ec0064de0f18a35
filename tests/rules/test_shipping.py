"""What is shipped, by rule: a frozen executable as a Python, the inventory, licences, the library floor."""

from pathlib import Path
from typing import Any

import pytest

from beehive_cli.frozen import clean, module_asked
from modules.upgrader.host import keeper
from shipping.build import glibc_floor
from shipping.inventory import inventory, licence, may_be_shipped


@pytest.mark.parametrize(
    ("arguments", "means"),
    [
        (["-m", "modules.upgrader.tool", "upgrade", "edge"], ("modules.upgrader.tool", ["upgrade", "edge"])),
        (["-m", "beehive_cli", "--mode", "edge"], ("beehive_cli", ["--mode", "edge"])),
        (["-m", "modules.demo.apiserver"], ("modules.demo.apiserver", [])),
        (["-I", "-S", keeper.__file__, "spec"], ("modules.upgrader.host.keeper", ["spec"])),
        (["-I", "-S", "/lib/modules/upgrader/host/keeper.pyc", "s"], ("modules.upgrader.host.keeper", ["s"])),
        (["-m", "http.server"], None),
        (["-m"], None),
        (["-I", "-S", "/tmp/keeper.py", "s"], None),
        (["-I", "-S"], None),
        (["-c", "import os"], None),
        (["--mode", "cloud"], None),
        ([], None),
    ],
)
def test_a_frozen_executable_runs_the_modules_of_ours_that_children_ask_for_and_no_other(
    arguments: list[str], means: object
) -> None:
    assert module_asked(arguments) == means


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"LD_LIBRARY_PATH": "/lib/beehive", "LD_LIBRARY_PATH_ORIG": "/opt/x", "A": "b"},
         {"LD_LIBRARY_PATH": "/opt/x", "A": "b"}),
        ({"LD_LIBRARY_PATH": "/lib/beehive", "_PYI_ARCHIVE_FILE": "x", "_PYI_PARENT_PROCESS_LEVEL": "1"}, {}),
        ({}, {}),
    ],
)  # fmt: skip
def test_children_inherit_nothing_of_the_bootloader(before: dict[str, str], after: dict[str, str]) -> None:
    clean(before)
    assert before == after


def package(name: str, told: str = "", *classifiers: str, text: str = "") -> dict[str, Any]:
    return {"name": name, "version": "1", "license": told, "classifiers": list(classifiers), "texts": [text]}


@pytest.mark.parametrize(
    ("one", "expression"),
    [
        (package("a", "MIT"), "MIT"),
        (package("a", "Apache-2.0 OR BSD-3-Clause"), "Apache-2.0 OR BSD-3-Clause"),
        (package("a", "", "License :: OSI Approved :: MIT License"), "MIT"),
        (package("a", "The MIT License (MIT)\n\nlong", "License :: OSI Approved :: MIT License"), "MIT"),
        (package("a", "", text="The MIT License\n\nCopyright"), "MIT"),
        (package("a", "", text="GNU GENERAL PUBLIC LICENSE"), ""),
        (package("a"), ""),
    ],
)
def test_a_licence_is_what_the_package_tells(one: dict[str, Any], expression: str) -> None:
    assert licence(one) == expression


@pytest.mark.parametrize(
    ("expression", "may"),
    [("MIT", True), ("Apache-2.0 OR BSD-3-Clause", True), ("MPL-2.0", True), ("", False), ("GPL-3.0-only", False),
     ("AGPL-3.0", False), ("MIT AND (GPL-2.0-or-later)", False), ("SSPL-1.0", False)],
)  # fmt: skip
def test_no_copyleft_that_reaches_us_is_shipped(expression: str, may: bool) -> None:
    assert may_be_shipped(expression) is may


def test_a_package_that_may_not_be_shipped_ends_the_build_by_name() -> None:
    with pytest.raises(SystemExit, match=r"These may not be shipped: evil \(AGPL-3\.0\), mute \(no licence told\)"):
        inventory("1", [package("evil", "AGPL-3.0"), package("fine", "MIT"), package("mute")])


def test_the_inventory_is_the_same_for_the_same_packages_and_has_no_build_tools() -> None:
    packages = [package("b", "MIT"), package("a", "ISC"), package("PyInstaller", "GPL-2.0")]
    made = inventory("0.1.0", packages)
    assert made == inventory("0.1.0", packages[::-1])
    assert [part["name"] for part in made["components"]] == ["a", "b", "python"]
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")


def test_the_floor_is_the_newest_symbol_of_any_executable(tmp_path: Path) -> None:
    (tmp_path / "old.so").write_bytes(b"\x7fELF..GLIBC_2.4\0GLIBC_2.28\0")
    (tmp_path / "new.so").write_bytes(b"\x7fELF..GLIBC_2.9\0GLIBC_2.34\0GLIBC_PRIVATE\0")
    (tmp_path / "text").write_bytes(b"GLIBC_2.99")
    assert glibc_floor(tmp_path) == "2.34"
