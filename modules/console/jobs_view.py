"""`beehive job list` and `describe`: what is printed. Pure: objects in, lines out."""

from collections import Counter
from collections.abc import Sequence

from beehive.api.nodeupgradejob import (
    FAILURE,
    IN_PROGRESS,
    PENDING,
    SKIPPED,
    SUCCESSFUL,
    UNKNOWN,
    NodeEntry,
    NodeUpgradeJob,
)
from modules.console.jobs_words import head, reasons
from modules.console.sentences import sentence
from modules.console.table import WIDTH, table
from modules.console.times import since
from modules.console.view import HEADER, Row, row

EMPTY = "No jobs. Make one: beehive job create --version v1.23.0 --selector region=north, or kubectl apply -f FILE"
SHOWN = 20
"""So many nodes are listed; the rest are counted."""
_ORDER = (FAILURE, UNKNOWN, IN_PROGRESS, PENDING, SKIPPED, SUCCESSFUL)
"""What an operator must look at comes first."""


def listing(jobs: Sequence[NodeUpgradeJob], now: float, *, wide: bool = False) -> list[str]:
    """A line for each job, the youngest first."""
    header = ["NAME", "VERSION", "PHASE", "DONE", "FAILED", "AGE"]
    rows = [header + (["REASON", "WAITING"] if wide else [])]
    for job in sorted(jobs, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name), reverse=True):
        status = job.status
        line = [
            job.metadata.name, job.spec.version, _phase(job), status.done or "-",
            str(status.failed + status.unknown), since(job.metadata.creation_timestamp, now),
        ]  # fmt: skip
        rows.append(line + ([status.reason or "-", status.waiting or "-"] if wide else []))
    return table(rows, None if wide else WIDTH)


def _phase(job: NodeUpgradeJob) -> str:
    phase = job.status.phase or "new"
    open_ = phase not in ("Completed", FAILURE)
    marks = ("deleting", job.metadata.deletion_timestamp), ("aborting", job.spec.abort), ("suspended", job.spec.suspend)
    return next((f"{phase}, {word}" for word, is_so in marks if is_so and open_), phase)


def described(job: NodeUpgradeJob, now: float, *, everything: bool = False) -> list[str]:
    """The head, why it is there, and its nodes, those first that want a look."""
    width = None if everything else WIDTH
    lines = [head(job, now), *(f"  {reason}" for reason in reasons(job, now))]
    entries = job.status.node_status or ()
    if not entries:
        return lines
    shown = ordered(entries) if everything else chosen(entries, SHOWN)
    lines += ["", *table([HEADER, *(entry_row(entry, job) for entry in shown)], width)]
    if len(entries) > len(shown):
        lines.append(f"{others(entries, shown)}: beehive job describe {job.metadata.name} --all")
    return lines


def ordered(entries: Sequence[NodeEntry]) -> list[NodeEntry]:
    """By what an operator must look at; the order of the job within."""
    place = {phase: index for index, phase in enumerate(_ORDER)}
    return sorted(entries, key=lambda entry: place.get(entry.phase, len(_ORDER)))


def chosen(entries: Sequence[NodeEntry], room: int) -> list[NodeEntry]:
    """Those that fit and most want a look: the latest failures, the slowest in flight, then the others."""
    if len(entries) <= room:
        return ordered(entries)
    groups: dict[str, list[NodeEntry]] = {phase: [] for phase in _ORDER}
    for entry in entries:
        groups.get(entry.phase, groups[PENDING]).append(entry)
    bad = sorted((*groups[FAILURE], *groups[UNKNOWN]), key=lambda one: one.since, reverse=True)
    flying = sorted(groups[IN_PROGRESS], key=lambda one: one.since)
    bad = bad[: max(room - len(flying), room // 2)]
    waiting = sorted(groups[PENDING], key=lambda one: not one.reason_code)
    good = sorted(groups[SUCCESSFUL], key=lambda one: one.since, reverse=True)
    return [*bad, *flying, *groups[SKIPPED], *waiting, *good][:room]


def others(entries: Sequence[NodeEntry], shown: Sequence[NodeEntry]) -> str:
    """`… and 980 more (550 Successful, 430 Pending)`."""
    left = Counter(entry.phase for entry in entries)
    left.subtract(entry.phase for entry in shown)
    counts = ", ".join(f"{count:,} {phase}" for phase, count in left.most_common() if count)
    return f"… and {left.total():,} more ({counts})"


def entry_row(entry: NodeEntry, job: NodeUpgradeJob) -> Row:
    """The line of one node."""
    running = entry.current_version or (job.spec.version if entry.phase == SUCCESSFUL else "")
    return row(entry, running, sentence(entry))
