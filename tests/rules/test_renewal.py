"""When a node's certificate is renewed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modules.edgehub.identity import About
from modules.edgehub.renewal import OtherCa, What, decide, due

DAY = 86400.0
MOMENTS = st.floats(1.0, 4e9)
DRAWS = st.floats(0, 1, exclude_max=True)


def about(begins: float = 100 * DAY, ends: float = 200 * DAY) -> About:
    return About("edge-a", "https://cloud:10002", begins, ends, "our-ca")


@pytest.mark.parametrize(
    ("now", "draw", "what"),
    [
        (0.0, 0.5, What.WAIT),  # 1970: the clock is wrong
        (100 * DAY, 0.0, What.WAIT),
        (169 * DAY, 0.0, What.WAIT),
        (171 * DAY, 0.0, What.RENEW),
        (171 * DAY, 0.9, What.WAIT),
        (190 * DAY, 0.99, What.RENEW),
        (200 * DAY, 0.5, What.JOIN),
        (9e9, 0.5, What.JOIN),
    ],
)
def test_table(now: float, draw: float, what: What) -> None:
    assert decide(about(), now, draw) is what


@settings(max_examples=100)
@given(MOMENTS, MOMENTS, MOMENTS, DRAWS)
def test_laws(one: float, other: float, now: float, draw: float) -> None:
    begins, ends = sorted((one, other))
    ours, life = about(begins, ends), ends - begins
    what = decide(ours, now, draw)
    assert begins + 0.7 * life - 1 <= due(ours, draw) <= begins + 0.9 * life + 1
    assert (what is What.JOIN) == (now >= ends)
    if what is What.RENEW:
        assert begins + 0.69 * life - 1 <= now < ends
    if begins + 0.9 * life + 1 < now < ends:
        assert what is What.RENEW


@settings(max_examples=100)
@given(DRAWS, st.floats(100 * DAY, 200 * DAY))
def test_another_ca_is_fetched_within_ten_minutes_and_never_later_than_it_was_due(draw: float, since: float) -> None:
    at = due(about(), draw, OtherCa("another", since))
    assert at <= max(since + 600, 190 * DAY)
    assert at <= due(about(), draw)
    assert due(about(), draw, OtherCa("our-ca", since)) == due(about(), draw)


def test_an_identity_that_says_nothing_of_its_end_is_left_alone() -> None:
    assert decide(About("edge-a"), 9e9, 0.0, OtherCa("another", 0.0)) is What.WAIT
