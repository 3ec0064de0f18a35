"""Frames -> typed messages. Everything here raises Refused and nothing else, whatever the bytes are."""

import math
import re
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from beehive.api.nodeupgradejob import CHECK
from beehive.errors import Refused
from beehive.messages.tasks import Downstream, Hello, ReportSeen, StartTask, TaskReport, Upstream
from beehive.messages.wire.frame import REPORT, Frame, Header, Other, Read, Route, decode, decoded
from beehive.messages.wire.kubeedge import (
    LEGACY_ATTEMPT,
    LEGACY_UID,
    Task,
    legacy_report,
    legacy_task,
    task_of,
)
from beehive.messages.wire.writing import HELLO, OPERATIONS

FromEdge: TypeAlias = Read[Upstream | Other]
FromCloud: TypeAlias = Read[Downstream | Other]

MOST_RESULTS = 64


def from_edge(data: bytes) -> FromEdge:
    """A frame that a node sent. Raises Refused."""
    frame, header, route = decode(data)
    task = task_of(route.resource)
    if task is None or route.operation not in (REPORT, HELLO):
        return _other(frame, header, route)
    body: Upstream
    if route.operation == HELLO:
        body = _own(frame.beehive, _HELLO)
    elif frame.beehive is UNSET:
        body = legacy_report(frame.content, task)
    else:
        body = _own(frame.beehive, _REPORT)
    _check(body, task, route)
    return Read(header.msg_id, header.parent_msg_id or "", task.node, body)


def from_cloud(data: bytes) -> FromCloud:
    """A frame that the cloud sent. Raises Refused."""
    frame, header, route = decode(data)
    task = task_of(route.resource)
    decoder = _DOWN.get(route.operation)
    if task is None or decoder is None or (frame.beehive is UNSET and route.operation != CHECK):
        return _other(frame, header, route)
    body: Downstream
    legacy = frame.beehive is UNSET
    body = legacy_task(frame.content, header.msg_id, task) if legacy else _own(frame.beehive, decoder)
    _check(body, task, route)
    return Read(header.msg_id, header.parent_msg_id or "", task.node, body)


def is_legacy(message: TaskReport | StartTask) -> bool:
    """It came from a peer that knows neither uid nor attempt."""
    return message.attempt == LEGACY_ATTEMPT


def _other(frame: Frame, header: Header, route: Route) -> Read[Any]:
    return Read(header.msg_id, header.parent_msg_id or "", "", Other(route.operation, route.resource, frame))


def _own(part: Raw | UnsetType, decoder: "msgspec.json.Decoder[Any]") -> Any:
    if isinstance(part, UnsetType):
        raise Refused("a message of our own kind came without its `beehive` part")
    return decoded(part, decoder, "the `beehive` part of a message")


def _check(body: Upstream | Downstream, task: Task, route: Route) -> None:
    """Everything from outside that may later reach a path, a key or a log line has the shape that it must have."""
    what = route.operation
    if not task.possible:
        raise Refused(f"{what} names a job or a node that cannot exist")
    if body.job != task.job:
        raise Refused(f"{what} is about another job than its resource")
    seconds = 0.0
    legacy = False
    if isinstance(body, TaskReport):
        legacy = body.attempt == LEGACY_ATTEMPT and body.uid == LEGACY_UID
        seconds = body.wait_seconds
        if len(body.results) > MOST_RESULTS or body.revision < 0:
            raise Refused(f"{what} carries more than {MOST_RESULTS} results, or a negative revision")
    elif isinstance(body, StartTask | ReportSeen):
        seconds = body.lease_seconds
    if not (legacy or _UID.fullmatch(body.uid)) or not LEGACY_ATTEMPT <= body.attempt < 1 << 31:
        raise Refused(f"{what} carries a uid or an attempt that cannot be")
    if not 0.0 <= seconds < math.inf:
        raise Refused(f"{what} carries a duration that cannot be")


_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_REPORT = msgspec.json.Decoder(TaskReport)
_HELLO = msgspec.json.Decoder(Hello)
_DOWN: dict[str, msgspec.json.Decoder[Any]] = {name: msgspec.json.Decoder(kind) for kind, name in OPERATIONS.items()}
