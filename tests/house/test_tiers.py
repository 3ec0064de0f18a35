"""`make test` says what it ran, and a tier that can't run is a failure with a remedy, never a silent skip."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiers
from tests.tiers import CannotRunError, Tier


def test_every_tier_names_folders_that_exist() -> None:
    root = Path(__file__).resolve().parents[2]
    for tier in tiers.TIERS.values():
        assert all((root / folder).is_dir() for folder in tier.folders)


def test_every_test_folder_belongs_to_a_tier() -> None:
    tests = Path(__file__).resolve().parents[1]
    with_tests = {f"tests/{path.relative_to(tests).parts[0]}" for path in tests.rglob("test_*.py")}
    assert with_tests <= {folder for tier in tiers.TIERS.values() for folder in tier.folders}


@pytest.mark.parametrize(
    ("results", "line", "good"),
    [
        (
            {"unit": "passed", "real": "passed", "hosts": "passed"},
            "tiers: unit passed, real passed, hosts passed; not run: none",
            True,
        ),
        ({"real": "passed"}, "tiers: real passed; not run: unit, hosts", True),
        (
            {"unit": "passed", "real": "failed: pytest"},
            "tiers: unit passed, real failed: pytest; not run: hosts",
            False,
        ),
        (
            {"unit": "nothing selected", "real": "passed"},
            "tiers: unit nothing selected, real passed; not run: hosts",
            True,
        ),
        ({"unit": "nothing selected"}, "tiers: unit nothing selected; not run: real, hosts", False),
    ],
)
def test_the_last_line_tells_all_and_the_exit_code_agrees(results: dict[str, str], line: str, good: bool) -> None:
    assert tiers.summary(results) == line
    assert tiers.succeeded(results) is good


def test_a_missing_program_is_named_with_its_package_to_whoever_cannot_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    lacking = Tier(("tests/real",), programs={"sh": "dash", "no-such-program": "no-such-package"})
    with pytest.raises(CannotRunError, match="the real tier needs no-such-package: run `apt-get install no-such-pack"):
        tiers.prepare("real", lacking)
    assert tiers.run("real", lacking, "").startswith("failed: the real tier needs no-such-package")


def test_a_tier_that_boots_hosts_says_that_it_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert tiers.run("hosts", tiers.TIERS["hosts"], "") == (
        "failed: the hosts tier mounts disks and boots hosts: run it as root"
    )


def test_a_tier_that_has_all_it_needs_installs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it ran something"))
    tiers.prepare("unit", Tier(("tests/rules",), programs={"sh": "dash"}))


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("def test_good() -> None:\n    assert True\n", "passed"),
        ("def test_bad() -> None:\n    assert False\n", "failed: pytest"),
        ("", "failed: pytest"),
    ],
)
def test_a_tier_passes_only_if_its_tests_do(tmp_path: Path, source: str, result: str) -> None:
    (tmp_path / "test_it.py").write_text(source)
    assert tiers.run("unit", Tier((str(tmp_path),)), "") == result


@pytest.mark.long
def test_a_failed_check_fails_the_tier_unless_tests_are_selected(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_good() -> None:\n    assert True\n")
    tier = Tier((str(tmp_path),), checks=("python -c raise(SystemExit(1))",))
    assert tiers.run("unit", tier, "") == "failed: python"
    assert tiers.run("unit", tier, "good") == "passed"
    assert tiers.run("unit", tier, "nothing_like_it") == "nothing selected"


@pytest.mark.parametrize("arguments", [["units"], [], ["unit", "hots"]])
def test_an_unknown_tier_is_refused_with_the_known_ones(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.tiers", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not done.stdout
