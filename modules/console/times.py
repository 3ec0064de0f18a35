"""Times and counts as people read them. Pure."""

from beehive.world import from_rfc3339

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def spoken(seconds: float) -> str:
    """`40s`, `4m`, `2h`, `3d`: the largest unit, and the next one while there are fewer than ten of it."""
    rest = max(0, int(seconds))
    for index, (size, unit) in enumerate(_UNITS):
        if rest >= size:
            count, below = divmod(rest, size)
            small = below // _UNITS[index + 1][0] if count < 10 and index + 1 < len(_UNITS) else 0
            return f"{count}{unit}{small}{_UNITS[index + 1][1]}" if small else f"{count}{unit}"
    return "0s"


def moment(text: str | None) -> float | None:
    """Seconds since the epoch; None for what is no time."""
    try:
        return from_rfc3339(text) if text else None
    except (ValueError, OverflowError):
        return None


def since(text: str | None, now: float) -> str:
    """How long ago; `-` for what is no time."""
    at = moment(text)
    return "-" if at is None else spoken(now - at)


def nodes(count: int) -> str:
    """`1 node`, `4,212 nodes`."""
    return "1 node" if count == 1 else f"{count:,} nodes"
