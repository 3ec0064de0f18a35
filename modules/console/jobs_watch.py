"""`beehive job watch`: a table that is redrawn in place on a terminal, else one line for each change."""

import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from beehive.api.nodeupgradejob import IN_PROGRESS, PENDING, NodeUpgradeJob
from beehive.api.tolerance import tolerance
from modules.console.jobs_view import chosen, entry_row, others
from modules.console.jobs_words import budget, remaining, title
from modules.console.sentences import sentence
from modules.console.times import moment, spoken
from modules.console.view import COLOURS, bar
from modules.console.view import lines as table_lines

_LEAST_BAR, _MOST_BAR = 10, 36
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
    """What and for how long, as many nodes as there is room for, the bar with pace and time to go."""
    entries = job.status.node_status or ()
    shown = chosen(entries, max(1, height - _AROUND))
    header, *body = table_lines([entry_row(entry, job) for entry in shown], width)
    told = [Text(f" {title(job, now)}", "bold"), Text(header)]
    told += [Text(line, COLOURS.get(entry.phase, "")) for line, entry in zip(body, shown, strict=True)]
    if len(entries) > len(shown):
        told.append(Text(f" {others(entries, shown)}"))
    return Group(*(line[:width] for line in (*told, Text(progress(job, now, width), "yellow"))))


def progress(job: NodeUpgradeJob, now: float, width: int = 120) -> str:
    """`████░░ 4/5   1 failed (tolerance 2)   00:09   12 a minute, about 3m to go`; the bar takes what is left of the
    width, and where that is too little, the words give way."""
    status, start = job.status, moment(job.status.start_time) or now
    end = moment(status.completion_time) or now
    try:
        most = tolerance(job.spec.failure_tolerate).most(status.total)
    except ValueError:
        most = 0
    seconds, left = max(0.0, end - start), remaining(job, now)
    pace = (status.successful + status.failed + status.unknown) / max(1.0, now - start) * 60
    words = (
        ["", f"   about {spoken(left)} to go", f"   {pace:.1f} a minute, about {spoken(left)} to go"] if left else [""]
    )
    bare = len(bar(status, most, seconds, 0))
    fitting = [word for word in words if bare + len(word) + _LEAST_BAR <= width]
    word = fitting[-1] if fitting else ""
    return bar(status, most, seconds, max(_LEAST_BAR, min(_MOST_BAR, width - bare - len(word)))) + word


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
            step = "" if entry.phase == IN_PROGRESS else row.step  # its sentence says what it does
            line = "  ".join(word for word in (row.node, row.phase, step, sentence(entry)) if word and word != "-")
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
