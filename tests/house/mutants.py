"""`make mutants [K=words]`: put one fault at a time into a copy of the house, and see that a test turns red.

The faults are in `mutants.toml`. One that no test notices is a hole in the tests; one whose line is no longer there is
found by `test_mutants.py`.
"""

# ruff: noqa: T201

import concurrent.futures
import queue
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.house.tree import relative, tracked

FILE = Path(__file__).with_name("mutants.toml")
WORKERS = 2
LIMIT = 300.0
"""Seconds for the tests of one mutant; a fault that makes them hang is noticed too."""
PARTS = ("beehive", "modules", "cmd", "tests", "configs", "benchmarks", "pyproject.toml")


class Mutant(NamedTuple):
    """One fault of one line."""

    why: str
    """What the line is there for."""
    file: str
    old: str
    """The line without its indentation; it stands exactly once in the file."""
    new: str
    tests: tuple[str, ...]
    """Where a test must turn red, as pytest takes it."""

    @property
    def name(self) -> str:
        return f"{self.file}: {self.why}"


def load(file: Path = FILE) -> list[Mutant]:
    """All faults. Raises KeyError for one that is not whole."""
    read = tomllib.loads(file.read_text(encoding="utf-8"))
    return [Mutant(one["why"], one["file"], one["old"], one["new"], tuple(one["tests"])) for one in read["mutant"]]


def lines_of(mutant: Mutant, text: str) -> list[int]:
    """The indices of the line that it changes; a good mutant has one."""
    return [index for index, line in enumerate(text.splitlines()) if line.strip() == mutant.old]


def spoilt(mutant: Mutant, text: str) -> str:
    """The file with the fault in it. Raises ValueError where the line is not there exactly once."""
    lines = text.splitlines()
    found = lines_of(mutant, text)
    if len(found) != 1:
        raise ValueError(f"the line of {mutant.name!r} stands {len(found)} times in the file")
    line = lines[found[0]]
    lines[found[0]] = line[: len(line) - len(line.lstrip())] + mutant.new
    return "\n".join(lines) + "\n"


def copy_to(place: Path) -> None:
    """The house as it is now, tracked or new."""
    for path in tracked(*PARTS):
        target = place / relative(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)


def tested(place: Path, tests: Sequence[str], *options: str) -> str:
    """`green`, `red`, or what kept the tests from running."""
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *options, *tests]
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return "red"
    if done.returncode in (0, 1):
        return "green" if done.returncode == 0 else "red"
    return f"pytest ended with {done.returncode}: {(done.stdout + done.stderr)[-300:]}"


def judge(mutant: Mutant, place: Path) -> str:
    """Spoil, test, mend."""
    path = place / mutant.file
    whole = path.read_text(encoding="utf-8")
    path.write_text(spoilt(mutant, whole), encoding="utf-8")
    try:
        return tested(place, mutant.tests)
    finally:
        path.write_text(whole, encoding="utf-8")


def main(words: Sequence[str]) -> int:
    """Exit code 0 if every fault was noticed."""
    chosen = [mutant for mutant in load() if all(word in mutant.name for word in words)]
    with tempfile.TemporaryDirectory(prefix="beehive-mutants-") as directory:
        places: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(WORKERS):
            place = Path(directory, str(number))
            copy_to(place)
            places.put(place)
        tests = sorted({test for mutant in chosen for test in mutant.tests})
        before = tested(Path(directory, "0"), tests)
        if before != "green":
            print(f"without any fault the tests are not green: {before}")
            return 1
        return _report(chosen, places)


def _report(chosen: Sequence[Mutant], places: "queue.SimpleQueue[Path]") -> int:
    def work(mutant: Mutant) -> str:
        place = places.get()
        try:
            return judge(mutant, place)
        finally:
            places.put(place)

    unnoticed = 0
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for mutant, verdict in zip(chosen, pool.map(work, chosen), strict=True):
            unnoticed += verdict != "red"
            print(f"{'noticed' if verdict == 'red' else verdict:<10} {mutant.name}", flush=True)
    print(f"{len(chosen) - unnoticed} of {len(chosen)} faults turned a test red")
    return 1 if unnoticed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
