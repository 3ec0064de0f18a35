"""KubeEdge's own contents and names: the spec that goes down, the five keys that come up, the resource of a task."""

import re
from functools import lru_cache

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from beehive.api.nodeupgradejob import (
    API_VERSION,
    BACK_UP,
    CHECK,
    DEFAULT_IMAGE,
    DEFAULT_TIMEOUT,
    ROLL_BACK,
    UPGRADE,
    WAITING_CONFIRMATION,
    ActionResult,
)
from beehive.errors import Refused
from beehive.messages.tasks import StartTask, TaskReport, TaskSpec
from beehive.messages.wire.frame import decoded

LEGACY_UID, LEGACY_ATTEMPT = "", -1
NO_LEASE = 10 * 365 * 86400.0
"""Seconds: a real CloudCore knows no lease, so what it starts may go on for ever."""

RESOURCE = f"{API_VERSION}/nodeupgradejob"
_RESOURCE_PARTS = RESOURCE.split("/")
_LONGEST_RESOURCE = 600
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Task(Struct, frozen=True, gc=False):
    """The parts of the resource of a NodeUpgradeJob task."""

    job: str
    node: str
    possible: bool
    """A job and a node can be called so."""


def task_of(resource: str) -> Task | None:
    """Job and node of `operations.kubeedge.io/v1alpha2/nodeupgradejob/{job}/node/{node}`; None for anything else."""
    return _remembered(resource) if len(resource) <= _LONGEST_RESOURCE else _task_of(resource)


def _task_of(resource: str) -> Task | None:
    parts = resource.split("/")
    if len(parts) != 6 or parts[:3] != _RESOURCE_PARTS:
        return None
    return Task(parts[3], parts[5], is_name(parts[3]) and is_name(parts[5]))


_remembered = lru_cache(4096)(_task_of)
"""A node says the same again and again. What a peer may make us remember has an end: 4,096 times 600 bytes."""


def resource_of(job: str, node: str) -> str:
    """The inverse of `task_of`."""
    return f"{RESOURCE}/{job}/node/{node}"


def is_name(text: str) -> bool:
    """A name of a Kubernetes object or node (RFC 1123 subdomain): safe in a path, a header and a log."""
    return len(text) <= 253 and _NAME.fullmatch(text) is not None


# ---- the spec ----------------------------------------------------------------------------------------------------


class Pins(Struct, frozen=True, gc=False, omit_defaults=True):
    """The digests that KubeEdge has a place for."""

    arm64: str = ""
    amd64: str = ""


class Spec(Struct, frozen=True, gc=False, rename="camel"):
    """The keys of a job's spec that concern one node, in the order of Go's struct (spec/kubeedge.md 4.4)."""

    version: str
    timeout_seconds: int | UnsetType | None = UNSET
    image: str | None = ""
    image_digest_gatter: Pins | None = None
    check_items: tuple[str, ...] | UnsetType | None = UNSET
    require_confirmation: bool | UnsetType = UNSET


def spec_of(spec: TaskSpec) -> Spec:
    """What a real EdgeCore must know; pins of other architectures make it refuse, as they should."""
    pins = None
    if spec.digests is not None:
        pins = Pins(spec.digests.get("arm64", ""), spec.digests.get("amd64", ""))
    return Spec(
        version=spec.version,
        timeout_seconds=spec.timeout_seconds,
        image=spec.image or DEFAULT_IMAGE,
        image_digest_gatter=pins,
        check_items=spec.check_items or UNSET,
        require_confirmation=spec.require_confirmation or UNSET,
    )


def legacy_task(content: Raw, message_id: str, task: Task) -> StartTask:
    """A real CloudCore's `Check`. Raises Refused."""
    spec = decoded(content, _SPEC, "the spec of a Check")
    pins = spec.image_digest_gatter
    digests = None if pins is None else {k: v for k, v in (("arm64", pins.arm64), ("amd64", pins.amd64)) if v}
    return StartTask(
        job=task.job,
        uid=message_id,
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


# ---- the report --------------------------------------------------------------------------------------------------


class Status(Struct, frozen=True, gc=False, rename="camel"):
    """The five keys of a report (spec/kubeedge.md 4.5)."""

    action: str
    succ: bool = False
    finish_time: str = ""
    reason: str = ""
    extend: str = ""
    """`{from},{to}` with exactly one comma, or empty."""


def status_of(report: TaskReport, result: ActionResult) -> Status:
    """One ended action, as KubeEdge says it."""
    succeeded = result.status == "True"
    extend = ""
    if result.action in (BACK_UP, UPGRADE, ROLL_BACK):
        extend = ",".join(version.replace(",", "") for version in (report.from_version, report.to_version))
    return Status(result.action, succeeded, result.time, "" if succeeded else result.reason, extend)


def legacy_report(content: Raw, task: Task) -> TaskReport:
    """A real EdgeCore's report of one action. Raises Refused."""
    status = decoded(content, _STATUS, "the report of a node")
    if status.action not in CODES:
        raise Refused(f"a report names the action {status.action[:40]!r}, which no upgrade has")
    code = CODES[status.action][status.succ]
    before, _, after = status.extend.partition(",")
    result = ActionResult(action=status.action, status=str(status.succ), reason=status.reason, time=status.finish_time)
    return TaskReport(
        job=task.job,
        uid=LEGACY_UID,
        attempt=LEGACY_ATTEMPT,
        revision=0,
        action=status.action,
        results=(result,),
        final=code is not None,
        code=code or "",
        reason=status.reason,
        from_version=before,
        to_version=after,
    )


CODES: dict[str, tuple[str | None, str | None]] = {
    CHECK: ("CheckFailed", None),
    WAITING_CONFIRMATION: ("Rejected", None),
    BACK_UP: ("BackUpFailed", None),
    UPGRADE: (None, ""),
    ROLL_BACK: ("RollbackFailed", "RolledBack"),
}
"""Action -> (code when it failed, code when it went well); None where the flow goes on (spec/kubeedge.md 4.5)."""
_SPEC = msgspec.json.Decoder(Spec)
_STATUS = msgspec.json.Decoder(Status)
