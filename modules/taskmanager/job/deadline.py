"""When a node in flight has had its time, and what becomes of it then (product.md 3.1, 3.4.7)."""

from beehive.api.node import is_ready, version_of
from beehive.api.nodeupgradejob import (
    DEFAULT_TIMEOUT,
    FAILURE,
    IN_PROGRESS,
    PENDING,
    SKIPPED,
    SUCCESSFUL,
    UNKNOWN,
    NodeEntry,
    NodeUpgradeJob,
    NodeUpgradeJobSpec,
)
from beehive.api.version import same
from modules.taskmanager import codes
from modules.taskmanager.job.entries import moved, since
from modules.taskmanager.job.verdict import offline
from modules.taskmanager.job.view import Scene

OWNERS_LIMIT = 3600
"""How long a host waits for its owner when it did not say, in seconds."""


def deadline(entry: NodeEntry, spec: NodeUpgradeJobSpec) -> float:
    """When an entry in flight has had its time, in seconds since the epoch."""
    waits = (entry.wait_seconds or OWNERS_LIMIT) if entry.reason_code == codes.WAITING else 0
    return since(entry) + waits + (spec.timeout_seconds or DEFAULT_TIMEOUT)


def expire(job: NodeUpgradeJob, entries: list[NodeEntry], scene: Scene) -> None:
    """Close what has had its time; of the others, remember when to look again.

    What became due while nobody could hear the nodes (no leader, hub closed) is judged `offline_after` after the hub
    opened: until then they may still say what they did, and a budget that was spent for nothing stays spent.
    """
    fleet = scene.fleet
    if not fleet.open_since:
        return
    for index, entry in enumerate(entries):
        if entry.phase != IN_PROGRESS:
            continue
        at = max(deadline(entry, job.spec), fleet.open_since + fleet.offline_after)
        if at <= scene.now:
            entries[index] = _overdue(entry, job.spec, scene)
        else:
            scene.alarms.append(at)


def _overdue(entry: NodeEntry, spec: NodeUpgradeJobSpec, scene: Scene) -> NodeEntry:
    refused = scene.news.cordons.get(entry.node_name)
    if refused is not None and not entry.revision:
        text = codes.sentence(f"it could not be cordoned: {refused}")
        return moved(entry, scene.now, FAILURE, codes.CORDON_FAILED, text)
    if _is_believed(entry, spec, scene):
        return moved(entry, scene.now, SUCCESSFUL, "", "its node shows the version; it did not report")
    gone = scene.fleet.gone_since(entry.node_name)
    if entry.revision or gone is None:
        return moved(entry, scene.now, UNKNOWN, codes.TIMED_OUT, _silence(spec))
    return unreachable(entry, spec, scene, codes.NOT_CONNECTED, offline(entry.node_name, scene)[1])


def _silence(spec: NodeUpgradeJobSpec) -> str:
    return f"no word for {spec.timeout_seconds or DEFAULT_TIMEOUT} s"


def unreachable(entry: NodeEntry, spec: NodeUpgradeJobSpec, scene: Scene, code: str, why: str) -> NodeEntry:
    """What `onOffline` makes of it; `Wait` leaves it, or sets it back."""
    if spec.on_offline == "Wait":
        return entry if entry.phase == PENDING else moved(entry, scene.now, PENDING)
    phase = FAILURE if spec.on_offline == "Fail" else SKIPPED
    return moved(entry, scene.now, phase, code, f"{why}; onOffline is {spec.on_offline}")


def _is_believed(entry: NodeEntry, spec: NodeUpgradeJobSpec, scene: Scene) -> bool:
    """A real EdgeCore whose node is ready at the wanted version: its report may have got lost (product.md 4)."""
    node = scene.nodes.get(entry.node_name)
    legacy = scene.fleet.online.get(entry.node_name, False)
    return legacy and node is not None and is_ready(node) and same(version_of(node), spec.version)
