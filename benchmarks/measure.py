"""How we measure: the cases of a group in turns, CPU time of this process, median and range, ratios within a round.

Two cores that others use too make absolute figures worthless and ratios of neighbours useful: each round runs every
case once, one after the other, and a ratio is taken from the two figures of the same round.
"""

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

Work = Callable[[int], Awaitable[object]]
LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class Case(NamedTuple):
    """One thing to measure; `run(n)` does it n times on a loop of its own."""

    name: str
    run: Work
    times: int


class Spread(NamedTuple):
    """Median and range of the rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}..{self.high:.2f}]"


def spread(figures: Sequence[float]) -> Spread:
    """Of at least one figure."""
    return Spread(statistics.median(figures), min(figures), max(figures))


def interleaved(cases: Sequence[Case], rounds: int, loop: LoopFactory) -> dict[str, list[float]]:
    """Microseconds of CPU time per operation, one figure a round; the order turns with each round."""
    figures: dict[str, list[float]] = {case.name: [] for case in cases}
    for case in cases:
        _once(case, max(1, case.times // 10), loop)
    for turn in range(rounds):
        for index in range(len(cases)):
            case = cases[(index + turn) % len(cases)]
            figures[case.name].append(_once(case, case.times, loop))
    return figures


def _once(case: Case, times: int, loop: LoopFactory) -> float:
    async def timed() -> float:
        gc.collect()
        begun = time.process_time()
        await case.run(times)
        return (time.process_time() - begun) / times * 1e6

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(timed())


class Goal(NamedTuple):
    """`over` divided by `under`, round by round, must reach `bound` (`at_least`) or stay within it."""

    text: str
    over: str
    under: str
    bound: float
    at_least: bool = True

    def reached(self, ratio: float) -> bool:
        """Whether this ratio is good enough."""
        return ratio >= self.bound if self.at_least else ratio <= self.bound


def ratio(goal: Goal, figures: dict[str, list[float]]) -> Spread:
    """The ratio of neighbours, and its range."""
    return spread([a / b for a, b in zip(figures[goal.over], figures[goal.under], strict=True)])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Plain text in columns."""
    wide = [max(len(str(row[column])) for row in (head, *rows)) for column in range(len(head))]
    lines = ["  ".join(str(cell).ljust(width) for cell, width in zip(row, wide, strict=True)).rstrip()
             for row in (head, ["-" * width for width in wide], *rows)]  # fmt: skip
    return "\n".join(lines)


def write(name: str, result: Any) -> Path:
    """The result as `.bench/<name>.json`, for programs and for comparing runs."""
    path = Path(__file__).resolve().parents[1] / ".bench" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    return path
