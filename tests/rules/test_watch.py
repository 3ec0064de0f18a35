"""The watch machine, by example: every place where it can go wrong, and where it then goes."""

import pytest

from modules.informer.watch import (
    Begin,
    Delays,
    Due,
    Effect,
    Empty,
    Ended,
    Expired,
    Failed,
    Input,
    List,
    Listed,
    Listing,
    Opened,
    Page,
    Progress,
    Sleep,
    State,
    Swap,
    Waiting,
    Watch,
    Watching,
    step,
)

NOW = 100.0
DELAYS = Delays(first=1.0, cap=8.0, quiet=5.0, stubborn=3)


@pytest.mark.parametrize(
    ("state", "given", "after", "effects"),
    [
        (Empty(), Begin(), Listing(), (List(),)),
        (Listing(), Page("7", "next"), Listing("7"), (List("next"),)),
        (Listing("7"), Page("8", "more"), Listing("7"), (List("more"),)),
        (Listing("7"), Page("8"), Listed("7"), (Swap("7"), Watch("7"))),
        (Listing(), Page("7"), Listed("7"), (Swap("7"), Watch("7"))),
        (Listing(paged=False), Page("7", "next"), Listing("7", paged=False), (List("next", paged=False),)),
        (Listed("7"), Opened(), Watching("7", NOW), ()),
        (Watching("7", 1.0), Progress("9"), Watching("9", 1.0), ()),
        (Watching("7", 95.0), Ended(), Listed("7"), (Watch("7"),)),
        (Watching("7", 95.0, failures=4), Ended(), Listed("7"), (Watch("7"),)),
    ],
)
def test_the_good_way(state: State, given: Input, after: State, effects: tuple[Effect, ...]) -> None:
    assert step(state, given, NOW, DELAYS) == (after, effects)


@pytest.mark.parametrize("state", [Listing(), Listing("7"), Listed("7"), Watching("7", 1.0), Watching("7", 99.0)])
def test_410_in_all_three_places_reads_the_list_anew_after_a_wait(state: State) -> None:
    after, effects = step(state, Expired(), NOW, DELAYS)
    assert isinstance(after, Waiting)
    assert after.version == ""
    assert effects == (Sleep(after.until),)
    assert NOW < after.until <= NOW + 1.0
    again, effects = step(after, Due(), after.until, DELAYS)
    assert isinstance(again, Listing)
    assert effects == (List(paged=again.paged),)


def test_a_token_that_expires_is_answered_by_a_list_in_one_piece() -> None:
    waiting, _ = step(Listing("7"), Expired(), NOW, DELAYS)
    _, effects = step(waiting, Due(), NOW + 60, DELAYS)
    assert effects == (List("", paged=False),)


def test_a_watch_that_breaks_goes_on_from_its_last_version() -> None:
    waiting, _ = step(Watching("9", 1.0), Failed("cut"), NOW, DELAYS)
    assert isinstance(waiting, Waiting)
    assert waiting.reason == "cut"
    assert step(waiting, Due(), NOW + 60, DELAYS) == (Listed("9", 1), (Watch("9"),))


def test_after_three_failures_in_a_row_the_version_is_given_up() -> None:
    state: State = Listed("9")
    for _ in range(2):
        state, _ = step(state, Failed("refused"), NOW, DELAYS)
        state, effects = step(state, Due(), NOW + 60, DELAYS)
        assert effects == (Watch("9"),)
    state, _ = step(state, Failed("refused"), NOW, DELAYS)
    _, effects = step(state, Due(), NOW + 60, DELAYS)
    assert effects == (List(),)


def test_a_watch_that_ends_at_once_waits_like_an_error() -> None:
    after, effects = step(Watching("7", 99.0), Ended(), NOW, DELAYS)
    assert isinstance(after, Waiting)
    assert (after.version, after.failures) == ("7", 1)
    assert effects == (Sleep(after.until),)


def test_a_quiet_life_forgives_and_a_short_one_does_not() -> None:
    forgiven, _ = step(Watching("7", 1.0, failures=5), Failed("cut"), NOW, DELAYS)
    counted, _ = step(Watching("7", 99.0, failures=5), Failed("cut"), NOW, DELAYS)
    assert isinstance(forgiven, Waiting)
    assert isinstance(counted, Waiting)
    assert (forgiven.failures, counted.failures) == (1, 6)


def test_a_good_list_alone_does_not_forgive() -> None:
    """Else a server that lists well and expires every watch would be asked in a hot loop."""
    listed, _ = step(Listing(failures=4), Page("7"), NOW, DELAYS)
    assert listed == Listed("7", 4)


@pytest.mark.parametrize(("failures", "low", "high"), [(0, 0.5, 1.0), (1, 1.0, 2.0), (2, 2.0, 4.0), (9, 4.0, 8.0)])
@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_waits_double_up_to_the_cap_with_jitter(failures: int, low: float, high: float, chance: float) -> None:
    after, _ = step(Listing(failures=failures), Failed("down", chance=chance), NOW, DELAYS)
    assert isinstance(after, Waiting)
    assert low <= after.until - NOW <= high
    assert after.until - NOW == pytest.approx(low + (high - low) * chance)


def test_retry_after_is_honoured_beyond_the_cap() -> None:
    after, _ = step(Listed("7"), Failed("too busy", retry_after=30.0), NOW, DELAYS)
    assert isinstance(after, Waiting)
    assert after.until == NOW + 30.0


def test_it_is_not_due_before_its_time() -> None:
    waiting = Waiting(until=NOW + 1, reason="down")
    assert step(waiting, Due(), NOW, DELAYS) == (waiting, (Sleep(NOW + 1),))


@pytest.mark.parametrize(
    ("state", "given"),
    [
        (Empty(), Page("7")),
        (Empty(), Failed("early")),
        (Listing(), Opened()),
        (Listing(), Progress("9")),
        (Listed("7"), Page("8")),
        (Listed("7"), Progress("9")),
        (Watching("7", 1.0), Page("8")),
        (Watching("7", 1.0), Due()),
        (Waiting(NOW + 1, "down"), Opened()),
        (Waiting(NOW + 1, "down"), Failed("again")),
        (Listing(), Begin()),
    ],
)
def test_what_does_not_fit_changes_nothing(state: State, given: Input) -> None:
    assert step(state, given, NOW, DELAYS) == (state, ())
