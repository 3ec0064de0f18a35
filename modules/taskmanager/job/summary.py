"""The head of a status: counters, what it waits for, conditions. All of it follows from the entries."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from beehive.api.meta import Condition, condition, set_condition
from beehive.api.nodeupgradejob import (
    BACK_UP,
    CHECK,
    COMPLETED,
    FAILURE,
    IN_PROGRESS,
    INIT,
    PENDING,
    ROLL_BACK,
    SKIPPED,
    SUCCESSFUL,
    UNKNOWN,
    UPGRADE,
    WAITING_CONFIRMATION,
    JobStatus,
    NodeEntry,
    NodeUpgradeJob,
)
from beehive.api.tolerance import tolerance
from beehive.world import rfc3339
from modules.taskmanager import codes
from modules.taskmanager.job.entries import OPEN

_NAMED = 3
"""So many nodes are named in a sentence; the rest are counted."""
_LONGEST = 512
ACCEPTED, PROGRESSING, COMPLETE, FAILED, SUSPENDED = "Accepted", "Progressing", "Complete", "Failed", "Suspended"


class Note(Struct, frozen=True):
    """A node that waits although there is a slot for it."""

    node: str
    why: str


def counted(status: JobStatus, entries: Sequence[NodeEntry]) -> JobStatus:
    """The status with its entries, and the counters that follow from them."""
    count = Counter(entry.phase for entry in entries)
    open_ = sum(count[phase] for phase in OPEN)
    return msgspec.structs.replace(
        status,
        node_status=tuple(entries),
        total=len(entries),
        pending=count[PENDING],
        in_progress=count[IN_PROGRESS],
        successful=count[SUCCESSFUL],
        failed=count[FAILURE],
        skipped=count[SKIPPED],
        unknown=count[UNKNOWN],
        done=f"{len(entries) - open_}/{len(entries)}",
    )


def waiting(job: NodeUpgradeJob, entries: Sequence[NodeEntry], notes: Iterable[Note]) -> str:
    """One sentence: what an open job waits for."""
    parts = []
    flying = [f"{entry.node_name} ({step_of(entry)})" for entry in entries if entry.phase == IN_PROGRESS]
    if flying:
        parts.append(some(flying))
    if job.spec.suspend and any(entry.phase == PENDING for entry in entries):
        parts.append("suspended: no further node is started")
    grouped: dict[str, list[str]] = {}
    for note in notes:
        grouped.setdefault(note.why, []).append(note.node)
    parts += [f"{some(nodes)}: {why}" for why, nodes in list(grouped.items())[:_NAMED]]
    return codes.sentence("; ".join(parts), _LONGEST)


def step_of(entry: NodeEntry) -> str:
    """The action that a node in flight is in, as far as its results tell."""
    if entry.reason_code == codes.WAITING:
        return WAITING_CONFIRMATION
    last = (entry.action_flow or (None,))[-1]
    if last is None:
        return "reported" if entry.revision else "started"
    if last.status != "True":
        return ROLL_BACK
    return _NEXT.get(last.action, UPGRADE)


_NEXT = {CHECK: BACK_UP, WAITING_CONFIRMATION: BACK_UP, BACK_UP: UPGRADE}


def some(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


# ---- conditions --------------------------------------------------------------------------------------------------


def conditions(job: NodeUpgradeJob, status: JobStatus, now: float) -> tuple[Condition, ...]:
    """The conditions of a status whose counters, phase and reason stand; `Accepted` is Init's and stays."""
    said = status.conditions or ()
    for type_, truth, reason, message in _said(job, status):
        if type_ == SUSPENDED and not job.spec.suspend and condition(said, SUSPENDED) is None:
            continue
        said = set_condition(said, _condition(job, type_, truth, reason, message, now))
    return said


def accepted(job: NodeUpgradeJob, status: JobStatus, problems: Sequence[str], now: float) -> tuple[Condition, ...]:
    """The condition that says whether the job can be carried out at all."""
    reason = codes.INVALID if problems else "Valid"
    closed = status.total - status.pending
    message = "; ".join(problems) or f"{codes.nodes(status.total)} selected, {closed} of them closed without a start"
    said = status.conditions or ()
    return set_condition(said, _condition(job, ACCEPTED, not problems, reason, message, now))


def _condition(job: NodeUpgradeJob, type_: str, truth: bool, reason: str, message: str, now: float) -> Condition:
    return Condition(
        type=type_,
        status=str(truth),
        reason=reason,
        message=codes.sentence(message, 1024),
        last_transition_time=rfc3339(now),
        observed_generation=job.metadata.generation,
    )


def _said(job: NodeUpgradeJob, status: JobStatus) -> Iterable[tuple[str, bool, str, str]]:
    ended = status.phase in (COMPLETED, FAILURE)
    done = f"{status.done} done"
    yield PROGRESSING, not ended and not _stands_still(job, status), *_progress(job, status)
    yield COMPLETE, status.phase == COMPLETED, status.reason or status.phase or INIT, done
    failed = status.failed + status.unknown
    yield FAILED, status.phase == FAILURE, *_failure(job, status, failed)
    reason, text = ("Suspended", "no further node is started") if job.spec.suspend else ("Running", "not suspended")
    yield SUSPENDED, job.spec.suspend, reason, text


def _stands_still(job: NodeUpgradeJob, status: JobStatus) -> bool:
    return job.spec.suspend and not status.in_progress


def _progress(job: NodeUpgradeJob, status: JobStatus) -> tuple[str, str]:
    if status.phase in (COMPLETED, FAILURE):
        return status.reason or status.phase, f"{status.done} done"
    if status.in_progress:
        text = f"{status.in_progress} of {job.spec.concurrency} slots busy: {status.waiting}"
        return "NodesInFlight", text
    return ("Suspended" if job.spec.suspend else "Waiting"), status.waiting or f"{codes.nodes(status.pending)} to start"


def _failure(job: NodeUpgradeJob, status: JobStatus, failed: int) -> tuple[str, str]:
    if status.reason == codes.INVALID:
        return codes.INVALID, "the job cannot be carried out; the condition Accepted says why"
    most = tolerance(job.spec.failure_tolerate).most(status.total)
    text = f"{failed} failed, {most} tolerated ({job.spec.failure_tolerate or '0.1'} of {status.total})"
    if status.phase == FAILURE:
        return status.reason, text
    cut = any(entry.reason_code == codes.BUDGET_EXCEEDED for entry in status.node_status or ())
    return (codes.BUDGET_EXCEEDED if cut or failed > most else "WithinTolerance"), text
