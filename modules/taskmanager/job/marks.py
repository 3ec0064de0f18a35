"""Which nodes are started next: the older job first, as many as there are slots, while the budget lasts."""

import msgspec

from beehive.api.node import is_etcd, version_of
from beehive.api.nodeupgradejob import DEFAULT_TIMEOUT, IN_PROGRESS, PENDING, NodeEntry, NodeUpgradeJob
from modules.taskmanager import codes
from modules.taskmanager.job.deadline import unreachable
from modules.taskmanager.job.entries import Budget, in_flight, moved, since
from modules.taskmanager.job.summary import Note
from modules.taskmanager.job.verdict import lasting, offline
from modules.taskmanager.job.view import Holder, Scene

BUSY_PAUSE = 30.0
"""A busy node that does not say that it is free is asked again after this many seconds."""


def mark(job: NodeUpgradeJob, entries: list[NodeEntry], scene: Scene) -> list[Note]:
    """Give the free slots away; what waits although there is a slot for it comes back as notes.

    Each mark stands under the budget as it is at that moment: a verdict made here counts before the next mark.
    """
    notes: list[Note] = []
    slots = job.spec.concurrency - in_flight(entries)
    budget = Budget(job.spec.failure_tolerate, entries)
    for index, entry in enumerate(entries):
        if slots <= 0 or budget.exceeded:
            break
        if entry.phase != PENDING:
            continue
        judged, note = _judge(job, entry, scene)
        entries[index] = judged
        budget.count(judged)
        if judged.phase == IN_PROGRESS:
            slots -= 1
            scene.taken[entry.node_name] = Holder(job.metadata.uid, job.metadata.name)
        elif note:
            notes.append(Note(entry.node_name, note))
    return notes


def _judge(job: NodeUpgradeJob, entry: NodeEntry, scene: Scene) -> tuple[NodeEntry, str]:
    """The entry after its turn, and why it still waits."""
    name = entry.node_name
    if other := scene.taken_by_other(name, job):
        return entry, f"in flight for job {other}"
    if waits := _set_back(job, entry, scene):
        return entry, waits
    if closed := lasting(entry, job.spec, scene):
        return closed, ""
    code, why, at = offline(name, scene)
    if code:
        return unreachable(entry, job.spec, scene, code, why), why
    if why:
        if at is not None:
            scene.alarms.append(at)
        return entry, why
    if older := scene.wanted_by_older(name, job):
        return entry, f"job {older} is older and wants it too"
    if beside := _etcd_in_flight(name, scene):
        return entry, f"etcd nodes go one at a time, and {beside} is in flight"
    if name in scene.news.critical:
        return _at_risk(entry, scene), codes.explain(PENDING, codes.QUORUM_AT_RISK, "")
    return _marked(entry, scene), ""


def _set_back(job: NodeUpgradeJob, entry: NodeEntry, scene: Scene) -> str:
    """Why a node that was set back is not marked again yet; a node that cannot be reached cannot answer either."""
    pause, text = 0.0, ""
    if entry.reason_code == codes.BUSY and entry.node_name not in scene.news.free:
        pause, text = BUSY_PAUSE, entry.reason or "busy with another attempt"
    elif entry.reason_code == codes.CANCELLING:
        pause, text = job.spec.timeout_seconds or DEFAULT_TIMEOUT, "still works on an attempt that was set back"
    at = since(entry) + pause
    if not text or scene.now >= at or offline(entry.node_name, scene)[0]:
        return ""
    scene.alarms.append(at)
    return text


def _etcd_in_flight(name: str, scene: Scene) -> str:
    """Another etcd node that is in flight, where this is one too: the verdict about critical nodes is as old as a pass,
    and two members of which each may go may not go together (product.md 7)."""
    if not is_etcd(scene.nodes[name]):
        return ""
    others = (other for other in scene.taken if other != name and other in scene.nodes)
    return next((other for other in others if is_etcd(scene.nodes[other])), "")


def _at_risk(entry: NodeEntry, scene: Scene) -> NodeEntry:
    if entry.reason_code == codes.QUORUM_AT_RISK:
        return entry
    return moved(entry, scene.now, PENDING, codes.QUORUM_AT_RISK, codes.explain(PENDING, codes.QUORUM_AT_RISK, ""))


def _marked(entry: NodeEntry, scene: Scene) -> NodeEntry:
    version = version_of(scene.nodes[entry.node_name])
    begun = msgspec.structs.replace(entry, historic_version=codes.version_word(version), current_version="")
    return moved(begun, scene.now, IN_PROGRESS)
