"""An event loop that owns time: where it would wait, it leaps to the next timer.

An hour passes in a millisecond, and a test may compare times exactly. When every task waits and no timer is set,
nothing can ever happen again: that is a deadlock, and the test fails. Work in threads started by `run_in_executor` is
waited for in real time; sockets and processes need the ordinary loop.
"""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any, TypeVarTuple, Unpack

from beehive.world import World

START = 1_767_225_600.0
"""2026-01-01T00:00:00Z, the wall clock's first moment in virtual time."""

_REAL_SECONDS_FOR_THREADS = 20.0
_REAL_SECONDS_BEFORE_DEADLOCK = 1.0
"""A thread that the loop does not know of (the end of its executor) may still wake it."""

Ts = TypeVarTuple("Ts")


class Deadlock(AssertionError):  # noqa: N818 - it is the field's word
    """Every task waits, and no timer is set."""


class _Leaping(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self.threads:
            return super().select(_REAL_SECONDS_FOR_THREADS)
        if timeout is None:
            ready = super().select(_REAL_SECONDS_BEFORE_DEADLOCK)
            if ready:
                return ready
            raise Deadlock("every task waits, and no timer is set")
        self.now += max(timeout, 1e-9)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """See above; `time()` is virtual and begins at 0."""

    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.now

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[Ts]], Any], *args: *Ts) -> "asyncio.Future[Any]":
        future = super().run_in_executor(executor, func, *args)
        self._leaping.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: object) -> None:
        self._leaping.threads -= 1


def virtual_world() -> World:
    """A world whose clock is the loop's, whose ids count, and where chance is always in the middle."""
    ids = iter(range(1, 1_000_000))
    return World(
        now=lambda: START + asyncio.get_running_loop().time(),
        new_id=lambda: f"00000000-0000-4000-8000-{next(ids):012d}",
        random=lambda: 0.5,
    )
