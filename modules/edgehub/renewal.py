"""When a node's certificate is renewed. Pure.

Laws: never before 70 % of its life and always by 90 %, at a moment of the node's own, so that a fleet that joined
together does not renew together; when the cloud has another CA, within ten minutes; never by a clock that must be
wrong; after its end only a token helps.
"""

from enum import Enum

from msgspec import Struct

from modules.edgehub.identity import About

_FROM, _TO = 0.7, 0.9
_AFTER_ROTATION = 600.0
"""Seconds over which a fleet spreads itself when the cloud's CA changed."""


class What(Enum):
    """What to do about it now."""

    WAIT = "it is good"
    RENEW = "renew it with itself"
    JOIN = "it has expired: join again"


class OtherCa(Struct, frozen=True):
    """The cloud says that its CA is another than ours."""

    digest: str
    since: float
    """Seconds since the epoch."""


def due(about: About, draw: float, other: OtherCa | None = None) -> float:
    """When to renew, in seconds since the epoch; `draw` from [0, 1) is the node's own."""
    at = about.begins + (about.ends - about.begins) * (_FROM + (_TO - _FROM) * draw)
    if other is not None and other.digest != about.ca:
        return min(at, other.since + _AFTER_ROTATION * draw)
    return at


def decide(about: About, now: float, draw: float, other: OtherCa | None = None) -> What:
    """What to do at `now`."""
    if not about.ends or now < about.begins:
        return What.WAIT
    if now >= about.ends:
        return What.JOIN
    return What.RENEW if now >= due(about, draw, other) else What.WAIT
