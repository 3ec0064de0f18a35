"""What people see of a job: a table of its nodes, a bar, and the last sentence. Pure: objects in, text out."""

from collections.abc import Sequence
from typing import NamedTuple

from beehive.api import nodeupgradejob as api
from beehive.api.nodeupgradejob import JobStatus, NodeEntry, NodeUpgradeJob
from modules.taskmanager.job.summary import step_of

COLOURS = {
    api.SUCCESSFUL: "green", api.FAILURE: "red", api.UNKNOWN: "red", api.SKIPPED: "yellow", api.IN_PROGRESS: "yellow",
}  # fmt: skip
"""Colour by meaning only: green done, yellow waiting, red failed (experience.md)."""

_BAR = 36
NARROW = 100
"""On a terminal with fewer columns FROM and RUNNING are left out: the head says what comes from where."""


class Row(NamedTuple):
    """One node on the screen."""

    node: str
    phase: str
    step: str
    before: str
    running: str
    why: str


HEADER = Row("NODE", "PHASE", "STEP", "FROM", "RUNNING", "WHY")


def row(entry: NodeEntry, running: str, why: str) -> Row:
    """The line of one entry: the step that it is in, or that ended last; `running` is what runs there now as far as
    known, `why` its sentence."""
    flow = entry.action_flow or ()
    step = flow[-1].action if flow else "-"
    if entry.phase == api.IN_PROGRESS:
        step = step_of(entry) if flow or entry.reason_code else api.CHECK
    return Row(entry.node_name, entry.phase, step, entry.historic_version or "-", running or "-", why)


def lines(rows: Sequence[Row], width: int = 100) -> list[str]:
    """A table without borders that fits `width`; the last column is cut with an ellipsis."""
    table: list[tuple[str, ...]] = [HEADER, *rows]
    if width < NARROW:
        table = [(one[0], one[1], one[2], one[5]) for one in table]
    widths = [max(len(one[column]) for one in table) for column in range(len(table[0]) - 1)]
    drawn = []
    for one in table:
        start = "  ".join(f"{text:<{size}}" for text, size in zip(one, widths, strict=False))
        drawn.append(_cut(f" {start}  {one[-1]}".rstrip(), width))
    return drawn


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def bar(status: JobStatus, tolerated: int, seconds: float, size: int = _BAR) -> str:
    """`████░░ 4/5   1 failed (tolerance 2)   00:09`; the bar itself has `size` characters."""
    closed = status.total - status.pending - status.in_progress
    full = round(size * closed / status.total) if status.total else 0
    failed = status.failed + status.unknown
    minutes, rest = divmod(int(seconds), 60)
    drawn = "█" * full + "░" * (size - full)
    counts = f"{closed:,}/{status.total:,}   {failed:,} failed (tolerance {tolerated:,})"
    return f" {drawn}  {counts}   {minutes:02}:{rest:02}"


def summary(job: NodeUpgradeJob, seconds: float) -> str:
    """The last sentence: what came of it, counted by outcome."""
    status = job.status
    rolled_back = sum(one.reason_code == "RolledBack" for one in status.node_status or ())
    counts = (
        (status.successful, "upgraded"), (rolled_back, "rolled back"), (status.failed - rolled_back, "failed"),
        (status.unknown, "unknown"), (status.skipped, "skipped"),
    )  # fmt: skip
    told = ", ".join(f"{count} {what}" for count, what in counts if count)
    phase = f"{status.phase} ({status.reason})" if status.reason else status.phase
    return f" Done in {seconds:.1f} s: {told or 'nothing to do'}. Job {job.metadata.name} is {phase}."
