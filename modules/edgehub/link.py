"""When to dial. Pure: state, input, now -> state and what to do.

Laws: one dial at a time; delays grow up to the cap, and begin anew only after a link that held; while a link was lost
less than 10 s ago no wait is longer than 2.5 s, so that a short cut costs little; a close that names a spread is
obeyed.
"""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

_SHORT_CUT = 10.0
_WAIT_IN_SHORT_CUT = 2.5


class Delays(Struct, frozen=True):
    """How to wait; all in seconds."""

    random: Callable[[], float]
    """Evenly from [0, 1)."""
    first: float = 0.5
    cap: float = 30.0
    quiet: float = 60.0


# ---- states ------------------------------------------------------------------------------------------------------


class Waiting(Struct, frozen=True):
    """No link; the next dial is due at `until`."""

    until: float
    failures: int = 0
    """Dials that failed, or links that did not hold, since the last one that held."""
    lost_at: float | None = None
    """When the last link was lost."""


class Dialling(Struct, frozen=True):
    """A dial is under way."""

    failures: int
    lost_at: float | None


class Connected(Struct, frozen=True):
    """The link stands since `since`."""

    since: float
    failures: int


State: TypeAlias = Waiting | Dialling | Connected

# ---- inputs ------------------------------------------------------------------------------------------------------


class Alarm(Struct, frozen=True):
    """Time has passed."""


class Nudge(Struct, frozen=True):
    """Something changed that makes a try worth while now: local routes, an identity."""


class Opened(Struct, frozen=True):
    """The dial succeeded."""


class Failed(Struct, frozen=True):
    """The dial failed."""


class Lost(Struct, frozen=True):
    """The link ended; `spread` when the cloud asked to come back at a random moment within so many seconds."""

    spread: float | None = None


Input: TypeAlias = Alarm | Nudge | Opened | Failed | Lost


def begin(now: float) -> Waiting:
    """The first dial is due at once."""
    return Waiting(now)


def step(state: State, news: Input, now: float, delays: Delays) -> tuple[State, bool]:
    """The next state, and whether a dial begins now. Inputs that do not fit the state change nothing."""
    match state, news:
        case Waiting(until=until), Alarm() if now >= until:
            return Dialling(state.failures, state.lost_at), True
        case Waiting(), Nudge():
            return Dialling(state.failures, state.lost_at), True
        case Dialling(), Opened():
            return Connected(now, state.failures), False
        case Dialling(failures=failures, lost_at=lost_at), Failed():
            return Waiting(now + _delay(failures, lost_at, now, delays), failures + 1, lost_at), False
        case Connected(), Lost(spread=spread):
            return _after(state, spread, now, delays), False
    return state, False


def _after(link: Connected, spread: float | None, now: float, delays: Delays) -> Waiting:
    failures = 0 if now - link.since >= delays.quiet else link.failures
    if spread is not None:
        return Waiting(now + spread * delays.random(), failures, now)
    return Waiting(now + _delay(failures, now, now, delays), failures + 1, now)


def _delay(failures: int, lost_at: float | None, now: float, delays: Delays) -> float:
    ceiling = min(delays.cap, delays.first * 2.0 ** min(failures, 30))
    if lost_at is not None and now - lost_at < _SHORT_CUT:
        ceiling = min(ceiling, _WAIT_IN_SHORT_CUT)
    return ceiling * delays.random()
