"""The bus: inboxes, routes, and the questions that wait for an answer.

Modules never see it; they speak through their `Endpoint`. Figures and reasons: architecture.md 4.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from beehive.errors import NoAnswer
from beehive.inbox import Inbox, Tracer, Watch
from beehive.message import Envelope, Message, kind
from beehive.router import Declaration, Routes, routes


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
    answered or cancelled meanwhile is forgotten, and the timer is set for the earliest of the rest.
    """

    __slots__ = ("_due", "_loop", "_timer", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[Any], tuple[float, Envelope, str]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def expect(self, envelope: Envelope, owner: str, timeout: float) -> "asyncio.Future[Any]":
        """Watch over the future in the envelope for `timeout` seconds."""
        loop = self._loop or asyncio.get_running_loop()
        self._loop = loop
        future = envelope.answer_to
        if future is None:
            raise ValueError("an envelope without a place for the answer cannot be waited for")
        deadline = loop.time() + timeout
        self._waiting[future] = (deadline, envelope, owner)
        if self._timer is None or deadline < self._due:
            self._arm(loop, deadline)
        return future

    def forget(self, future: "asyncio.Future[Any]") -> None:
        """It was answered."""
        self._waiting.pop(future, None)

    def _arm(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._due = deadline
        self._timer = loop.call_at(deadline, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for future, (deadline, envelope, owner) in list(self._waiting.items()):
            if future.done():
                del self._waiting[future]
            elif deadline <= now:
                del self._waiting[future]
                future.set_exception(
                    NoAnswer(f"{owner} did not answer {kind(envelope.body)} from {envelope.source} in time")
                )
                future.exception()
        if self._waiting:
            self._arm(loop, min(deadline for deadline, _, _ in self._waiting.values()))
