"""What a job may not be at its creation, and how it may not change after it (product.md 3.1)."""

from collections.abc import Iterator

import msgspec

from beehive.api import limits
from beehive.api.nodeupgradejob import ImageDigests, NodeUpgradeJobSpec
from beehive.api.validate import problems, range_problem

MUTABLE = frozenset({"suspend", "abort", "retry"})
"""Fields of a spec that may change; the rest of a job is what it was created as."""


def creation_problems(spec: NodeUpgradeJobSpec) -> list[str]:
    """`problems`, and what may not be at creation."""
    born = (
        [] if spec.retry == 0 else [f"spec.retry: a new job has not been tried; leave it out instead of {spec.retry}"]
    )
    return [*problems(spec), *born]


def change_problems(old: NodeUpgradeJobSpec, new: NodeUpgradeJobSpec) -> list[str]:
    """Why `old` may not become `new`; what was invalid before and stays as it was is no reason."""
    return list(_change_problems(old, new))


def _change_problems(old: NodeUpgradeJobSpec, new: NodeUpgradeJobSpec) -> Iterator[str]:
    if changed := changed_fields(old, new):
        yield f"spec fields are not allowed to update once it's created: {', '.join(changed)}"
    if old.abort and not new.abort:
        yield "spec.abort: an abort cannot be taken back; make a new job"
    if new.retry < old.retry:
        yield f"spec.retry: it may only grow; it is {old.retry}"
    elif new.abort and new.retry != old.retry:
        yield "spec.retry: an aborted job is not tried again; make a new job"
    elif new.retry > limits.MOST_RETRIES:
        yield range_problem("retry", new.retry, 0, limits.MOST_RETRIES)


def changed_fields(old: NodeUpgradeJobSpec, new: NodeUpgradeJobSpec) -> list[str]:
    """Names of immutable fields that differ in what they mean: a null, an empty and a missing list are one."""
    return [
        field.encode_name
        for field in msgspec.structs.fields(NodeUpgradeJobSpec)
        if field.name not in MUTABLE and _plain(getattr(old, field.name)) != _plain(getattr(new, field.name))
    ]


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return value or None
    if isinstance(value, ImageDigests):
        return None if value == ImageDigests() else value
    return value
