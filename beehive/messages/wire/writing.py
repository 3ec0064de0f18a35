"""Typed messages -> frames. `now` is always in seconds since the epoch."""

from typing import Any

from msgspec import UNSET

from beehive.api.nodeupgradejob import CHECK, ActionResult
from beehive.messages.tasks import (
    CancelTask,
    Downstream,
    Hello,
    ReportSeen,
    SendSnapshot,
    StartTask,
    TaskReport,
    Upstream,
)
from beehive.messages.wire.frame import (
    KEEPALIVE,
    REPORT,
    RESPONSE,
    Header,
    Other,
    Outgoing,
    Read,
    Route,
    encode,
)
from beehive.messages.wire.kubeedge import Status, resource_of, spec_of, status_of
from beehive.world import rfc3339

HELLO = "Hello"
OPERATIONS: dict[type, str] = {
    StartTask: CHECK,
    CancelTask: "CancelTask",
    SendSnapshot: "SendSnapshot",
    ReportSeen: RESPONSE,
}
"""What goes down. The middle two crash a real EdgeCore."""
_TASKMANAGER = "taskmanager"


def to_cloud(body: Upstream, node: str, message_id: str, now: float) -> bytes:
    """What a node says to our own cloud."""
    route = Route("websocket", "", "hub", HELLO, resource_of(body.job, node))
    if isinstance(body, Hello):
        return encode(Outgoing(_header(message_id, now), route, None, body))
    # Before the first action has ended there is nothing that KubeEdge's five keys could say; our own end does not look.
    result = body.results[-1] if body.results else ActionResult(action=body.action, status="True")
    route = Route("websocket", "", "hub", REPORT, route.resource)
    return encode(Outgoing(_header(message_id, now), route, status_of(body, result), body))


def to_edge(body: Downstream, node: str, message_id: str, now: float, answers: str = "") -> bytes:
    """What the cloud says to one of our own edges; `answers` is the id of the node's message that it answers."""
    content: object = None
    if isinstance(body, StartTask):
        content = spec_of(body.spec)
    elif isinstance(body, ReportSeen):
        content = "OK"
    route = Route(_TASKMANAGER, "", _TASKMANAGER, OPERATIONS[type(body)], resource_of(body.job, node))
    return encode(Outgoing(_header(message_id, now, answers), route, content, body))


def to_legacy_edge(body: StartTask, node: str, message_id: str, now: float) -> bytes:
    """The only thing that a real EdgeCore may ever be told, in exactly CloudCore's form."""
    route = Route(_TASKMANAGER, "", _TASKMANAGER, CHECK, resource_of(body.job, node))
    return encode(Outgoing(_header(message_id, now), route, spec_of(body.spec)))


def to_legacy_cloud(report: TaskReport, result: ActionResult, node: str, message_id: str, now: float) -> bytes:
    """One result of a report, as a real CloudCore reads it: one ended action a message."""
    route = Route("websocket", "", "hub", REPORT, resource_of(report.job, node))
    return encode(Outgoing(_header(message_id, now), route, status_of(report, result)))


def legacy_status(resource: str, action: str, reason: str, message_id: str, now: float) -> bytes:
    """A failed report about a v1alpha2 task of any kind, in KubeEdge's form; `resource` is that of the task."""
    status = Status(action, succ=False, finish_time=rfc3339(now), reason=reason)
    return encode(Outgoing(_header(message_id, now), Route("websocket", "", "hub", REPORT, resource), status))


def keepalive(message_id: str, now: float) -> bytes:
    """What an edge says every 15 s."""
    return encode(Outgoing(_header(message_id, now), Route("websocket", "", "resource", KEEPALIVE, "node"), "ping"))


def answer(read: Read[Any], operation: str, text: str, message_id: str, now: float) -> bytes:
    """A `response` or an `error` to a message, with a text as content. These two are never answered themselves."""
    asked = (read.body.frame.route if isinstance(read.body, Other) else None) or Route()
    route = Route(_TASKMANAGER, "", asked.group, operation, asked.resource)
    return encode(Outgoing(_header(message_id, now, read.message_id), route, text))


def _header(message_id: str, now: float, answers: str = "") -> Header:
    return Header(message_id, answers or UNSET, int(now * 1000))
