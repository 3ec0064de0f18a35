"""Status of a job between v1alpha2 and v1alpha1, on plain JSON. Pure, lossless both ways (product.md 3.3).

`shown` is what v1alpha1 can express of a v1alpha2 status; `taken` is the v1alpha2 status after a v1alpha1 client wrote
one over it: what it left as shown stays, to the byte, what it changed changes. What the other version cannot express
travels in a preserved field: `status.v1alpha2` in v1alpha1, `status.v1alpha1` in v1alpha2. The latter is believed only
as long as writing it again would change nothing: the controller's later word wins.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from beehive.api import v1alpha1
from beehive.api.convert_entry import Job, entry_shown, entry_taken

Json = dict[str, Any]

IN_V1ALPHA1, IN_V1ALPHA2 = "v1alpha2", "v1alpha1"
"""Names of the preserved field, by the version in whose status it lies."""

_STATES = {"Init": v1alpha1.UPGRADING, "InProgress": v1alpha1.UPGRADING} | dict.fromkeys(
    ("Completed", "Failure"), v1alpha1.COMPLETED
)
_PHASES: Mapping[str, str] = {
    "": "",
    v1alpha1.COMPLETED: "Completed",
    "Successful": "Completed",
    "Failed": "Failure",
}
"""States of the proposal and of KubeEdge (spec/kubeedge.md 1.4) that do not mean: at work."""


class Halves(NamedTuple):
    """A status and what its preserved field holds."""

    own: Json
    kept: Json | None


def to_v1alpha1(status: Json, job: Job) -> Json:
    """The v1alpha1 status of a v1alpha2 status."""
    told = _view(status, job)
    if to_v1alpha2(told, job, scout=status) == status:
        return told
    return {**told, IN_V1ALPHA1: status}


def to_v1alpha2(status: Json, job: Job, scout: Json | None = None) -> Json:
    """The v1alpha2 status of a v1alpha1 status. With `scout`, {} at once when it cannot become that one."""
    own, kept = _halves(status, IN_V1ALPHA1)
    if kept is not None and _view(kept, job) == own:
        return kept
    below = _halves(kept or {}, IN_V1ALPHA2).own
    if scout is not None and not _alike(own, scout, job):
        return {}
    new = taken(own, below, job)
    plain = shown(new, job)
    return new if plain == own else {**new, IN_V1ALPHA2: _without_the_same(own, plain)}


def _alike(own: Json, scout: Json, job: Job) -> bool:
    """The first entry decides in almost every job, and there may be 5,000."""
    mine, theirs = _entries(own), scout.get("nodeStatus")
    if not mine or not isinstance(theirs, list) or not theirs:
        return True
    return bool(entry_taken(mine[0], None, job) == theirs[0])


def _view(status: Json, job: Job) -> Json:
    """What a v1alpha1 client sees, but for the preserved field."""
    own, kept = _halves(status, IN_V1ALPHA2)
    plain = shown(own, job)
    if kept is None:
        return plain
    written = _with_the_same(kept, plain)
    return written if taken(written, own, job) == own else plain


def _halves(status: Json, name: str) -> Halves:
    kept = status.get(name)
    if not isinstance(kept, dict):
        return Halves(status, None)
    return Halves({key: value for key, value in status.items() if key != name}, kept)


# ---- both ways, without the preserved fields -------------------------------------------------------------------------


def shown(status: Json, job: Job) -> Json:
    """What v1alpha1 can express of a v1alpha2 status."""
    told: Json = {}
    if state := _STATES.get(_text(status.get("phase")), ""):
        told["state"] = state
    if reason := status.get("reason"):
        told["reason"] = reason
    if "nodeStatus" in status:
        entries = status["nodeStatus"]
        told["status"] = [entry_shown(one, job) for one in entries] if isinstance(entries, list) else entries
    return told


def taken(status: Json, below: Json, job: Job) -> Json:
    """`below`, a v1alpha2 status, after a v1alpha1 client wrote `status`, a v1alpha1 status, over it."""
    new = dict(below)
    state = _text(status.get("state"))
    if "phase" not in below or _STATES.get(_text(below["phase"]), "") != state:
        new["phase"] = _PHASES.get(state, "InProgress")
    _set(new, "reason", status.get("reason"))
    entries = _entries(status)
    if entries is not None:
        new["nodeStatus"] = _entries_taken(entries, below.get("nodeStatus"), job)
    elif isinstance(below.get("nodeStatus"), list):
        del new["nodeStatus"]
    if "status" in status and status["status"] is None and entries is None:
        new["nodeStatus"] = None
    return new


def _entries(status: Json) -> list[Any] | None:
    """The nodes: as the proposal has them, else as KubeEdge writes them."""
    for name in ("status", "nodeStatus"):
        entries = status.get(name)
        if isinstance(entries, list):
            return entries
    return None


def _entries_taken(entries: list[Any], below: Any, job: Job) -> list[Any]:
    old = below if isinstance(below, list) else []
    if len(old) == len(entries) and all(_name(one) == _name(two) for one, two in zip(entries, old, strict=True)):
        return [entry_taken(one, two, job) for one, two in zip(entries, old, strict=True)]
    by_name = {_name(one): one for one in reversed(old)}
    return [entry_taken(one, by_name.get(_name(one)), job) for one in entries]


def _without_the_same(own: Json, plain: Json) -> Json:
    """In a job of 5,000 nodes one odd entry must not double the object: null stands for an entry as shown."""
    entries, same = own.get("status"), plain.get("status")
    if not isinstance(entries, list) or not isinstance(same, list) or len(entries) != len(same):
        return own
    return {**own, "status": [None if a == b else a for a, b in zip(entries, same, strict=True)]}


def _with_the_same(kept: Json, plain: Json) -> Json:
    entries, same = kept.get("status"), plain.get("status")
    if not isinstance(entries, list) or not isinstance(same, list) or len(entries) != len(same):
        return kept
    return {**kept, "status": [b if a is None else a for a, b in zip(entries, same, strict=True)]}


def _name(entry: Any) -> str:
    return _text(entry.get("nodeName")) if isinstance(entry, dict) else ""


def _set(new: Json, key: str, value: Any) -> None:
    """An empty value and none are one, and none is written."""
    if value:
        new[key] = value
    elif new.get(key):
        del new[key]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
