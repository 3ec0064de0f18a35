"""The list of faults cannot rot: each line is still there, each fault still is one, each test still exists."""

from pathlib import Path

import pytest

from tests.house import mutants
from tests.house.mutants import Mutant, lines_of, load, spoilt
from tests.house.tree import TOP

ALL = load()


def test_the_kernel_has_its_share() -> None:
    assert sum(mutant.file.startswith("beehive/") for mutant in ALL) >= 15
    assert len({mutant.name for mutant in ALL}) == len(ALL)


@pytest.mark.parametrize("promise", range(1, 12))
def test_each_promise_of_the_product_has_a_line_whose_loss_is_noticed(promise: int) -> None:
    assert any(mutant.why.startswith(f"promise {promise}: ") for mutant in ALL)


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_each_fault_still_is_one(mutant: Mutant) -> None:
    text = (TOP / mutant.file).read_text(encoding="utf-8")
    assert len(lines_of(mutant, text)) == 1
    assert mutant.old != mutant.new
    compile(spoilt(mutant, text), mutant.file, "exec")
    assert mutant.tests
    for test in mutant.tests:
        assert (TOP / test.partition("::")[0]).exists()


SOURCE = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"
TEST = "from one import f\n\n\ndef test_f():\n    assert f() == 1\n"


def fault(old: str, new: str, tests: str = "test_one.py") -> Mutant:
    return Mutant("it is right", "one.py", old, new, (tests,))


def test_a_line_that_is_gone_or_doubled_is_refused() -> None:
    assert spoilt(fault("return 1", "return 3"), SOURCE) == SOURCE.replace("return 1", "return 3")
    for old, times in (("return 5", 0), ("return 1", 2)):
        with pytest.raises(ValueError, match=f"stands {times} times"):
            spoilt(fault(old, "pass"), SOURCE.replace("2", "1"))


@pytest.mark.parametrize(
    ("mutant", "verdict"),
    [
        (fault("return 1", "return 3"), "red"),
        (fault("return 2", "return 3"), "green"),
        (fault("return 1", "return (", "test_one.py"), "pytest ended with 2"),
    ],
)
def test_only_a_failing_test_counts_and_the_file_is_mended(
    tmp_path: Path, mutant: Mutant, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # it starts sooner
    (tmp_path / "one.py").write_text(SOURCE)
    (tmp_path / "test_one.py").write_text(TEST)
    assert mutants.judge(mutant, tmp_path).startswith(verdict)
    assert (tmp_path / "one.py").read_text() == SOURCE
