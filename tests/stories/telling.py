"""How a message reads in a transcript: one short line that a newcomer understands."""

from collections.abc import Iterable
from typing import Any

import msgspec

from beehive.message import Envelope, kind
from beehive.messages.fleet import Heard, Tell
from beehive.messages.host import Inspect, RunStep, StepDone
from beehive.messages.objects import (
    JobChanged,
    JobGone,
    LeadershipChanged,
    NodeChanged,
    PatchJob,
    PatchJobStatus,
    PatchNode,
    PatchOperation,
    RecordEvent,
)  # fmt: skip
from beehive.messages.tasks import CancelTask, Hello, ReportSeen, SendSnapshot, StartTask, TaskReport
from beehive.messages.uplink import Say

_WIDTH = 118


def line(side: str, receiver: str, envelope: Envelope) -> str | None:
    """`cloud   taskmanager -> cloudhub  Tell edge-1: StartTask attempt 1`; None for what no reader needs."""
    if isinstance(envelope.body, LeadershipChanged):
        return None
    said = f"{side:<7} {envelope.source} -> {receiver}  {kind(envelope.body)} {brief(envelope.body)}".rstrip()
    return said if len(said) <= _WIDTH else f"{said[: _WIDTH - 1]}…"


def brief(body: object) -> str:
    """What matters of it."""
    told = _OF_THE_WIRE.get(type(body)) or _OF_THE_CLOUD.get(type(body)) or _OF_THE_HOST.get(type(body))
    return told(body) if told else _plain(body)


def _plain(body: object) -> str:
    fields = {name: value for name, value in msgspec.to_builtins(body).items() if name != "type" and value}
    return " ".join(f"{name}={value}" for name, value in fields.items() if not isinstance(value, dict | list | tuple))


def _report(body: TaskReport) -> str:
    results = " ".join(f"{one.action}={one.status}" for one in body.results)
    end = f" final {body.code or 'success'}" if body.final else f" {body.code}" if body.code else ""
    return f"attempt {body.attempt} revision {body.revision}: {results or body.action}{end}"


def _entries(operations: Iterable[PatchOperation]) -> str:
    parts = []
    for one in operations:
        value = msgspec.to_builtins(one.value) if one.value is not msgspec.UNSET else None
        if one.path == "/status" and isinstance(value, dict):
            parts += [f"phase={value['phase']}", *_phases(value.get("nodeStatus") or ())]
        elif one.path.startswith("/status/nodeStatus"):
            parts += _phases(value if isinstance(value, list) else [value])
        elif one.path == "/status/phase":
            parts.append(f"phase={value}")
    return ", ".join(parts) or "counters and conditions"


def _phases(entries: Iterable[Any]) -> list[str]:
    return [
        f"{one['nodeName']} {one['phase']}{'/' + one['reasonCode'] if one.get('reasonCode') else ''}" for one in entries
    ]


def _marks(operations: Iterable[PatchOperation]) -> str:
    """What happens to a Node."""
    parts = []
    for one in operations:
        name = one.path.rpartition("/")[2].replace("~1", "/")
        parts.append(f"{one.op} {name}" + (f"={one.value}" if isinstance(one.value, bool) else ""))
    return ", ".join(parts)


_OF_THE_WIRE: dict[type, Any] = {
    StartTask: lambda body: f"{body.job} attempt {body.attempt} {body.spec.version}",
    CancelTask: lambda body: f"{body.job} attempt {body.attempt}",
    SendSnapshot: lambda body: f"{body.job} attempt {body.attempt}",
    Hello: lambda body: f"{body.job} attempt {body.attempt} {body.action}",
    ReportSeen: lambda body: f"{body.job} attempt {body.attempt} revision {body.revision}",
    TaskReport: _report,
}
_OF_THE_CLOUD: dict[type, Any] = {
    JobChanged: lambda body: f"{body.job.metadata.name} {body.job.status.phase or 'new'}",
    JobGone: lambda body: body.name,
    NodeChanged: lambda body: f"{body.node.metadata.name}{' cordoned' if body.node.spec.unschedulable else ''}",
    PatchJob: lambda body: f"{body.name}: {_marks(body.operations)}",
    PatchJobStatus: lambda body: f"{body.name}: {_entries(body.operations)}",
    PatchNode: lambda body: f"{body.name}: {_marks(body.operations)}",
    RecordEvent: lambda body: f"{body.kind} {body.name} {body.reason}: {body.note}",
    Tell: lambda body: f"{body.node}: {kind(body.body)} {brief(body.body)}",
    Heard: lambda body: f"{body.node}: {kind(body.body)} {brief(body.body)}",
}
_OF_THE_HOST: dict[type, Any] = {
    RunStep: lambda body: f"{body.step} for {body.job} attempt {body.attempt}",
    StepDone: lambda body: f"{body.step} {'ok' if body.ok else body.code} {body.from_version}->{body.to_version}",
    Inspect: lambda body: f"attempt {body.attempt}",
    Say: lambda body: f"{kind(body.body)} {brief(body.body)}",
}
