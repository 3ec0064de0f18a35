"""The watch machine against servers that answer anything, at once: laws of architecture.md 6."""

from hypothesis import given, settings
from hypothesis import strategies as st

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

DELAYS = Delays(first=0.25, cap=5.0, quiet=5.0, stubborn=3)
chances = st.floats(0, 1, exclude_max=True)
errors = st.one_of(
    st.builds(Ended, chances), st.builds(Expired, chances), st.builds(Failed, st.just("down"), st.just(0.0), chances)
)
versions = st.integers(1, 10**6).map(str)
lives = st.sampled_from([0.0, 0.001, 4.9, 5.1, 30.0])
anything = st.one_of(
    errors,
    st.just(Begin()),
    st.just(Due()),
    st.just(Opened()),
    st.builds(Progress, versions),
    st.builds(Page, versions, st.sampled_from(["", "token"])),
)


class Run:
    """The machine with a server that answers as it is told, in no time at all; sleeping is what passes time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.state: State = Empty()
        self.requests: list[tuple[float, Effect]] = []
        self.known: set[str] = set()
        """Versions that the server has named since the last complete list began."""
        self.pending: tuple[Effect, ...] = ()
        self.say(Begin())

    def say(self, what: Input) -> None:
        if isinstance(what, Page | Progress):
            self.known.add(what.version)
        before = self.state
        self.state, self.pending = step(self.state, what, self.now, DELAYS)
        self.check(before, what)
        for effect in self.pending:
            if isinstance(effect, List | Watch):
                self.requests.append((self.now, effect))

    def check(self, before: State, what: Input) -> None:
        working = not isinstance(before, Empty | Waiting)
        long_lived = isinstance(before, Watching) and self.now - before.opened >= DELAYS.quiet
        if working and isinstance(what, Expired | Failed):
            assert isinstance(self.state, Waiting)
            assert 0 < self.state.until - self.now <= DELAYS.cap + 1e-6
            assert self.pending == (Sleep(self.state.until),)
        if working and isinstance(what, Expired):
            assert isinstance(self.state, Waiting)
            assert self.state.version == ""
        if working and isinstance(what, Ended) and not long_lived:
            assert isinstance(self.state, Waiting)
        for effect in self.pending:
            if isinstance(effect, Watch):
                assert effect.version in self.known
            if isinstance(effect, Swap):
                assert isinstance(what, Page)
                assert not what.token

    def sleep(self) -> None:
        if isinstance(self.state, Waiting):
            self.now = self.state.until
            self.say(Due())

    def serve(self, draw: st.DrawFn) -> None:
        """One more thing happens that may happen in this state; it costs no time but for the life of a watch."""
        if isinstance(self.state, Waiting):
            self.sleep()
        elif isinstance(self.state, Watching):
            self.now += draw(lives)
            self.say(draw(st.one_of(errors, st.builds(Progress, versions))))
        elif isinstance(self.state, Listed):
            self.say(draw(st.one_of(errors, st.just(Opened()))))
        else:
            self.say(draw(st.one_of(errors, st.builds(Page, versions))))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_error_waits_and_410_lists_anew(data: st.DataObject) -> None:
    run = Run()
    for _ in range(30):
        run.serve(data.draw)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_server_can_make_it_a_hot_loop(data: st.DataObject) -> None:
    """After each error at least half of `first` passes, and there are never more than two requests between waits."""
    run = Run()
    for _ in range(30):
        run.serve(data.draw)  # type: ignore[arg-type]
    lived = max(run.now, DELAYS.first)
    assert len(run.requests) <= 4 + 2 * lived / (DELAYS.first / 2)


@given(st.lists(errors, min_size=8, max_size=20))
def test_a_server_that_only_fails_is_asked_ever_less_often(given_errors: list[Input]) -> None:
    run = Run()
    pauses = []
    for error in given_errors:
        run.say(error)
        assert isinstance(run.state, Waiting)
        pauses.append(run.state.until - run.now)
        run.sleep()
    for count, pause in enumerate(pauses):
        ceiling = min(DELAYS.cap, DELAYS.first * 2**count)
        assert ceiling / 2 - 1e-6 <= pause <= ceiling + 1e-6


@given(st.lists(anything, max_size=40), st.floats(0, 1e6))
def test_it_is_total_and_never_asks_two_things_at_once(inputs: list[Input], start: float) -> None:
    state: State = Empty()
    for count, what in enumerate(inputs):
        state, effects = step(state, what, start + count, DELAYS)
        asked = [one for one in effects if not isinstance(one, Swap)]
        assert len(asked) <= 1
        assert effects[-1:] == tuple(asked[-1:])


@given(st.lists(st.tuples(versions, st.booleans()), min_size=1, max_size=10))
def test_a_list_is_swapped_in_once_with_the_version_of_its_first_page(pages: list[tuple[str, bool]]) -> None:
    run = Run()
    swaps = []
    for index, (version, _) in enumerate(pages):
        run.say(Page(version, "" if index == len(pages) - 1 else "token"))
        swaps += [one for one in run.pending if isinstance(one, Swap)]
    assert swaps == [Swap(pages[0][0])]
    assert run.pending[-1] == Watch(pages[0][0])
