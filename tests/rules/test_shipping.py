"""What is shipped, by rule: a frozen executable as a Python, the inventory, licences, the library floor."""

import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from beehive_cli.frozen import clean, module_asked
from modules.upgrader.host import keeper
from shipping.inventory import inventory, licence, may_be_shipped
from shipping.native import libraries
from shipping.packing import artefact, glibc_floor

TOP = Path(__file__).resolve().parents[2]


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
     ("AGPL-3.0", False), ("MIT AND (GPL-2.0-or-later)", False), ("SSPL-1.0", False), ("LGPL-2.1-only", True),
     ("GPL-3.0-or-later WITH GCC-exception-3.1", True), ("GPL-2.0-or-later WITH Bootloader-exception", True),
     ("GPL-3.0-or-later WITH GCC-exception-3.1 AND GPL-3.0-only", False),
     ("GPL-2.0-only WITH Font-exception-2.0", False), ("GPL-3.0-or-later WITH GCC-exception-3.1x", False)],
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
    assert [part["name"] for part in made["components"]] == ["a", "b", "python", "pyinstaller-bootloader"]
    assert made["components"][-1]["version"] == "1", "the bootloader is of PyInstaller's version"
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")


def test_system_libraries_are_named_by_project_and_an_unknown_one_ends_the_build(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    names = "libssl.so.3 libcrypto.so.3 libstdc++.so.6 libbz2.so.1.0 libpython3.11.so.1.0 sub/libz.so.1 lib.txt"
    for name in names.split():
        (tmp_path / name).touch()
    told = {one["name"]: one["license"] for one in libraries(tmp_path)}
    assert told == {
        "bzip2": "bzip2-1.0.6", "openssl": "Apache-2.0", "gcc-runtime": "GPL-3.0-or-later WITH GCC-exception-3.1",
        "zlib": "Zlib",
    }  # fmt: skip
    (tmp_path / "libreadline.so.8").touch()
    with pytest.raises(SystemExit, match=r"^libreadline\.so\.8: what is it, and may it be shipped\?"):
        libraries(tmp_path)


def test_the_version_stands_in_one_place_and_the_others_agree() -> None:
    version = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((TOP / "configs/helm/beehive/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    for file in ("Dockerfile", "docs/install.md", "configs/install.yaml"):
        text = (TOP / file).read_text()
        named = re.findall(r"VERSION=v?(\d+\.\d+\.\d+)|(?:beehive|package)[:-]v?(\d+\.\d+\.\d+)", text)
        assert {one or two for one, two in named} == {version}, file
    assert importlib.metadata.version("beehive") == version


def test_artefacts_are_named_by_gos_word_for_the_machine() -> None:
    assert artefact("1.2.3", "x86_64") == "beehive-1.2.3-linux-amd64"
    assert artefact("1.2.3", "aarch64") == "beehive-1.2.3-linux-arm64"
    assert artefact("1.2.3", "riscv64") == "beehive-1.2.3-linux-riscv64"


def test_the_floor_is_the_newest_symbol_of_any_executable(tmp_path: Path) -> None:
    (tmp_path / "old.so").write_bytes(b"\x7fELF..GLIBC_2.4\0GLIBC_2.28\0")
    (tmp_path / "new.so").write_bytes(b"\x7fELF..GLIBC_2.9\0GLIBC_2.34\0GLIBC_PRIVATE\0")
    (tmp_path / "text").write_bytes(b"GLIBC_2.99")
    assert glibc_floor(tmp_path) == "2.34"
