"""The wire: KubeEdge's message JSON <-> typed messages. Pure.

One websocket text frame is one JSON object (spec/kubeedge.md 4.4, 4.5, 5.3): `header`, `route`, `content`, in the order
and with the escapes of Go's encoder, and a newline. Between our own ends one more top-level key, `beehive`, holds the
whole typed message; Go ignores it, and `content` stays exactly what a KubeEdge peer expects. So a field that is added to
a message in `tasks.py` needs a default, or an older end refuses the newer one's frames.

| Typed message | operation | content | `beehive` |
|---|---|---|---|
| StartTask | `Check` | the job's spec in KubeEdge's keys, image never empty, no node list, host or token | yes |
| TaskReport | `UpdateNodeActionStatus` | KubeEdge's five keys, from the action that ended last | yes |
| ReportSeen | `response`, `parent_msg_id` | `"OK"` | yes |
| CancelTask SendSnapshot Hello | their own names | null; never to a peer without `Beehive-Protocol: 1` | yes |

Without the key (a **legacy** peer) a report is a TaskReport with uid `""` and attempt -1, revision 0; a task is a
StartTask whose uid is its message id, attempt -1, with a lease that does not end. `is_legacy` tells.

Policy for what cannot be used: reading raises `Refused` with a sentence for what is not JSON, larger than 1 MiB, or one of
our own operations in the wrong shape; every other operation is an `Other`, never an error. What to do with the
connection is the hub's decision (`modules/cloudhub/peer.py`, `modules/edgehub/uplink.py`).
"""

import math
import re
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from beehive.api.nodeupgradejob import BACK_UP, CHECK, DEFAULT_IMAGE, DEFAULT_TIMEOUT, ROLL_BACK, UPGRADE
from beehive.api.nodeupgradejob import GROUP as API_GROUP
from beehive.api.nodeupgradejob import VERSION as API_VERSION
from beehive.api.nodeupgradejob import WAITING_CONFIRMATION, ActionResult
from beehive.errors import Refused
from beehive.messages.tasks import (
    CancelTask,
    Downstream,
    Hello,
    ReportSeen,
    SendSnapshot,
    StartTask,
    TaskReport,
    TaskSpec,
    Upstream,
)
from beehive.world import rfc3339

MOST_BYTES = 1 << 20
"""Size limit of a frame, either way."""
MOST_RESULTS = 64
PROTOCOL_HEADER = "Beehive-Protocol"
PROTOCOL = "1"
"""Header of our own ends: in the edge's upgrade request, and in the cloud's answer to it."""
LEGACY_UID, LEGACY_ATTEMPT = "", -1
NO_LEASE = 10 * 365 * 86400.0
"""Seconds: a real CloudCore knows no lease, so what it starts may go on for ever."""

REPORT, RESPONSE, ERROR, KEEPALIVE = "UpdateNodeActionStatus", "response", "error", "keepalive"
CANCEL, SNAPSHOT, HELLO = "CancelTask", "SendSnapshot", "Hello"
CONTROL = ("config", "ping", "pong")
"""Operations that are answered with the content `"ack"` and go no further."""
TASKMANAGER = "taskmanager"


class Header(Struct, frozen=True, gc=False):
    """KubeEdge's message header; the order of the fields is the order on the wire."""

    msg_id: str = ""
    parent_msg_id: str | UnsetType = UNSET
    timestamp: int = 0
    """Milliseconds since the epoch."""
    resourceversion: str | UnsetType = UNSET
    sync: bool | UnsetType = UNSET
    type: str | UnsetType = UNSET


class Route(Struct, frozen=True, gc=False, omit_defaults=True):
    source: str = ""
    destination: str = ""
    group: str = ""
    operation: str = ""
    resource: str = ""


class Frame(Struct, frozen=True, gc=False):
    """One message as it stands on the wire."""

    header: Header | None = None
    route: Route | None = None
    content: Raw = Raw(b"null")
    beehive: Raw | UnsetType = UNSET


class Other(Struct, frozen=True, gc=False):
    """A frame that is none of our messages: keepalives, KubeEdge's other traffic, operations that nobody knows."""

    operation: str
    resource: str
    frame: Frame


B = TypeVar("B")


class Read(Struct, Generic[B], frozen=True, gc=False):
    """What a frame says."""

    message_id: str
    answers: str
    """Id of the message that it answers; empty when it answers none."""
    node: str
    """The node that the resource names; empty for an `Other`. Never trust it before comparing it with the session's."""
    body: B


FromEdge: TypeAlias = Read[Upstream | Other]
FromCloud: TypeAlias = Read[Downstream | Other]


class Task(Struct, frozen=True, gc=False):
    """The parts of the resource of a NodeUpgradeJob task."""

    job: str
    node: str


def is_legacy(message: TaskReport | StartTask) -> bool:
    """It came from a peer that knows neither uid nor attempt."""
    return message.attempt == LEGACY_ATTEMPT


# ---- reading -----------------------------------------------------------------------------------------------------


def from_edge(data: bytes) -> FromEdge:
    """A frame that a node sent. Raises Refused."""
    frame, header, route = _frame(data)
    task = task_of(route.resource)
    if task is None or route.operation not in (REPORT, HELLO):
        return _other(frame, header, route)
    body: Upstream
    if route.operation == HELLO:
        body = _own(frame, _HELLO)
    elif frame.beehive is UNSET:
        body = _legacy_report(frame, task)
    else:
        body = _own(frame, _REPORT)
    _check_names(body, task, route)
    return Read(header.msg_id, header.parent_msg_id or "", task.node, body)


def from_cloud(data: bytes) -> FromCloud:
    """A frame that the cloud sent. Raises Refused."""
    frame, header, route = _frame(data)
    task = task_of(route.resource)
    decoder = _DOWN.get(route.operation)
    if task is None or decoder is None or (frame.beehive is UNSET and route.operation != CHECK):
        return _other(frame, header, route)
    legacy = frame.beehive is UNSET
    body: Downstream = _legacy_task(frame, header, task) if legacy else _own(frame, decoder)
    _check_names(body, task, route)
    return Read(header.msg_id, header.parent_msg_id or "", task.node, body)


def task_of(resource: str) -> Task | None:
    """Job and node of `operations.kubeedge.io/v1alpha2/nodeupgradejob/{job}/node/{node}`; None for anything else."""
    parts = resource.split("/")
    if len(parts) != 6 or parts[:3] != _RESOURCE_PARTS:
        return None
    return Task(parts[3], parts[5])


def is_name(text: str) -> bool:
    """A name of a Kubernetes object or node (RFC 1123 subdomain): safe in a path, a header and a log."""
    return len(text) <= 253 and _NAME.fullmatch(text) is not None


def _frame(data: bytes) -> tuple[Frame, Header, Route]:
    if len(data) > MOST_BYTES:
        raise Refused(f"a frame of {len(data)} bytes is larger than {MOST_BYTES}")
    try:
        frame = _FRAME.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refused(f"a frame is not a message: {_lower(error)}") from None
    return frame, frame.header or Header(), frame.route or Route()


def _other(frame: Frame, header: Header, route: Route) -> Read[Any]:
    return Read(header.msg_id, header.parent_msg_id or "", "", Other(route.operation, route.resource, frame))


def _decoded(raw: Raw, decoder: "msgspec.json.Decoder[B]", what: str) -> B:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refused(f"{what} cannot be read: {_lower(error)}") from None


def _own(frame: Frame, decoder: "msgspec.json.Decoder[B]") -> B:
    if frame.beehive is UNSET:
        raise Refused("a message of our own kind came without its `beehive` part")
    return _decoded(frame.beehive, decoder, "the `beehive` part of a message")


def _lower(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


def _check_names(body: Upstream | Downstream, task: Task, route: Route) -> None:
    """Everything from outside that may later reach a path, a key or a log line has the shape that it must have."""
    if not (is_name(task.job) and is_name(task.node)):
        raise Refused(f"{route.operation} names a job or node that cannot exist")
    if body.job != task.job:
        raise Refused(f"{route.operation} is about another job than its resource")
    legacy = body.attempt == LEGACY_ATTEMPT
    if not (_UID.fullmatch(body.uid) or (legacy and body.uid == LEGACY_UID)) or not -1 <= body.attempt < 1 << 31:
        raise Refused(f"{route.operation} carries a uid or an attempt that cannot be")
    if isinstance(body, TaskReport) and (len(body.results) > MOST_RESULTS or body.revision < 0):
        raise Refused(f"{route.operation} carries more than {MOST_RESULTS} results or a negative revision")
    lasting = getattr(body, "lease_seconds", 0.0), getattr(body, "wait_seconds", 0.0)
    if not all(math.isfinite(seconds) and seconds >= 0 for seconds in lasting):
        raise Refused(f"{route.operation} carries a time that cannot be")


# ---- writing -----------------------------------------------------------------------------------------------------


def to_cloud(body: Upstream, node: str, message_id: str, now: float) -> bytes:
    """What a node says, as a frame; `now` in seconds since the epoch."""
    if isinstance(body, Hello):
        return _written(body, node, message_id, now, HELLO, None, source="websocket", group="hub")
    content = _five_keys(body, body.results[-1] if body.results else ActionResult(action=body.action, status="True"))
    return _written(body, node, message_id, now, REPORT, content, source="websocket", group="hub")


def to_legacy_cloud(report: TaskReport, result: ActionResult, node: str, message_id: str, now: float) -> bytes:
    """One result of a report, as a real CloudCore reads it: one ended action a message."""
    route = Route("websocket", "", "hub", REPORT, _resource(report.job, node))
    return encode(Frame(Header(message_id, timestamp=_millis(now)), route, _raw(_five_keys(report, result))))


def to_edge(body: Downstream, node: str, message_id: str, now: float, answers: str = "") -> bytes:
    """What the cloud says to one of our own edges, as a frame; `answers` is the id of the node's message."""
    content: object = None
    operation = _OPERATIONS[type(body)]
    if isinstance(body, StartTask):
        content = _spec(body.spec)
    elif isinstance(body, ReportSeen):
        content = "OK"
    return _written(body, node, message_id, now, operation, content, answers)


def to_legacy_edge(body: StartTask, node: str, message_id: str, now: float) -> bytes:
    """The only thing that a real EdgeCore may ever be told, in exactly CloudCore's form."""
    route = Route(TASKMANAGER, "", TASKMANAGER, CHECK, _resource(body.job, node))
    return encode(Frame(Header(message_id, timestamp=_millis(now)), route, _raw(_spec(body.spec))))


def keepalive(message_id: str, now: float) -> bytes:
    """What an edge says every 15 s."""
    route = Route("websocket", "", "resource", KEEPALIVE, "node")
    return encode(Frame(Header(message_id, timestamp=_millis(now)), route, Raw(b'"ping"')))


def answer(read: Read[Any], operation: str, text: str, message_id: str, now: float) -> bytes:
    """A `response` or an `error` to a message, with a text as content; never answer one of these two."""
    asked = read.body.frame.route if isinstance(read.body, Other) else None
    route = asked or Route()
    header = Header(message_id, read.message_id or UNSET, _millis(now))
    return encode(Frame(header, Route(TASKMANAGER, "", route.group, operation, route.resource), _raw(text)))


def encode(frame: Frame) -> bytes:
    """As Go's encoder writes it: `<`, `>`, `&` and two line separators escaped, a newline at the end."""
    data = _ENCODER.encode(frame)
    for plain, escaped in _GO_ESCAPES:
        if plain in data:
            data = data.replace(plain, escaped)
    return data + b"\n"


def _written(
    body: Upstream | Downstream, node: str, message_id: str, now: float, operation: str, content: object,
    answers: str = "", source: str = TASKMANAGER, group: str = TASKMANAGER,
) -> bytes:  # fmt: skip
    header = Header(message_id, answers or UNSET, _millis(now))
    route = Route(source, "", group, operation, _resource(body.job, node))
    return encode(Frame(header, route, _raw(content), _raw(body)))


def _millis(now: float) -> int:
    return int(now * 1000)


def _raw(value: object) -> Raw:
    return Raw(_ENCODER.encode(value))


def _resource(job: str, node: str) -> str:
    return f"{RESOURCE}/{job}/node/{node}"


# ---- KubeEdge's contents -----------------------------------------------------------------------------------------


class _Pins(Struct, frozen=True, gc=False, omit_defaults=True):
    arm64: str = ""
    amd64: str = ""


class _Spec(Struct, frozen=True, gc=False, rename="camel"):
    """The keys of a job's spec that concern one node, in the order of Go's Struct."""

    version: str
    timeout_seconds: int | None | UnsetType = UNSET
    image: str = ""
    image_digest_gatter: _Pins | None = None
    check_items: tuple[str, ...] | None | UnsetType = UNSET
    require_confirmation: bool | UnsetType = UNSET


class _Status(Struct, frozen=True, gc=False, rename="camel"):
    """The five keys of a report."""

    action: str
    succ: bool = False
    finish_time: str = ""
    reason: str = ""
    extend: str = ""


def _spec(spec: TaskSpec) -> _Spec:
    pins = None
    if spec.digests is not None:
        pins = _Pins(spec.digests.get("arm64", ""), spec.digests.get("amd64", ""))
    return _Spec(
        version=spec.version,
        timeout_seconds=spec.timeout_seconds,
        image=spec.image or DEFAULT_IMAGE,
        image_digest_gatter=pins,
        check_items=spec.check_items or UNSET,
        require_confirmation=spec.require_confirmation or UNSET,
    )


def _legacy_task(frame: Frame, header: Header, task: Task) -> StartTask:
    spec = _decoded(frame.content, _SPEC, "the spec of a Check")
    pins = spec.image_digest_gatter
    digests = None if pins is None else {k: v for k, v in (("arm64", pins.arm64), ("amd64", pins.amd64)) if v}
    return StartTask(
        job=task.job,
        uid=header.msg_id,
        attempt=LEGACY_ATTEMPT,
        lease_seconds=NO_LEASE,
        spec=TaskSpec(
            version=spec.version,
            image=spec.image or DEFAULT_IMAGE,
            digests=digests,
            check_items=spec.check_items or (),
            require_confirmation=bool(spec.require_confirmation),
            timeout_seconds=spec.timeout_seconds or DEFAULT_TIMEOUT,
        ),
    )


def _five_keys(report: TaskReport, result: ActionResult) -> _Status:
    succeeded = result.status == "True"
    extend = ""
    if result.action in _WITH_VERSIONS:
        extend = ",".join(version.replace(",", "") for version in (report.from_version, report.to_version))
    return _Status(result.action, succeeded, result.time, "" if succeeded else result.reason, extend)


def _legacy_report(frame: Frame, task: Task) -> TaskReport:
    status = _decoded(frame.content, _STATUS, "the report of a node")
    if status.action not in _FAILURES:
        raise Refused(f"a report names the action {status.action[:40]!r}, which no upgrade has")
    failed = not status.succ
    code = _FAILURES[status.action] if failed else _SUCCESSES.get(status.action)
    before, _, after = status.extend.partition(",")
    result = ActionResult(
        action=status.action, status="False" if failed else "True", reason=status.reason, time=status.finish_time
    )
    return TaskReport(
        job=task.job, uid=LEGACY_UID, attempt=LEGACY_ATTEMPT, revision=0, action=status.action, results=(result,),
        final=code is not None, code=code or "", reason=status.reason, from_version=before, to_version=after,
    )  # fmt: skip


def legacy_status(resource: str, node: str, action: str, reason: str, message_id: str, now: float) -> bytes:
    """A failed report about a v1alpha2 task of any kind, in KubeEdge's form: `resource` is that of the task."""
    route = Route("websocket", "", "hub", REPORT, resource)
    status = _Status(action, succ=False, finish_time=rfc3339(now), reason=reason)
    return encode(Frame(Header(message_id, timestamp=_millis(now)), route, _raw(status)))


RESOURCE = f"{API_GROUP}/{API_VERSION}/nodeupgradejob"
_RESOURCE_PARTS = RESOURCE.split("/")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_WITH_VERSIONS = frozenset((BACK_UP, UPGRADE, ROLL_BACK))
_FAILURES = {  # final when it failed, with this code; None: the flow goes on (spec/kubeedge.md 4.5)
    CHECK: "CheckFailed", WAITING_CONFIRMATION: "Rejected", BACK_UP: "BackUpFailed", UPGRADE: None,
    ROLL_BACK: "RollbackFailed",
}  # fmt: skip
_SUCCESSES = {UPGRADE: "", ROLL_BACK: "RolledBack"}
"""Final when it went well."""
_OPERATIONS = {StartTask: CHECK, CancelTask: CANCEL, SendSnapshot: SNAPSHOT, ReportSeen: RESPONSE}
_GO_ESCAPES = (
    (b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"),
)  # fmt: skip
_ENCODER = msgspec.json.Encoder()
_FRAME = msgspec.json.Decoder(Frame)
_SPEC = msgspec.json.Decoder(_Spec)
_STATUS = msgspec.json.Decoder(_Status)
_REPORT = msgspec.json.Decoder(TaskReport)
_HELLO = msgspec.json.Decoder(Hello)
_DOWN: dict[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(kind) for kind, name in _OPERATIONS.items()
}  # fmt: skip
