"""Who leads: the rules of the Lease (libraries.md 1c says why they are our own). Pure.

A holder counts as silent only by what *we* saw and when, on our monotonic clock; the times in the Lease are for people
and for other programs. The grant ends `deadline` after a renewal was *sent*, others wait `duration` from when they
*saw* it, and deadline < duration: so no two grants ever overlap.
"""

import math
from datetime import UTC, datetime
from typing import TypeAlias

from msgspec import Struct

from beehive.api.lease import Lease, LeaseSpec
from beehive.api.meta import ObjectMeta


class Terms(Struct, frozen=True):
    """Durations in seconds; retry < deadline < duration."""

    name: str
    namespace: str
    identity: str
    duration: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0


class Standing(Struct, frozen=True):
    """What this process knows."""

    lease: Lease | None = None
    """As last seen; None where there is none."""
    since: float = 0.0
    """When it was first seen in this state."""
    grant: float = 0.0
    """Until when we lead; 0.0 when we don't."""


class Acquire(Struct, frozen=True):
    """Write this: a new Lease where it has no version, else compare and swap."""

    lease: Lease


class Renew(Struct, frozen=True):
    """Write this: compare and swap."""

    lease: Lease


class Wait(Struct, frozen=True):
    """Somebody else holds it; nothing changes before `until` unless he releases it."""

    holder: str
    until: float


class Lost(Struct, frozen=True):
    """We led and do so no more."""

    why: str


Decision: TypeAlias = Acquire | Renew | Wait | Lost


def seen(standing: Standing, lease: Lease | None, now: float) -> Standing:
    """The Lease was read at `now`. The time of the first sight moves only when something in it has changed."""
    if lease is not None and lease == standing.lease:
        return standing
    return Standing(lease, now, standing.grant)


def granted(standing: Standing, lease: Lease, sent: float, now: float, terms: Terms) -> Standing:
    """Our write, sent at `sent`, was answered with this Lease."""
    return Standing(lease, now, sent + terms.deadline)


def decide(standing: Standing, terms: Terms, now: float, wall: float) -> Decision:
    """What to do now; `wall` is the time for people."""
    lease = standing.lease
    holder = (lease.spec.holder_identity or "") if lease else ""
    if standing.grant:
        if now >= standing.grant:
            return Lost(f"it could not be renewed for {terms.deadline:g} s")
        if lease is not None and holder != terms.identity:
            return Lost(f"{holder} has taken it" if holder else "it was released by somebody else")
        if lease is not None:
            return Renew(_renewed(lease, terms, wall))
    if lease is None:
        return Acquire(_written(ObjectMeta(name=terms.name, namespace=terms.namespace), terms, wall, 0))
    ends = standing.since + max(terms.duration, float(lease.spec.lease_duration_seconds or 0))
    if holder and holder != terms.identity and now < ends:
        return Wait(holder, ends)
    transitions = (lease.spec.lease_transitions or 0) + (holder != terms.identity)
    return Acquire(_written(lease.metadata, terms, wall, transitions))


def released(lease: Lease, wall: float) -> Lease:
    """The Lease without a holder, so that the next one need not wait."""
    spec = LeaseSpec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=lease.spec.acquire_time,
        renew_time=micro_time(wall),
        lease_transitions=lease.spec.lease_transitions,
    )
    return Lease(metadata=lease.metadata, spec=spec)


def _renewed(lease: Lease, terms: Terms, wall: float) -> Lease:
    spec = LeaseSpec(
        holder_identity=terms.identity,
        lease_duration_seconds=math.ceil(terms.duration),
        acquire_time=lease.spec.acquire_time,
        renew_time=micro_time(wall),
        lease_transitions=lease.spec.lease_transitions,
    )
    return Lease(metadata=lease.metadata, spec=spec)


def _written(metadata: ObjectMeta, terms: Terms, wall: float, transitions: int) -> Lease:
    spec = LeaseSpec(
        holder_identity=terms.identity,
        lease_duration_seconds=math.ceil(terms.duration),
        acquire_time=micro_time(wall),
        renew_time=micro_time(wall),
        lease_transitions=transitions,
    )
    return Lease(metadata=metadata, spec=spec)


def micro_time(wall: float) -> str:
    """metav1.MicroTime: RFC3339, UTC, six digits."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
