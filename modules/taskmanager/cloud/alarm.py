"""When to look next. Pauses count on the loop's clock, deadlines of nodes on the wall clock, which may jump."""

import asyncio
from collections.abc import Callable

_GATHER = 5.0
"""A look takes at most one part in so many of the time: the next comes that many times its duration later."""
_TRIFLE = 2e-6
"""More than the wall clock's rounding, in seconds."""


class Alarm:
    """The earliest of all moments at which something may have changed."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self.plan_at: float | None = None
        """When time alone changes something, by the wall clock."""
        self._wall = wall
        self._loop = asyncio.get_running_loop()
        self._look_at: float | None = None
        self._not_before = 0.0

    @property
    def now(self) -> float:
        """The loop's clock."""
        return self._loop.time()

    def soon(self, at: float | None = None) -> None:
        """Look at the latest then (loop's clock), or as soon as may be."""
        moment = self.now if at is None else at
        self._look_at = moment if self._look_at is None else min(self._look_at, moment)

    def began(self) -> float:
        """A look begins: it takes in all that was said so far."""
        self._look_at = None
        return self.now

    def ended(self, began: float) -> None:
        """It ended; what comes now is gathered for a while."""
        self._not_before = self.now + _GATHER * (self.now - began)

    def next(self) -> float | None:
        """By the wall clock; a trifle late, for at a moment before its time nothing would be due yet."""
        left = self._left()
        return None if left is None else self._wall() + (left + _TRIFLE if left > 0 else 0.0)

    def is_due(self) -> bool:
        left = self._left()
        return left is not None and left <= 0

    def _left(self) -> float | None:
        moments = [] if self._look_at is None else [self._look_at - self.now]
        if self.plan_at is not None:
            moments.append(self.plan_at - self._wall())
        return max(min(moments), self._not_before - self.now) if moments else None
