"""When to list, when to watch, when to wait: one kind's list-watch as a pure machine (architecture.md 6).

    Empty -> Listing -> Listed -> Watching
               ^  ^---------|---------|---- Waiting (after every error; growing, capped, jittered)

`step` takes the state, what has happened, and the time; it answers with the new state and what to do. Versions are
those of the API server and stay uninterpreted. An expired version (410) can come in three places: instead of a page,
instead of a watch, and inside one. After each the list is read anew.
"""

from typing import TypeAlias

from msgspec import Struct

# ---- states ------------------------------------------------------------------------------------------------------


class Empty(Struct, frozen=True):
    """Nothing was done yet."""


class Listing(Struct, frozen=True):
    """A page was asked for."""

    version: str = ""
    """Of the list, from its first page."""
    paged: bool = True
    failures: int = 0


class Listed(Struct, frozen=True):
    """Everything up to `version` is known; a watch from there was asked for."""

    version: str
    failures: int = 0


class Watching(Struct, frozen=True):
    """The watch is open; everything up to `version` is known."""

    version: str
    opened: float
    failures: int = 0


class Waiting(Struct, frozen=True):
    """Something went wrong; go on at `until`, with a watch from `version`, or with a list where it is empty."""

    until: float
    reason: str
    version: str = ""
    paged: bool = True
    failures: int = 1
    """In a row, this one included."""


State: TypeAlias = Empty | Listing | Listed | Watching | Waiting

# ---- what happens ------------------------------------------------------------------------------------------------


class Begin(Struct, frozen=True):
    """The start."""


class Page(Struct, frozen=True):
    """A page came; `token` asks for the next one, and is empty on the last."""

    version: str
    token: str = ""


class Opened(Struct, frozen=True):
    """The watch was accepted."""


class Progress(Struct, frozen=True):
    """An event or a bookmark of this version was taken in."""

    version: str


class Ended(Struct, frozen=True):
    """The server ended the watch in good order."""

    chance: float = 0.5


class Expired(Struct, frozen=True):
    """410: the server no longer knows the version or the token."""

    chance: float = 0.5


class Failed(Struct, frozen=True):
    """Anything else went wrong."""

    reason: str
    retry_after: float = 0.0
    chance: float = 0.5
    """Evenly from [0, 1): decides the jitter."""


class Due(Struct, frozen=True):
    """Time has passed."""


Input: TypeAlias = Begin | Page | Opened | Progress | Ended | Expired | Failed | Due

# ---- what to do --------------------------------------------------------------------------------------------------


class List(Struct, frozen=True):
    """Ask for a page; an empty `token` begins a new list, and what was collected is forgotten."""

    token: str = ""
    paged: bool = True


class Swap(Struct, frozen=True):
    """The list is complete: what was collected is what there is, as of `version`."""

    version: str


class Watch(Struct, frozen=True):
    """Open a watch from `version` on."""

    version: str


class Sleep(Struct, frozen=True):
    """Wait until then, and say Due."""

    until: float


Effect: TypeAlias = List | Swap | Watch | Sleep
Step: TypeAlias = tuple[State, tuple[Effect, ...]]


class Delays(Struct, frozen=True):
    """How long to wait after errors, in seconds."""

    first: float = 0.25
    cap: float = 5.0
    quiet: float = 5.0
    """A watch that lived this long was a good one: the count of failures begins anew."""
    stubborn: int = 3
    """After so many failures in a row a version is given up and the list is read anew."""


def step(state: State, given: Input, now: float, delays: Delays = Delays()) -> Step:  # noqa: B008 - frozen
    """The next state and what to do; what does not fit the state changes nothing."""
    match state, given:
        case Empty(), Begin():
            return Listing(), (List(),)
        case Listing(), Page():
            return _page(state, given)
        case Listed(), Opened():
            return Watching(state.version, now, state.failures), ()
        case Watching(), Progress():
            return Watching(given.version, state.opened, state.failures), ()
        case Watching(), Ended() if now - state.opened >= delays.quiet:
            return Listed(state.version), (Watch(state.version),)
        case ((Listing() | Listed() | Watching()), (Ended() | Expired() | Failed())):
            return _wait(state, given, now, delays)
        case Waiting(), Due():
            return _again(state, now)
    return state, ()


def _page(state: Listing, page: Page) -> Step:
    version = state.version or page.version
    if page.token:
        return Listing(version, state.paged, state.failures), (List(page.token, state.paged),)
    return Listed(version, state.failures), (Swap(version), Watch(version))


def _wait(state: Listing | Listed | Watching, given: Ended | Expired | Failed, now: float, delays: Delays) -> Step:
    healthy = isinstance(state, Watching) and now - state.opened >= delays.quiet
    failures = 1 if healthy else state.failures + 1
    expired = isinstance(given, Expired)
    keep = not (isinstance(state, Listing) or expired or failures >= delays.stubborn)
    waiting = Waiting(
        until=now + _pause(failures, given, delays),
        reason=_why(given),
        version=state.version if keep else "",
        # A token that expires while pages are read would expire again: the next list comes in one piece.
        paged=not (expired and isinstance(state, Listing)),
        failures=failures,
    )
    return waiting, (Sleep(waiting.until),)


def _pause(failures: int, given: Ended | Expired | Failed, delays: Delays) -> float:
    ceiling = min(delays.cap, delays.first * 2.0 ** min(failures - 1, 30))
    pause = ceiling * (0.5 + given.chance / 2)
    return max(pause, given.retry_after) if isinstance(given, Failed) else pause


def _why(given: Ended | Expired | Failed) -> str:
    if isinstance(given, Failed):
        return given.reason
    return "the version is no longer known" if isinstance(given, Expired) else "the watch was closed at once"


def _again(state: Waiting, now: float) -> Step:
    if now < state.until:
        return state, (Sleep(state.until),)
    if state.version:
        return Listed(state.version, state.failures), (Watch(state.version),)
    return Listing(paged=state.paged, failures=state.failures), (List(paged=state.paged),)
