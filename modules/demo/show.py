"""How the demo is watched: a table that is redrawn in place on a terminal, else one line for each change."""

import os
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from beehive.api.nodeupgradejob import NodeEntry, NodeUpgradeJob
from modules.console.sentences import sentence
from modules.console.view import COLOURS, Row, bar, lines, row

Running = Callable[[str], str]
"""Name of a host -> what its program answers now."""
Notes = Mapping[str, str]
"""Name of a host -> what the demo did to it."""


class Show(Protocol):
    """Looks on from the creation of the job to its end."""

    def __enter__(self) -> "Show": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def look(self, job: NodeUpgradeJob, seconds: float) -> None:
        """This is how it is now."""


def rows(job: NodeUpgradeJob, running: Running, notes: Notes) -> list[Row]:
    """One for each entry, with what the demo did to the host at the end of its sentence."""
    return [
        row(entry, running(entry.node_name), _why(entry, notes.get(entry.node_name, "")))
        for entry in job.status.node_status or ()
    ]


def _why(entry: NodeEntry, note: str) -> str:
    return "; ".join(part for part in (sentence(entry), note) if part)


class LiveTable:
    """For people at a terminal."""

    def __init__(self, tolerated: int, running: Running, notes: Notes, console: Console | None = None) -> None:
        self._tolerated, self._running, self._notes = tolerated, running, notes
        self._live = Live(console=console or Console(highlight=False), refresh_per_second=8, transient=True)

    def __enter__(self) -> "LiveTable":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def look(self, job: NodeUpgradeJob, seconds: float) -> None:
        drawn = coloured(job, rows(job, self._running, self._notes), self._live.console.width)
        self._live.update(Group(*drawn, Text(bar(job.status, self._tolerated, seconds), style="yellow")))


class Lines:
    """For logs and pipes: one line for each change of a node."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._said: dict[str, str] = {}

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to put back."""

    def look(self, job: NodeUpgradeJob, seconds: float) -> None:
        for entry in job.status.node_status or ():
            flow = entry.action_flow or ()
            step = f" after {flow[-1].action}" if flow else ""
            line = (
                f"{entry.node_name}  {entry.phase}{step}  {_why(entry, self._notes.get(entry.node_name, ''))}".rstrip()
            )
            if self._said.get(entry.node_name) != line:
                self._said[entry.node_name] = line
                print(f"{seconds:5.1f}s  {line}", file=sys.stderr, flush=True)


def coloured(job: NodeUpgradeJob, table: list[Row], width: int) -> list[Text]:
    """The table's lines, coloured by what happened."""
    phases = [entry.phase for entry in job.status.node_status or ()]
    header, *body = lines(table, width)
    return [Text(header), *(Text(line, COLOURS.get(phase, "")) for line, phase in zip(body, phases, strict=True))]


def wants_terminal() -> bool:
    """Redraw in place only where a person looks on (experience.md)."""
    plain = any(os.environ.get(name) for name in ("NO_COLOR", "CI")) or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain
