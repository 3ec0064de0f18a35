"""What a job's status becomes, by its phase. The table:

| phase | what happens |
|---|---|
| (new) | judged again; invalid: Failure. digests of a registry are waited for. Then Init: all verdicts at once |
| Init, InProgress | reports, retry, deadlines, stop (abort, budget), marks, stop again, end |
| Completed, Failure | late words change entries and counters alone; `retry` opens it again |
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from beehive.api.nodeupgradejob import (
    COMPLETED,
    FAILURE,
    IN_PROGRESS,
    INIT,
    NEW,
    PENDING,
    SKIPPED,
    UNKNOWN,
    JobStatus,
    NodeEntry,
    NodeUpgradeJob,
    RegistryAPI,
)
from beehive.api.selection import selected
from beehive.api.size import fits
from beehive.api.validate import problems
from beehive.messages.tasks import TaskReport
from beehive.world import rfc3339
from modules.taskmanager import codes
from modules.taskmanager.fold import fold
from modules.taskmanager.job.deadline import expire
from modules.taskmanager.job.entries import OPEN, Budget, entries_of, moved
from modules.taskmanager.job.marks import mark
from modules.taskmanager.job.size import beside, fitted, share_of
from modules.taskmanager.job.summary import Note, accepted, conditions, counted, waiting
from modules.taskmanager.job.verdict import first_entry
from modules.taskmanager.job.view import Scene

_replace = msgspec.structs.replace
Phase = Callable[[NodeUpgradeJob, Scene], JobStatus]


def next_status(job: NodeUpgradeJob, scene: Scene) -> JobStatus:
    """What the status becomes now; equal to what stands when there is nothing to do."""
    return PHASES[job.status.phase](job, scene)


# ---- new ---------------------------------------------------------------------------------------------------------


def _new(job: NodeUpgradeJob, scene: Scene) -> JobStatus:
    digests = scene.news.digests.get(job.metadata.uid)
    if registry_to_ask(job) and digests is None:
        return job.status
    wrong = problems(job.spec) or (
        [f"spec.imageDigestGatter.registryAPI: {digests}"] if isinstance(digests, str) else []
    )
    names = () if wrong else selected(job.spec, scene.nodes)
    if not wrong and not fits(beside(job), names):
        wrong = [f"the status of {len(names)} nodes would not fit into one object; make several jobs"]
    begun = JobStatus(
        phase=INIT,
        observed_generation=job.metadata.generation,
        observed_retry=job.spec.retry,
        start_time=rfc3339(scene.now),
        digests=None if isinstance(digests, str) or not digests else dict(digests),
    )
    if wrong:
        return _refused(job, begun, wrong, scene.now)
    entries = [first_entry(name, job.spec, scene) for name in names]
    status = counted(begun, _fitted(job, entries, entries))
    status = _replace(status, conditions=accepted(job, status, (), scene.now))
    return _replace(status, conditions=conditions(job, status, scene.now))


def registry_to_ask(job: NodeUpgradeJob) -> RegistryAPI | None:
    """Of a job that is new and sound, and names a registry in place of digests: a pin must not turn into no pin."""
    pins = job.spec.image_digest_gatter
    if job.status.phase != NEW or pins is None or pins.by_architecture():
        return None
    return None if job.metadata.deletion_timestamp or problems(job.spec) else pins.registry_api


def _refused(job: NodeUpgradeJob, status: JobStatus, wrong: Sequence[str], now: float) -> JobStatus:
    status = _replace(status, phase=FAILURE, reason=codes.INVALID, completion_time=rfc3339(now), done="0/0")
    status = _replace(status, conditions=accepted(job, status, wrong, now))
    return _replace(status, conditions=conditions(job, status, now))


# ---- open --------------------------------------------------------------------------------------------------------


def _open(job: NodeUpgradeJob, scene: Scene) -> JobStatus:
    old = entries_of(job.status)
    entries = _heard(job, old, scene)
    if _is_retried(job):
        _try_again(job, entries, scene.now)
    expire(job, entries, scene)
    _settle(entries, scene)
    _stop(job, entries, scene.now)
    notes = [] if job.spec.suspend or job.spec.abort else mark(job, entries, scene)
    _stop(job, entries, scene.now)
    status = counted(job.status, _fitted(job, old, entries))
    return _headed(job, status, notes, scene.now)


def _heard(job: NodeUpgradeJob, old: Sequence[NodeEntry], scene: Scene) -> list[NodeEntry]:
    """The entries with all that the nodes said folded in."""
    said = scene.news.reports.get(job.metadata.uid)
    if not said:
        return list(old)
    wanted = job.spec.version
    return [
        _told(entry, said[entry.node_name], wanted, scene.now) if entry.node_name in said else entry for entry in old
    ]


def _told(entry: NodeEntry, said: Sequence[TaskReport], wanted: str, now: float) -> NodeEntry:
    folded = entry
    for report in said:
        folded = fold(folded, report, wanted)
    if folded == entry:
        return entry
    if entry.phase == PENDING and folded.phase == IN_PROGRESS:
        text = codes.explain(PENDING, codes.CANCELLING, "")
        folded = _replace(
            entry, reason_code=codes.CANCELLING, reason=text, revision=folded.revision, action_flow=folded.action_flow
        )
    return _replace(folded, since=rfc3339(now))


def _is_retried(job: NodeUpgradeJob) -> bool:
    return job.spec.retry > job.status.observed_retry and not job.spec.abort


def _try_again(job: NodeUpgradeJob, entries: list[NodeEntry], now: float) -> None:
    for index, entry in enumerate(entries):
        again = entry.phase in (FAILURE, UNKNOWN) or (entry.phase == SKIPPED and entry.reason_code in codes.RETRIED)
        if again:
            entries[index] = NodeEntry(
                node_name=entry.node_name, phase=PENDING, attempt=job.spec.retry + 1, since=rfc3339(now)
            )
        elif entry.phase == PENDING:
            entries[index] = _replace(entry, attempt=job.spec.retry + 1, revision=0, reason_code="", reason="")


def _settle(entries: list[NodeEntry], scene: Scene) -> None:
    """A node that is no longer critical waits for nothing but its turn."""
    for index, entry in enumerate(entries):
        if entry.reason_code == codes.QUORUM_AT_RISK and entry.node_name not in scene.news.critical:
            entries[index] = moved(entry, scene.now, PENDING)


def _stop(job: NodeUpgradeJob, entries: list[NodeEntry], now: float) -> None:
    """After `abort`, and while the budget is spent, no entry is or becomes Pending."""
    if job.spec.abort:
        code = codes.ABORTED
    elif Budget(job.spec.failure_tolerate, entries).exceeded:
        code = codes.BUDGET_EXCEEDED
    else:
        return
    for index, entry in enumerate(entries):
        if entry.phase == PENDING:
            entries[index] = moved(entry, now, SKIPPED, code, codes.explain(SKIPPED, code, job.spec.version))


def _headed(job: NodeUpgradeJob, status: JobStatus, notes: Sequence[Note], now: float) -> JobStatus:
    """The head that follows from the entries."""
    phase, reason = _end(job, entries_of(status))
    ended = phase != IN_PROGRESS
    status = _replace(
        status,
        phase=phase,
        reason=reason,
        observed_generation=job.metadata.generation,
        observed_retry=max(job.spec.retry, status.observed_retry),
        completion_time=rfc3339(now) if ended else None,
        waiting="" if ended else waiting(job, entries_of(status), notes),
    )
    return _replace(status, conditions=conditions(job, status, now))


def _end(job: NodeUpgradeJob, entries: Sequence[NodeEntry]) -> tuple[str, str]:
    if any(entry.phase in OPEN for entry in entries):
        return IN_PROGRESS, ""
    if job.spec.abort:
        return FAILURE, codes.ABORTED
    if Budget(job.spec.failure_tolerate, entries).exceeded:
        return FAILURE, codes.BUDGET_EXCEEDED
    return COMPLETED, "" if entries else codes.NOTHING_SELECTED


def _fitted(job: NodeUpgradeJob, old: Sequence[NodeEntry], entries: Sequence[NodeEntry]) -> list[NodeEntry]:
    """Every entry that is new or changed, within its share."""
    share = share_of(job, len(entries))
    known = {id(entry) for entry in old} if old is not entries else set()
    return [entry if id(entry) in known else fitted(entry, job, len(entries), share) for entry in entries]


# ---- ended -------------------------------------------------------------------------------------------------------


def _ended(job: NodeUpgradeJob, scene: Scene) -> JobStatus:
    if _is_retried(job):
        return _reopened(job, scene)
    if job.metadata.uid not in scene.news.reports:
        return job.status
    old = entries_of(job.status)
    entries = _heard(job, old, scene)
    if all(new is entry for new, entry in zip(entries, old, strict=True)):
        return job.status
    return counted(job.status, _fitted(job, old, entries))


def _reopened(job: NodeUpgradeJob, scene: Scene) -> JobStatus:
    old = entries_of(job.status)
    entries = _heard(job, old, scene)
    _try_again(job, entries, scene.now)
    status = counted(job.status, _fitted(job, old, entries))
    if not status.pending:
        return _replace(status, observed_retry=job.spec.retry)
    return _headed(job, status, (), scene.now)


PHASES: Mapping[str, Phase] = {NEW: _new, INIT: _open, IN_PROGRESS: _open, COMPLETED: _ended, FAILURE: _ended}
