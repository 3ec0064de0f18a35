"""What a host's tool says by HTTP: KubeEdge's two bodies -> TaskReport (spec/kubeedge.md 5.8, 8.6). Pure.

`POST /nodeupgrade` is the tool's verdict. Ours writes `HistoryID = {uid}.{attempt}`; then it is the final word of that
attempt, with revision 0: the agent's own final word, which tells more, replaces it and is never replaced by it.
KubeEdge's writes a bare uuid, and its word is like that of a real EdgeCore (`is_legacy`).
"""

import re
from typing import TypeVar

import msgspec
from msgspec import Struct

from beehive.api.nodeupgradejob import BACK_UP, CHECK, ROLL_BACK, UPGRADE, ActionResult
from beehive.errors import Refused
from beehive.messages.tasks import TaskReport
from beehive.messages.wire.kubeedge import CODES, LEGACY_ATTEMPT, LEGACY_UID, is_name
from beehive.world import rfc3339

_Body = TypeVar("_Body")

TOO_LARGE = "Request entity too large: the request body can only be up to 1MB in size"
_OWN_HISTORY = re.compile(r"(?P<uid>[A-Za-z0-9][A-Za-z0-9-]{0,63})\.(?P<attempt>[0-9]{1,9})")


class Post(Struct, frozen=True):
    """What a body says."""

    node: str
    """Whom it is about. Never trust it before comparing it with the certificate."""
    report: TaskReport


class _Verdict(Struct, frozen=True, rename="pascal"):
    upgrade_id: str = msgspec.field(name="UpgradeID", default="")
    history_id: str = msgspec.field(name="HistoryID", default="")
    node_name: str = ""
    from_version: str = ""
    to_version: str = ""
    status: str = ""
    reason: str = ""


class _Task(Struct, frozen=True, rename="pascal"):
    """NodeTaskResponse (spec/kubeedge.md 4.7)."""

    node_name: str = ""
    event: str = ""
    action: str = ""
    reason: str = ""
    time: str = ""


def verdict(body: bytes, now: float) -> Post:
    """The body of `POST /nodeupgrade`, received at `now`. Raises Refused with what is wrong with it."""
    said = _read(body, _VERDICT, "failed to marshal task info: ")  # KubeEdge's own words, though it is unmarshalled
    if said.status not in _VERDICTS:
        raise Refused(f"the Status {said.status[:60]!r} is none of {', '.join(_VERDICTS)}")
    uid, attempt = _attempt(said.history_id)
    code, actions, runs = _VERDICTS[said.status]
    return Post(
        said.node_name,
        TaskReport(
            job=_name(said.upgrade_id, "UpgradeID"),
            uid=uid,
            attempt=attempt,
            revision=0,
            action=actions[-1][0],
            results=tuple(_result(action, good, said.reason, rfc3339(now)) for action, good in actions),
            final=True,
            code=code,
            reason=said.reason,
            from_version=said.from_version,
            to_version=getattr(said, runs) if runs else "",
        ),
    )


def task_status(task_type: str, job: str, node: str, body: bytes, now: float) -> Post:
    """The body of `POST /task/{type}/name/{job}/node/{node}/status`, received at `now`. Raises Refused."""
    said = _read(body, _TASK, "failed to unmarshal task info: ")
    if task_type != "upgrade":
        raise Refused(f"tasks of the type {task_type[:40]!r} are not known here; only upgrade is")
    if said.node_name not in ("", node):
        raise Refused(f"the path is about the node {node[:60]!r}, NodeName says {said.node_name[:60]!r}")
    if said.event not in _EVENTS or said.action not in ("Success", "Failure"):
        raise Refused(f"Event {said.event[:40]!r} with Action {said.action[:40]!r} is no result of an upgrade")
    action, good = _EVENTS[said.event], said.action == "Success"
    code = CODES[action][good]
    report = TaskReport(
        job=_name(job, "the path"),
        uid=LEGACY_UID,
        attempt=LEGACY_ATTEMPT,
        revision=0,
        action=action,
        results=(_result(action, good, said.reason, said.time or rfc3339(now)),),
        final=code is not None,
        code=code or "",
        reason=said.reason,
    )
    return Post(node, report)


def _read(body: bytes, decoder: "msgspec.json.Decoder[_Body]", complaint: str) -> _Body:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refused(complaint + (str(error) or "it is nested too deeply")) from None


def _name(job: str, where: str) -> str:
    if not is_name(job):
        raise Refused(f"{where} names the job {job[:60]!r}, and no job can be called so")
    return job


def _attempt(history: str) -> tuple[str, int]:
    own = _OWN_HISTORY.fullmatch(history)
    return (own["uid"], int(own["attempt"])) if own else (LEGACY_UID, LEGACY_ATTEMPT)


def _result(action: str, good: bool, reason: str, time: str) -> ActionResult:
    return ActionResult(action=action, status=str(good), reason="" if good else reason, time=time)


_VERDICTS: dict[str, tuple[str, tuple[tuple[str, bool], ...], str]] = {
    "upgrade_success": ("", ((UPGRADE, True),), "to_version"),
    "upgrade_failed_rollback_success": ("RolledBack", ((UPGRADE, False), (ROLL_BACK, True)), "from_version"),
    "upgrade_failed_rollback_failed": ("RollbackFailed", ((UPGRADE, False), (ROLL_BACK, False)), ""),
}
"""Status -> code, the actions that it tells of, and which of the versions runs now (KubeEdge swaps the last two)."""
_EVENTS = {"Check": CHECK, "Backup": BACK_UP, "Upgrade": UPGRADE, "Rollback": ROLL_BACK}
_VERDICT = msgspec.json.Decoder(_Verdict)
_TASK = msgspec.json.Decoder(_Task)
