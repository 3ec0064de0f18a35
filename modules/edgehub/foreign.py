"""KubeEdge's other tasks (v1alpha1, ImagePrePullJob, ConfigUpdateJob): a failed report in their own form. Pure.

We do none of them. A cloud that asks gets its answer at once instead of waiting for its timeout (product.md 5).
"""

import msgspec
from msgspec import Struct

from beehive.messages import wire
from beehive.world import rfc3339

REASON = "this node runs Beehive, which does NodeUpgradeJobs of v1alpha2 only"
_V2 = ("imageprepulljob", "configupdatejob")
_ACTIONS = ("Check", "WaitingConfirmation", "BackUp", "Upgrade", "RollBack", "Pull", "Update")
"""Operations of the second generation (spec/kubeedge.md 1.3, 1.5); a report or an error is none of them."""
_V1 = ("upgrade", "prepull")
_EVENTS = {  # state that a v1alpha1 request names -> event of the report (spec/kubeedge.md 7.9)
    "": "Init", "Init": "Init", "Checking": "Check", "BackingUp": "Backup", "Upgrading": "Upgrade",
    "RollingBack": "Rollback", "Pulling": "Pull",
}  # fmt: skip


class _Request(Struct, frozen=True, rename="pascal"):
    state: str | None = None
    upgrade_id: str = msgspec.field(name="UpgradeID", default="")


class _Response(Struct, frozen=True, rename="pascal"):
    """NodeTaskResponse (spec/kubeedge.md 4.7)."""

    node_name: str
    state: str
    event: str
    action: str
    reason: str
    time: str
    external_message: str = ""


def answer(other: wire.Other, node: str, message_id: str, now: float) -> bytes | None:
    """The failed report to a task of another kind; None for what is no task, or not this node's."""
    parts = other.resource.split("/")
    second = len(parts) == 6 and parts[0] == "operations.kubeedge.io" and parts[2] in _V2 and parts[5] == node
    if second and other.operation in _ACTIONS:
        return wire.legacy_status(other.resource, other.operation, REASON, message_id, now)
    if len(parts) == 4 and parts[0] in _V1 and parts[3] == node and other.operation in _V1:
        return _first_generation(other, parts[1], node, message_id, now)
    return None


def _first_generation(other: wire.Other, task: str, node: str, message_id: str, now: float) -> bytes:
    try:
        request = msgspec.json.decode(other.frame.content, type=_Request)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        request = _Request("")
    # Nodes below v1.16 get the bare request, without a state, and answer for the whole upgrade.
    event = "Upgrade" if request.state is None else _EVENTS.get(request.state, "Init")
    body = _Response(node, "", event, "Failure", REASON, rfc3339(now))
    route = wire.Route("websocket", "", "hub", other.operation, f"task/{task}/node/{node}")
    header = wire.Header(message_id, timestamp=int(now * 1000))
    return wire.encode(wire.Frame(header, route, msgspec.Raw(msgspec.json.encode(body))))
