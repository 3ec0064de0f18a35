"""Restart or give up? Pure: a policy, when the failures were, now -> a decision."""

from collections.abc import Sequence

from msgspec import Struct


class Policy(Struct, frozen=True):
    """How a failing module is treated; all times in seconds."""

    most: int = 5
    """This many failures within `period` are borne; one more ends the process."""
    period: float = 60.0
    first_pause: float = 0.5
    longest_pause: float = 30.0


class Again(Struct, frozen=True):
    """Start the module again after this many seconds."""

    after: float


class GiveUp(Struct, frozen=True):
    """End the process; the reason is a sentence."""

    reason: str


def decide(policy: Policy, failures: Sequence[float], now: float) -> Again | GiveUp:
    """`failures` are the times of all failures up to and with the one just seen, on the clock of `now`.

    Gives up iff more than `policy.most` of them lie within the last `policy.period` seconds. The pause doubles with
    each failure of that period and never passes `policy.longest_pause`.
    """
    recent = sum(1 for when in failures if now - when < policy.period)
    if recent > policy.most:
        return GiveUp(f"it failed {recent} times within {policy.period:g} s")
    return Again(min(policy.longest_pause, policy.first_pause * 2.0 ** max(0, recent - 1)))
