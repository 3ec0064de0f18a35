"""When to dial: the laws of `modules/edgehub/link.py`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.edgehub.link import (
    Alarm,
    Connected,
    Delays,
    Dialling,
    Failed,
    Input,
    Lost,
    Nudge,
    Opened,
    State,
    Waiting,
    begin,
    step,
)

LONGEST = Delays(lambda: 1.0)
"""Chance at its worst: every delay is its ceiling."""


def test_the_first_dial_is_at_once() -> None:
    assert step(begin(100.0), Alarm(), 100.0, LONGEST) == (Dialling(0, None), True)


def test_nothing_is_dialled_before_its_time() -> None:
    assert step(Waiting(100.0), Alarm(), 99.9, LONGEST) == (Waiting(100.0), False)


def test_delays_double_up_to_the_cap() -> None:
    state, seen = Dialling(0, None), []
    for _ in range(9):
        waiting, _ = step(state, Failed(), 0.0, LONGEST)
        assert isinstance(waiting, Waiting)
        seen.append(waiting.until)
        state = Dialling(waiting.failures, waiting.lost_at)
    assert seen == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_a_link_that_held_begins_anew() -> None:
    waiting, _ = step(Connected(0.0, 7), Lost(), 60.0, LONGEST)
    assert waiting == Waiting(60.5, 1, 60.0)


def test_a_link_that_did_not_hold_does_not() -> None:
    waiting, _ = step(Connected(0.0, 7), Lost(), 59.9, LONGEST)
    assert waiting == Waiting(59.9 + 2.5, 8, 59.9)


def test_a_named_spread_is_obeyed() -> None:
    half = Delays(lambda: 0.5)
    waiting, _ = step(Connected(0.0, 0), Lost(20.0), 100.0, half)
    assert waiting == Waiting(110.0, 0, 100.0)


def test_a_change_of_routes_dials_at_once() -> None:
    assert step(Waiting(1000.0, 5, 3.0), Nudge(), 10.0, LONGEST) == (Dialling(5, 3.0), True)


def test_an_outage_under_ten_seconds_is_over_within_three() -> None:
    """At any moment of the first 10 s the next dial is at most 2.5 s away, however unlucky chance is."""
    state: State = Connected(0.0, 0)
    state, _ = step(state, Lost(), 1000.0, LONGEST)
    now = 1000.0
    while now < 1010.0:
        assert isinstance(state, Waiting)
        assert state.until - now <= 2.5
        now = state.until
        state, dials = step(state, Alarm(), now, LONGEST)
        assert dials
        state, _ = step(state, Failed(), now, LONGEST)


INPUTS: st.SearchStrategy[Input] = st.one_of(
    st.just(Alarm()), st.just(Nudge()), st.just(Opened()), st.just(Failed()),
    st.builds(Lost, st.none() | st.floats(0, 1000)),
)  # fmt: skip


def is_dialling(state: State) -> bool:
    return isinstance(state, Dialling)


@given(st.lists(st.tuples(INPUTS, st.floats(0, 100)), max_size=60), st.floats(0, 0.999))
def test_one_dial_at_a_time_and_never_a_wait_beyond_the_cap(news: list[tuple[Input, float]], chance: float) -> None:
    state: State = begin(0.0)
    delays = Delays(lambda: chance)
    now = 0.0
    for one, later in news:
        now += later
        before, (state, dials) = state, step(state, one, now, delays)
        assert dials == (is_dialling(state) and not is_dialling(before))
        if state != before and isinstance(state, Waiting):
            spread = one.spread if isinstance(one, Lost) and one.spread is not None else 0.0
            assert now <= state.until <= now + max(30.0, spread)


@pytest.mark.parametrize("state", [Waiting(5.0), Dialling(0, None), Connected(0.0, 0)])
@given(news=INPUTS)
def test_an_input_that_does_not_fit_changes_nothing(state: State, news: Input) -> None:
    fitting: dict[type, tuple[type, ...]] = {
        Waiting: (Alarm, Nudge),
        Dialling: (Opened, Failed),
        Connected: (Lost,),
    }
    fits: tuple[type, ...] = fitting[type(state)]
    after, dials = step(state, news, 1.0, LONGEST)
    if type(news) not in fits:
        assert (after, dials) == (state, False)
