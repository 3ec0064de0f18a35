"""What can be said of a node before it is told anything: at Init, and again just before its mark."""

from beehive.api.node import Node, is_edge, is_ready, version_of
from beehive.api.nodeupgradejob import FAILURE, PENDING, SKIPPED, NodeEntry, NodeUpgradeJobSpec
from beehive.api.version import is_newer, same
from beehive.world import rfc3339
from modules.taskmanager import codes
from modules.taskmanager.job.entries import moved
from modules.taskmanager.job.view import Scene


def first_entry(name: str, spec: NodeUpgradeJobSpec, scene: Scene) -> NodeEntry:
    """The entry that Init writes."""
    entry = NodeEntry(node_name=name, phase=PENDING, attempt=spec.retry + 1, since=rfc3339(scene.now))
    return lasting(entry, spec, scene) or entry


def lasting(entry: NodeEntry, spec: NodeUpgradeJobSpec, scene: Scene) -> NodeEntry | None:
    """The entry closed for a reason that waiting does not mend; None when there is none."""
    node = scene.nodes.get(entry.node_name)
    code = _lasting_code(node, spec)
    if not code:
        return None
    phase = FAILURE if code in (codes.NOT_FOUND, codes.NOT_AN_EDGE_NODE) else SKIPPED
    return moved(entry, scene.now, phase, code, _sentence(code, node, spec))


def _lasting_code(node: Node | None, spec: NodeUpgradeJobSpec) -> str:
    if node is None:
        return codes.NOT_FOUND
    if not is_edge(node):
        return codes.NOT_AN_EDGE_NODE
    version = version_of(node)
    if same(version, spec.version):
        return codes.ALREADY_AT_VERSION
    return codes.NEWER if not spec.allow_downgrade and is_newer(version, spec.version) else ""


def _sentence(code: str, node: Node | None, spec: NodeUpgradeJobSpec) -> str:
    if code == codes.NEWER and node is not None:
        return f"runs {codes.version_word(version_of(node))}, which is newer, and allowDowngrade is false"
    return codes.explain("", code, spec.version)


def offline(name: str, scene: Scene) -> tuple[str, str, float | None]:
    """Why the node cannot be reached: code, sentence, and when it can be said. Empty code: it can, or it is too early.

    A node without a session is called so only after `offline_after`, counted at the earliest from when this leader
    could see sessions at all.
    """
    gone = scene.fleet.gone_since(name)
    if gone is not None:
        if not scene.fleet.open_since:
            return "", "the hub is not open yet", None
        at = gone + scene.fleet.offline_after
        if scene.now < at:
            return "", f"no session since {rfc3339(gone)}", at
        return codes.NOT_CONNECTED, f"not connected since {rfc3339(gone)}", at
    node = scene.nodes.get(name)
    if node is not None and not is_ready(node):
        return codes.NOT_READY, "its node is not ready", None
    return "", "", None
