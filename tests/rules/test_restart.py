"""Restart or give up: examples, and the law."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.backoff import doubling, full_jitter
from beehive.restart import Again, GiveUp, Policy, decide


@pytest.mark.parametrize(
    ("failures", "decision"),
    [
        ([100.0], Again(0.5)),
        ([99.0, 100.0], Again(1.0)),
        ([96.0, 97.0, 98.0, 99.0, 100.0], Again(8.0)),
        ([95.0, 96.0, 97.0, 98.0, 99.0, 100.0], GiveUp("it failed 6 times within 60 s")),
        ([10.0, 20.0, 30.0, 100.0], Again(0.5)),
    ],
)
def test_examples(failures: list[float], decision: Again | GiveUp) -> None:
    assert decide(Policy(), failures, now=100.0) == decision


@given(
    most=st.integers(0, 8),
    ages=st.lists(st.floats(0, 200), min_size=1, max_size=20),
)
def test_gives_up_iff_more_than_the_most_lie_within_the_period(most: int, ages: list[float]) -> None:
    policy = Policy(most=most, period=60)
    decision = decide(policy, [1000 - age for age in ages], now=1000)
    recent = sum(1000 - (1000 - age) < 60 for age in ages)
    assert isinstance(decision, GiveUp) == (recent > most)
    if isinstance(decision, Again):
        assert policy.first_pause <= decision.after <= policy.longest_pause


def test_delays_double_up_to_the_cap() -> None:
    delays = doubling(1, 30)
    assert [next(delays) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]


@given(st.floats(0, 1, exclude_max=True))
def test_full_jitter_lies_between_nothing_and_the_doubling_delay(chance: float) -> None:
    delays = full_jitter(1, 30, lambda: chance)
    assert all(next(delays) == pytest.approx(ceiling * chance) for ceiling in (1, 2, 4, 8, 16, 30, 30))
