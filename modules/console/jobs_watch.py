"""`beehive job watch`: a table that is redrawn in place on a terminal, else one line for each change."""

import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from beehive.api.nodeupgradejob import PENDING, NodeUpgradeJob
from beehive.api.tolerance import tolerance
from modules.console.jobs_view import entry_row, ordered
from modules.console.jobs_words import budget, head, remaining
from modules.console.sentences import sentence
from modules.console.table import table
from modules.console.times import moment, spoken
from modules.console.view import COLOURS, HEADER, bar

_AROUND = 5
"""Lines of a terminal that are not nodes: head, header, count, bar, cursor."""


class Screen(Protocol):
    """Looks on."""

    def __enter__(self) -> "Screen": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def look(self, job: NodeUpgradeJob) -> None:
        """This is how it is now."""


def screen(console: Console, now: Callable[[], float] = time.time) -> Screen:
    """Redraws in place only where a person looks on (experience.md)."""
    plain = any(os.environ.get(name) for name in ("NO_COLOR", "CI")) or os.environ.get("TERM") == "dumb"
    return Redrawn(console, now) if console.is_terminal and not plain else Lines(console, now)


class Redrawn:
    """For people at a terminal."""

    def __init__(self, console: Console, now: Callable[[], float]) -> None:
        self._console, self._now = console, now
        self._job: NodeUpgradeJob | None = None
        self._live = Live(console=console, refresh_per_second=2, get_renderable=self._drawn)

    def __enter__(self) -> "Redrawn":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def look(self, job: NodeUpgradeJob) -> None:
        self._job = job
        self._live.refresh()

    def _drawn(self) -> Group:
        if self._job is None:
            return Group()
        return drawn(self._job, self._now(), self._console.width, self._console.height)


def drawn(job: NodeUpgradeJob, now: float, width: int, height: int) -> Group:
    """Head, as many nodes as there is room for, the bar with pace and time to go."""
    entries = ordered(job.status.node_status or ())
    shown = entries[: max(1, height - _AROUND)]
    header, *body = table([HEADER, *(entry_row(entry, job) for entry in shown)], width)
    lines = [Text(head(job, now), "bold"), Text(header)]
    lines += [Text(line, COLOURS.get(entry.phase, "")) for line, entry in zip(body, shown, strict=True)]
    if len(entries) > len(shown):
        lines.append(Text(f"… and {len(entries) - len(shown):,} more"))
    return Group(*(line[:width] for line in (*lines, Text(progress(job, now), "yellow"))))


def progress(job: NodeUpgradeJob, now: float) -> str:
    """`████░░ 4/5   1 failed (tolerance 2)   00:09   12 a minute, about 3m to go`."""
    status, start = job.status, moment(job.status.start_time) or now
    end = moment(status.completion_time) or now
    try:
        most = tolerance(job.spec.failure_tolerate).most(status.total)
    except ValueError:
        most = 0
    line, left = bar(status, most, max(0.0, end - start)), remaining(job, now)
    if left is None:
        return line
    pace = (status.successful + status.failed + status.unknown) / max(1.0, now - start) * 60
    return f"{line}   {pace:.1f} a minute, about {spoken(left)} to go"


class Lines:
    """For logs and pipes: a line when a node's phase, step or sentence changes; nothing while nodes only wait."""

    def __init__(self, console: Console, now: Callable[[], float]) -> None:
        self._console, self._now = console, now
        self._said: dict[str, str] = {}
        self._head = ""

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to put back."""

    def look(self, job: NodeUpgradeJob) -> None:
        phase = f"{job.metadata.name}  {job.status.phase or 'new'}  {job.status.done}".rstrip()
        for entry in job.status.node_status or ():
            row = entry_row(entry, job)
            line = "  ".join(word for word in (row.node, row.phase, row.step, sentence(entry)) if word and word != "-")
            if self._said.get(entry.node_name, "" if entry.phase != PENDING else line) != line:
                self._print(line)
            self._said[entry.node_name] = line
        if phase != self._head:
            self._head = phase
            self._print(phase)

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)


def last_word(job: NodeUpgradeJob) -> str:
    """How it ended."""
    status, end, start = job.status, moment(job.status.completion_time), moment(job.status.start_time)
    took = f" after {spoken(end - start)}" if end is not None and start is not None else ""
    counts = ((status.successful, "upgraded"), (status.failed + status.unknown, "failed"), (status.skipped, "skipped"))
    told = ", ".join(f"{count:,} {what}" for count, what in counts if count) or "no node"
    why = f" ({status.reason})" if status.reason else ""
    more = f" {budget(job)}" if status.reason == "BudgetExceeded" else ""
    return f"Job {job.metadata.name} is {status.phase}{why}{took}: {told}.{more}"
