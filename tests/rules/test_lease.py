"""Who leads, by example."""

from datetime import UTC, datetime

import pytest

from beehive.api.lease import Lease, LeaseSpec
from beehive.api.meta import ObjectMeta
from modules.informer.lease import (
    Acquire,
    Lost,
    Renew,
    Standing,
    Terms,
    Wait,
    decide,
    granted,
    micro_time,
    released,
    seen,
)

WALL = 1_767_225_600.25
TERMS = Terms(name="beehive", namespace="kubeedge", identity="me", duration=15, deadline=10, retry=2)


def held(by: str | None, version: str = "5", seconds: int | None = 15, transitions: int | None = 3) -> Lease:
    return Lease(
        metadata=ObjectMeta(name="beehive", namespace="kubeedge", resource_version=version, labels={"a": "b"}),
        spec=LeaseSpec(
            holder_identity=by,
            lease_duration_seconds=seconds,
            acquire_time="2026-01-01T00:00:00.000000Z",
            renew_time="2026-01-01T00:00:00.000000Z",
            lease_transitions=transitions,
        ),
    )


def test_where_there_is_none_it_is_created() -> None:
    decision = decide(Standing(), TERMS, 100, WALL)
    assert isinstance(decision, Acquire)
    assert decision.lease.metadata == ObjectMeta(name="beehive", namespace="kubeedge")
    assert decision.lease.spec == LeaseSpec(
        holder_identity="me",
        lease_duration_seconds=15,
        acquire_time="2026-01-01T00:00:00.250000Z",
        renew_time="2026-01-01T00:00:00.250000Z",
        lease_transitions=0,
    )


@pytest.mark.parametrize("nobody", [None, ""])
def test_a_released_one_is_taken_at_once_and_counted(nobody: str | None) -> None:
    decision = decide(Standing(held(nobody), since=100), TERMS, 100, WALL)
    assert isinstance(decision, Acquire)
    assert decision.lease.metadata == held(nobody).metadata  # with the version, so that only one can take it
    assert decision.lease.spec.lease_transitions == 4


def test_another_holder_is_left_alone_until_he_was_silent_for_its_duration() -> None:
    standing = Standing(held("other"), since=100)
    assert decide(standing, TERMS, 114.9, WALL) == Wait("other", 115)
    taken = decide(standing, TERMS, 115, WALL)
    assert isinstance(taken, Acquire)
    assert (taken.lease.spec.holder_identity, taken.lease.spec.lease_transitions) == ("me", 4)


@pytest.mark.parametrize(("seconds", "ends"), [(60, 160), (1, 115), (None, 115), (0, 115)])
def test_the_longer_of_his_duration_and_ours_counts(seconds: int | None, ends: float) -> None:
    assert decide(Standing(held("other", seconds=seconds), since=100), TERMS, 101, WALL) == Wait("other", ends)


def test_the_time_in_the_lease_counts_for_nothing() -> None:
    """His clock may be years off; only what we saw, and when, counts."""
    old = held("other")
    fresh = seen(Standing(old, since=0), old, now=100)
    assert fresh.since == 0
    moved = seen(fresh, held("other", version="6"), now=100)
    assert moved.since == 100
    assert isinstance(decide(moved, TERMS, 114, WALL), Wait)


def test_the_holder_renews_and_keeps_the_rest() -> None:
    standing = granted(Standing(), held("me"), sent=98, now=99, terms=TERMS)
    assert standing.grant == 108
    decision = decide(standing, TERMS, 100, WALL)
    assert isinstance(decision, Renew)
    assert decision.lease.metadata == held("me").metadata
    assert decision.lease.spec.acquire_time == held("me").spec.acquire_time
    assert decision.lease.spec.renew_time == "2026-01-01T00:00:00.250000Z"
    assert decision.lease.spec.lease_transitions == 3


def test_a_grant_ends_though_nobody_took_the_lease() -> None:
    standing = granted(Standing(), held("me"), sent=98, now=99, terms=TERMS)
    assert isinstance(decide(standing, TERMS, 108, WALL), Lost)


@pytest.mark.parametrize("holder", ["other", ""])
def test_a_leader_that_sees_another_holder_has_lost(holder: str) -> None:
    standing = seen(granted(Standing(), held("me"), sent=98, now=99, terms=TERMS), held(holder, "9"), 100)
    assert isinstance(decide(standing, TERMS, 100, WALL), Lost)


def test_a_leader_whose_lease_was_deleted_makes_it_again() -> None:
    standing = seen(granted(Standing(), held("me"), sent=98, now=99, terms=TERMS), None, 100)
    decision = decide(standing, TERMS, 100, WALL)
    assert isinstance(decision, Acquire)
    assert decision.lease.metadata.resource_version == ""


def test_after_a_loss_our_own_lease_is_taken_back_without_a_transition() -> None:
    decision = decide(Standing(held("me"), since=100), TERMS, 100, WALL)
    assert isinstance(decision, Acquire)
    assert decision.lease.spec.lease_transitions == 3


def test_released_leaves_no_holder_and_the_shortest_duration() -> None:
    spec = released(held("me"), WALL).spec
    assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("", 1, 3)


def test_fractions_of_seconds_are_rounded_up_in_the_lease() -> None:
    terms = Terms(name="a", namespace="b", identity="me", duration=1.5, deadline=0.6, retry=0.2)
    decision = decide(Standing(), terms, 0, WALL)
    assert isinstance(decision, Acquire)
    assert decision.lease.spec.lease_duration_seconds == 2


def test_times_are_utc_with_six_digits() -> None:
    assert micro_time(WALL) == "2026-01-01T00:00:00.250000Z"
    assert datetime.fromisoformat(micro_time(WALL)) == datetime.fromtimestamp(WALL, UTC)
