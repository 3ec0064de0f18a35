"""One rule for every end and every restart: a node is cordoned by us iff an entry in flight says so (product.md 3.4.5).

The annotation is the memory. While it names the entry in flight the cordon *stands*, even if somebody has uncordoned
the node since: that is respected. When its job is gone or its entry is not in flight, it is undone: what the node was
before comes back, unless somebody changed it meanwhile or asked us to leave it cordoned.
"""

from functools import lru_cache

import msgspec
from msgspec import Struct

from beehive.api.node import CORDON, HISTORY, KEEP_CORDONED, Cordon, Node, with_history
from beehive.messages.objects import PatchOperation

Patch = tuple[PatchOperation, ...]
_cordon = msgspec.json.Decoder(Cordon).decode


class Owner(Struct, frozen=True):
    """An entry in flight, as it stands in a written status."""

    job: str
    uid: str
    attempt: int
    from_version: str = ""


class Change(Struct, frozen=True):
    """A success for the history annotation."""

    old: str
    new: str


def is_ours(node: Node) -> bool:
    """It carries our annotation, whatever it says."""
    return CORDON in (node.metadata.annotations or {})


def cordon_of(node: Node) -> Cordon | None:
    """What our annotation says; None where there is none, or where somebody made it unreadable."""
    text = (node.metadata.annotations or {}).get(CORDON)
    return None if text is None else _read(text)


@lru_cache(maxsize=16384)
def _read(text: str) -> Cordon | None:
    """Each node's is looked at again and again while it is in flight."""
    try:
        return _cordon(text.encode())
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return None


def stands(node: Node | None, owner: Owner) -> bool:
    """The cordon for this entry was made. There is nothing to cordon where the Node object was deleted."""
    if node is None:
        return True
    held = cordon_of(node)
    return held is not None and (held.uid, held.attempt) == (owner.uid, owner.attempt)


def patch_of(node: Node, owner: Owner | None, success: Change | None) -> Patch:
    """What brings the node in line with the rule; empty when it is.

    `success` is how the entry ended that the annotation names, if it went well: undone and told in one patch.
    """
    if owner is not None:
        return () if stands(node, owner) else (*_cordoned(node, owner), *_history(node, success))
    return (*_uncordoned(node), *_history(node, success)) if is_ours(node) else ()


def late_history(node: Node, change: Change) -> Patch:
    """A success that was heard after the cordon was undone."""
    return (*_annotations(node), *_history(node, change))


def _cordoned(node: Node, owner: Owner) -> Patch:
    held, now = cordon_of(node), node.spec.unschedulable
    was = held.was_unschedulable if held is not None and now else now
    value = Cordon(
        job=owner.job, uid=owner.uid, attempt=owner.attempt, was_unschedulable=was, from_version=owner.from_version
    )
    note = _annotate(CORDON, msgspec.json.encode(value).decode())
    flag = () if now else (PatchOperation(op="add", path="/spec/unschedulable", value=True),)
    return (*_annotations(node), note, *flag)


def _uncordoned(node: Node) -> Patch:
    held = cordon_of(node)
    note = PatchOperation(op="remove", path=_path(CORDON))
    kept = KEEP_CORDONED in (node.metadata.annotations or {})
    if held is None or held.was_unschedulable or kept or not node.spec.unschedulable:
        return (note,)
    return (note, PatchOperation(op="remove", path="/spec/unschedulable"))


def _history(node: Node, success: Change | None) -> Patch:
    if success is None:
        return ()
    before = (node.metadata.annotations or {}).get(HISTORY, "")
    return (_annotate(HISTORY, with_history(before, success.old, success.new)),)


def _annotations(node: Node) -> Patch:
    """Room for an annotation on a node that has none at all."""
    if node.metadata.annotations is not None:
        return ()
    return (PatchOperation(op="add", path="/metadata/annotations", value={}),)


def _annotate(key: str, value: str) -> PatchOperation:
    return PatchOperation(op="add", path=_path(key), value=value)


def _path(key: str) -> str:
    return "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")
