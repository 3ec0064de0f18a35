"""The Events that tell a job's story: two for each node, and on the job a dozen lines however many nodes it has.
And the log's lines about it: at most two for each attempt of a node."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from beehive.api.node import Node
from beehive.api.nodeupgradejob import (
    COMPLETED,
    FAILURE,
    IN_PROGRESS,
    NEW,
    SKIPPED,
    SUCCESSFUL,
    UNKNOWN,
    JobStatus,
    NodeEntry,
    NodeUpgradeJob,
)
from beehive.messages.objects import RecordEvent
from modules.taskmanager import codes
from modules.taskmanager.job.summary import some

_EACH = 3
"""So many failures are told one by one; then only each tenth of the job."""
_CLOSED = (SUCCESSFUL, FAILURE, UNKNOWN, SKIPPED)
_ENDED = (COMPLETED, FAILURE)


def events(before: JobStatus, job: NodeUpgradeJob, nodes: Mapping[str, Node]) -> tuple[RecordEvent, ...]:
    """What is worth telling of a status that was just written; `job` is the object as answered. Its end comes last."""
    changed = tuple(_changed(before, job.status))
    head, progress = tuple(_head(before, job)), tuple(_progress(before, job, changed))
    told = (*progress, *head) if job.status.phase in _ENDED else (*head, *progress)
    return (*told, *_of_nodes(job, changed, nodes))


def _changed(before: JobStatus, after: JobStatus) -> Iterator[tuple[NodeEntry | None, NodeEntry]]:
    old = before.node_status or ()
    for index, entry in enumerate(after.node_status or ()):
        former = old[index] if index < len(old) else None
        if former is not entry and (former is None or former.phase != entry.phase):
            yield former, entry


def _head(before: JobStatus, job: NodeUpgradeJob) -> Iterator[RecordEvent]:
    status, spec = job.status, job.spec
    if before.phase == NEW and status.reason == codes.INVALID:
        wrong = next((one.message for one in status.conditions or () if one.type == "Accepted"), "")
        yield _on_job(job, codes.INVALID, wrong, warning=True)
    elif before.phase == NEW:
        text = f"{codes.nodes(status.total)}, {spec.concurrency} at a time, tolerance {spec.failure_tolerate or '0.1'}"
        yield _on_job(job, "Started", text)
    elif status.phase != before.phase and status.phase in _ENDED:
        failed = status.phase == FAILURE
        text = f"{status.successful} upgraded, {status.failed + status.unknown} failed, {status.skipped} skipped"
        yield _on_job(job, status.reason or status.phase, text, warning=failed)
    elif before.phase in _ENDED and status.phase == IN_PROGRESS:
        yield _on_job(job, "Retried", f"{codes.nodes(status.pending + status.in_progress)} to do again")


def _progress(
    before: JobStatus, job: NodeUpgradeJob, changed: Sequence[tuple[NodeEntry | None, NodeEntry]]
) -> Iterator[RecordEvent]:
    status = job.status
    good = [entry.node_name for _, entry in changed if entry.phase == SUCCESSFUL]
    if good and _passed_tenth(before.successful, status.successful, status.total):
        yield _on_job(job, "NodesUpgraded", f"{some(good)} upgraded to {job.spec.version}; {status.done} done")
    bad = [entry for former, entry in changed if former and entry.phase in (FAILURE, UNKNOWN)]
    failed, was = status.failed + status.unknown, before.failed + before.unknown
    if bad and failed <= _EACH:
        for entry in bad:
            yield _on_job(job, "NodeFailed", f"{entry.node_name}: {_why(entry, job)}", warning=True)
    elif bad and (was < _EACH or _passed_tenth(was, failed, status.total)):
        text = f"{some([entry.node_name for entry in bad])}; {failed} failed so far"
        yield _on_job(job, "NodesFailed", text, warning=True)


class Line(Struct, frozen=True):
    """One line of the log."""

    text: str
    about: dict[str, object]
    warning: bool = False


def log_lines(before: JobStatus, job: NodeUpgradeJob) -> Iterator[Line]:
    """What an operator would act on, of a status that was just written."""
    status, name = job.status, job.metadata.name
    if before.phase == NEW:
        yield Line(
            "job began", {"job": name, "version": job.spec.version, "nodes": status.total, "phase": status.phase}
        )
    for former, entry in _changed(before, status):
        if former is not None and (entry.phase == IN_PROGRESS or entry.phase in _CLOSED):
            yield _of_entry(job, entry)
    if status.phase != before.phase and status.phase in _ENDED:
        counts = {"upgraded": status.successful, "failed": status.failed + status.unknown, "skipped": status.skipped}
        about = {"job": name, "phase": status.phase, "reason": status.reason, **counts}
        yield Line("job ended", {key: value for key, value in about.items() if value != ""}, status.phase == FAILURE)


def _of_entry(job: NodeUpgradeJob, entry: NodeEntry) -> Line:
    about: dict[str, object] = {"job": job.metadata.name, "node": entry.node_name, "attempt": entry.attempt}
    if entry.phase == IN_PROGRESS:
        return Line("node dispatched", {**about, "version": job.spec.version})
    if entry.phase == SUCCESSFUL:
        return Line("node upgraded", {**about, "version": job.spec.version})
    text = "node skipped" if entry.phase == SKIPPED else "node failed"
    about = {**about, "code": entry.reason_code, "reason": _why(entry, job)}
    return Line(text, about, entry.phase != SKIPPED)


def _passed_tenth(was: int, now: int, total: int) -> bool:
    return now > was and (now == total or 10 * now // max(1, total) > 10 * was // max(1, total))


def _of_nodes(
    job: NodeUpgradeJob, changed: Sequence[tuple[NodeEntry | None, NodeEntry]], nodes: Mapping[str, Node]
) -> Iterator[RecordEvent]:
    for former, entry in changed:
        node = nodes.get(entry.node_name)
        if node is None or former is None:
            continue
        if entry.phase == IN_PROGRESS:
            yield _on_node(node, "UpgradeStarted", f"job {job.metadata.name}: to {job.spec.version}")
        elif entry.phase in _CLOSED:
            failed = entry.phase in (FAILURE, UNKNOWN)
            reason = {SUCCESSFUL: "Upgraded", SKIPPED: "UpgradeSkipped"}.get(entry.phase, "UpgradeFailed")
            yield _on_node(node, reason, f"job {job.metadata.name}: {_why(entry, job)}", warning=failed)


def _why(entry: NodeEntry, job: NodeUpgradeJob) -> str:
    return entry.reason or codes.explain(entry.phase, entry.reason_code, job.spec.version)


def _on_job(job: NodeUpgradeJob, reason: str, note: str, warning: bool = False) -> RecordEvent:
    meta = job.metadata
    return RecordEvent(
        kind="NodeUpgradeJob", name=meta.name, uid=meta.uid, warning=warning, reason=reason, note=note[:1000]
    )


def _on_node(node: Node, reason: str, note: str, warning: bool = False) -> RecordEvent:
    meta = node.metadata
    return RecordEvent(kind="Node", name=meta.name, uid=meta.uid, warning=warning, reason=reason, note=note[:1000])
