"""One node's entry between v1alpha2 and v1alpha1, on plain JSON. Pure; see `convert_status`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from beehive.api import v1alpha1
from beehive.api.v1alpha1 import ROLLBACK_FAILED, ROLLED_BACK, SUCCESS

Json = dict[str, Any]


class Job(NamedTuple):
    """What an entry's history says of its job."""

    uid: str
    version: str


_ENDED = frozenset({"Successful", "Failure", "Unknown", "Skipped"})
_RESULT_OF = {"RolledBack": ROLLED_BACK, "RollbackFailed": ROLLBACK_FAILED}
_OUTCOMES: Mapping[str, tuple[str, str]] = {
    SUCCESS: ("Successful", ""),
    ROLLED_BACK: ("Failure", "RolledBack"),
    ROLLBACK_FAILED: ("Failure", "RollbackFailed"),
}
_PHASES: Mapping[str, str] = {
    "": "Pending",
    v1alpha1.COMPLETED: "Unknown",
    "Successful": "Successful",
    "Failed": "Failure",
}
"""States without a result; every other one is a step at work (spec/kubeedge.md 1.4)."""


def entry_shown(entry: Any, job: Job) -> Any:
    """What v1alpha1 can express of a v1alpha2 entry; what is no entry stays as it is."""
    if not isinstance(entry, dict):
        return entry
    told: Json = {"nodeName": entry["nodeName"]} if "nodeName" in entry else {}
    phase = entry.get("phase")
    if phase == "InProgress":
        told["state"] = v1alpha1.UPGRADING
    elif isinstance(phase, str) and phase in _ENDED:
        told["state"] = v1alpha1.COMPLETED
    else:
        return told
    if history := _history(entry, phase, job):
        told["history"] = history
    return told


def _history(entry: Json, phase: str, job: Job) -> Json:
    attempt, code = entry.get("attempt"), entry.get("reasonCode")
    history: Json = {}
    if attempt and job.uid:
        history["historyID"] = f"{job.uid}.{attempt}"
    if version := entry.get("historicVersion"):
        history["fromVersion"] = version
    if result := _result(entry, phase, code):
        history["result"] = result
    if reason := entry.get("reason") or code:
        history["reason"] = reason
    if since := entry.get("since"):
        history["upgradeTime"] = since
    if history and job.version:
        history["toVersion"] = job.version
    return history


def _result(entry: Json, phase: str, code: Any) -> str:
    """KubeEdge has no code, and calls a node that was rolled back successful (its defect R4)."""
    if phase not in ("Successful", "Failure"):
        return ""
    if code:
        return _RESULT_OF.get(code, "") if isinstance(code, str) and phase == "Failure" else _OF_PHASE[phase]
    flow = entry.get("actionFlow")
    last = flow[-1] if isinstance(flow, list) and flow else None
    if isinstance(last, dict) and last.get("action") == "RollBack":
        return ROLLED_BACK if last.get("status") == "True" else ROLLBACK_FAILED
    return _OF_PHASE[phase]


_OF_PHASE = {"Successful": SUCCESS, "Failure": ""}


def entry_taken(told: Any, below: Any, job: Job) -> Any:
    """`below`, a v1alpha2 entry or none, after a v1alpha1 client wrote the entry `told` over it."""
    if not isinstance(told, dict):
        return told
    if not isinstance(below, dict):
        below = None
    was = entry_shown(below, job) if below is not None else {}
    if below is not None and was == told:
        return below
    new: Json = dict(below or {})
    if "nodeName" in told:
        new["nodeName"] = told["nodeName"]
    history, before = _part(told), _part(was)
    if below is None or _word(told, history) != _word(was, before):
        _phase(new, _word(told, history))
    _fields(new, history, before)
    return new


def _part(entry: Json) -> Json:
    """Its history; KubeEdge's entries have reason and time beside the name."""
    history = entry.get("history")
    if isinstance(history, dict):
        return history
    return {"reason": entry.get("reason"), "upgradeTime": entry.get("time")}


def _word(entry: Json, history: Json) -> tuple[Any, Any]:
    return entry.get("state") or "", history.get("result") or ""


def _phase(new: Json, word: tuple[Any, Any]) -> None:
    state, result = word
    if isinstance(result, str) and result in _OUTCOMES:
        phase, code = _OUTCOMES[result]
    else:
        phase, code = _PHASES.get(state, "InProgress") if isinstance(state, str) else "InProgress", ""
    if new.get("phase") != phase or code:
        new.pop("reasonCode", None)
        new["phase"] = phase
        if code:
            new["reasonCode"] = code


_FIELDS = (("fromVersion", "historicVersion"), ("reason", "reason"), ("upgradeTime", "since"))


def _fields(new: Json, history: Json, before: Json) -> None:
    """What is told changes; what is left out is no statement."""
    for theirs, ours in _FIELDS:
        value = history.get(theirs)
        if value and value != before.get(theirs):
            new[ours] = value
