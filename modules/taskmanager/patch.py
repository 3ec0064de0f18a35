"""From one status to the next as a JSON Patch: few bytes for few changes, one replace for many (product.md 3.4.4)."""

from typing import Any

import msgspec

from beehive.api.nodeupgradejob import NEW, JobStatus, NodeEntry
from beehive.messages.objects import PatchOperation

Patch = tuple[PatchOperation, ...]
_BULK = 3
"""One entry in so many changed: the whole list is replaced."""


def status_patch(before: JobStatus, after: JobStatus) -> Patch:
    """What makes `after` of `before`; empty when they are equal.

    `before` must be what stands in the API server: the patch replaces only what is there, and relies on the guards on
    uid and resourceVersion that are put in front of it.
    """
    if before == after:
        return ()
    if before.phase == NEW:
        return (PatchOperation(op="add", path="/status", value=_status(after)),)
    return (*_head(before, after), *_entries(before, after))


def _head(before: JobStatus, after: JobStatus) -> Patch:
    operations = []
    for field in msgspec.structs.fields(JobStatus):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if field.name == "node_status" or old == new:
            continue
        path = f"/status/{field.encode_name}"
        if new is None:
            operations.append(PatchOperation(op="remove", path=path))
        else:
            operations.append(PatchOperation(op="add", path=path, value=msgspec.to_builtins(new)))
    return tuple(operations)


def _entries(before: JobStatus, after: JobStatus) -> Patch:
    old, new = before.node_status or (), after.node_status or ()
    if len(old) != len(new):
        return (_whole(new),)
    changed = [index for index, entry in enumerate(new) if entry is not old[index] and entry != old[index]]
    if len(changed) > 1 and len(changed) * _BULK >= len(new):
        return (_whole(new),)
    return tuple(
        PatchOperation(op="replace", path=f"/status/nodeStatus/{index}", value=entry_value(new[index]))
        for index in changed
    )


def _whole(entries: tuple[NodeEntry, ...]) -> PatchOperation:
    return PatchOperation(op="add", path="/status/nodeStatus", value=[entry_value(entry) for entry in entries])


def _status(status: JobStatus) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(status, node_status=None))
    return {**value, "nodeStatus": [entry_value(entry) for entry in status.node_status or ()]}


def entry_value(entry: NodeEntry) -> dict[str, Any]:
    """The entry as JSON, with what is always shown (product.md 3.2)."""
    return {**msgspec.to_builtins(entry), "attempt": entry.attempt, "revision": entry.revision}
