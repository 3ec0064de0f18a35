"""The bus: inboxes, routes, and the questions that wait for an answer.

Modules never see it; they speak through their `Endpoint`. Figures and reasons: architecture.md 4.
"""

import asyncio
import math
import time
from collections.abc import Iterable
from typing import Any

from beehive.errors import NoAnswer
from beehive.inbox import Inbox
from beehive.message import Envelope, Message, kind
from beehive.router import Declaration, Routes, routes
from beehive.trace import Tracer, Watch

_READING = 2e-6
"""Seconds after which one more question may be looked at: ten times what it takes."""


class Bus:
    """One inbox for each module, and the table of who gets what."""

    def __init__(self, declarations: Iterable[Declaration], capacities: dict[str, int]) -> None:
        self.declarations = {one.name: one for one in declarations}
        self.routes: Routes = routes(self.declarations.values())
        self.watch = Watch()
        self.inboxes = {name: Inbox(name, capacities[name], self.watch) for name in self.declarations}
        self.questions = Questions()

    def owner_of(self, message: type[Message]) -> Inbox | None:
        """The inbox of the one owner of a command or request; None where it was left out of this process."""
        name = self.routes.owners.get(message)
        return self.inboxes[name] if name else None

    def subscribers_of(self, message: type[Message]) -> tuple[Inbox, ...]:
        """The inboxes of all who want this event."""
        return tuple(self.inboxes[name] for name in self.routes.subscribers.get(message, ()))

    def trace(self, tracer: Tracer | None) -> None:
        """Attach a tracer, or take it off; can be done at any moment."""
        self.watch.tracer = tracer
        for inbox in self.inboxes.values():
            inbox.open_gate()

    def broadcast(self, event: Message, source: str = "kernel", cause: int = 0) -> None:
        """Publish for the kernel itself, which needs no declaration."""
        for inbox in self.subscribers_of(type(event)):
            inbox.post(Envelope(source, event), cause)


class Questions:
    """All asks that wait for their answer, with one timer for all of them.

    The dict keeps no order of deadlines: when the timer fires it is read once, what is over gets NoAnswer, what was
    cancelled meanwhile is forgotten, and the timer is set for the earliest of the rest, but not so early that reading
    takes more than about a tenth of the time.
    """

    __slots__ = ("_timer", "clock", "due", "loop", "waiting")

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """Where they are asked, from the first on; to ask for it each time costs a system call."""
        self.clock = time.monotonic
        """The clock of that loop."""
        self.waiting: dict[asyncio.Future[Any], tuple[float, Envelope, str]] = {}
        """The deadline on the loop's clock, the question, and whom it was put to."""
        self.due = math.inf
        """When the timer fires; who adds an earlier deadline must call `arm`."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self.waiting)

    def begin(self) -> asyncio.AbstractEventLoop:
        """Belong to the running loop."""
        self.loop = loop = asyncio.get_running_loop()
        if getattr(type(loop), "time", None) is not asyncio.BaseEventLoop.time:  # which is time.monotonic in a frame
            self.clock = loop.time
        return loop

    def arm(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        """Look through those who wait at this time, on the loop's clock."""
        if self._timer:
            self._timer.cancel()
        self.due = due
        self._timer = loop.call_at(due, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self.due = None, math.inf
        now = loop.time()
        for future, (deadline, envelope, owner) in list(self.waiting.items()):
            if future.done():
                del self.waiting[future]
            elif deadline <= now:
                del self.waiting[future]
                future.set_exception(
                    NoAnswer(f"{owner} did not answer {kind(envelope.body)} from {envelope.source} in time")
                )
                future.exception()
        if self.waiting:
            earliest = min(deadline for deadline, _, _ in self.waiting.values())
            self.arm(loop, max(earliest, now + _READING * len(self.waiting)))
