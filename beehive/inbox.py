"""The bounded queue of one module.

Everything hangs on one gate. `room` is the capacity while a message may simply be appended, and 0 whenever something
else must happen first: the owner sleeps and must be woken, a tracer looks on, or the inbox is closed. So the short way
of a sender is one comparison, and there is no second code path for the observed case.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from beehive.errors import InboxFull, PeerFailed, Undeliverable
from beehive.message import Envelope, Lagged, kind


class Tracer(Protocol):
    """Sees every message. While one is attached messages have ids and causes, and all gates are shut."""

    def posted(self, receiver: str, envelope: Envelope) -> None:
        """A message was put into the receiver's inbox."""

    def delivered(self, receiver: str, envelope: Envelope) -> None:
        """The receiver took the message in hand."""

    def answered(self, envelope: Envelope, answer: object) -> None:
        """The request in `envelope` got its answer."""


class Statistics(Struct, frozen=True):
    """What metrics pull; all but `depth` and `waiting` only grow."""

    depth: int
    taken: int
    missed: int
    waiting: int


class Watch:
    """The tracer of a bus, shared by its inboxes, and the numbering that only a tracer needs."""

    __slots__ = ("_last", "tracer")

    def __init__(self) -> None:
        self.tracer: Tracer | None = None
        self._last = 0

    def number(self, envelope: Envelope, cause: int) -> Envelope:
        """The same message with the next id and its cause."""
        self._last += 1
        return Envelope(envelope.source, envelope.body, envelope.answer_to, self._last, cause)


Waiting: TypeAlias = tuple[Envelope, "asyncio.Future[None]", int]
"""A message, the sender's place in the line, and the message's cause."""

_LAGGED = Envelope("kernel", None)
"""Stands in the queue where events are missing; replaced by a `Lagged` with the count when it is taken."""


class Inbox:
    """Bounded, first in first out, with waiting senders in the order of their coming."""

    __slots__ = (
        "_lagging", "_line", "_missing", "_sleeper", "_watch", "capacity", "closed",
        "in_hand", "missed", "owner", "queue", "room", "taken",
    )  # fmt: skip

    def __init__(self, owner: str, capacity: int, watch: Watch | None = None) -> None:
        if capacity < 1:
            raise ValueError(f"the inbox of {owner} needs a capacity of at least 1")
        self.owner = owner
        self.capacity = capacity
        self.room = 0
        self.queue: deque[Envelope] = deque()
        self.in_hand: Envelope | None = None
        self.taken = 0
        self.missed = 0
        self.closed = False
        self._watch = watch or Watch()
        self._line: deque[Waiting] = deque()
        self._sleeper: asyncio.Future[None] | None = None
        self._lagging = False
        self._missing = 0

    # ---- senders -----------------------------------------------------------------------------------------------

    def accept(self, envelope: Envelope, cause: int) -> bool:
        """Take the message in if there is a place; the way behind the shut gate."""
        if self.closed:
            raise Undeliverable(
                f"{self.owner} has stopped; {kind(envelope.body)} from {envelope.source} has no receiver"
            )
        if self._line or len(self.queue) - self._lagging >= self.capacity:
            return False
        self._append(envelope, cause)
        return True

    def _append(self, envelope: Envelope, cause: int) -> None:
        if self._watch.tracer:
            envelope = self._watch.number(envelope, cause)
            self._watch.tracer.posted(self.owner, envelope)
        self.queue.append(envelope)
        if self._sleeper:
            self.wake()
        else:
            self.open_gate()

    def line_up(self, envelope: Envelope, cause: int) -> "Waiting":
        """Stand in line, behind those who came before. Must be followed by `wait` or `withdraw`."""
        waiting: Waiting = (envelope, asyncio.get_running_loop().create_future(), cause)
        self._line.append(waiting)
        self.room = 0
        return waiting

    async def wait(self, waiting: "Waiting", patience: float) -> None:
        """Until there was a place; a cancelled or impatient sender withdraws its message.

        Raises InboxFull after `patience` seconds, Undeliverable when the inbox closes.
        """
        envelope, place, _ = waiting
        try:
            async with asyncio.timeout(patience):
                await place
        except TimeoutError:
            if place.done() and not place.cancelled():
                return  # let in at the very moment when patience ended
            raise InboxFull(
                f"the inbox of {self.owner} ({self.capacity} messages) stayed full for {patience:g} s; "
                f"{kind(envelope.body)} from {envelope.source} was withdrawn"
            ) from None
        finally:
            self.withdraw(waiting)

    def withdraw(self, waiting: "Waiting") -> None:
        """Leave the line; nothing happens when the message was let in already."""
        if waiting in self._line:
            self._line.remove(waiting)
            waiting[1].cancel()
            self.open_gate()

    def _let_in(self) -> None:
        """Give freed places to those who wait, first come first served."""
        while self._line and len(self.queue) - self._lagging < self.capacity:
            envelope, place, cause = self._line.popleft()
            if not place.done():
                self._append(envelope, cause)
                place.set_result(None)
        self.open_gate()

    def post(self, envelope: Envelope, cause: int) -> None:
        """Put an event in, or count it as missed: a publisher never waits."""
        if self.closed:
            return
        if not self._line and len(self.queue) - self._lagging < self.capacity:
            self._append(envelope, cause)
            return
        self.missed += 1
        self._missing += 1
        if not self._lagging:
            self._lagging = True
            self.queue.append(_LAGGED)
            self.wake()

    # ---- the owner ---------------------------------------------------------------------------------------------

    def take(self) -> Iterator[Envelope]:
        """What is there now, one at a time; `in_hand` names the one being handled, so a failure costs exactly that."""
        queue = self.queue
        tracer = self._watch.tracer
        for _ in range(len(queue)):
            if not queue:
                break
            envelope = queue.popleft()
            if envelope is _LAGGED:
                envelope = Envelope("kernel", Lagged(missed=self._missing))
                self._lagging, self._missing = False, 0
            elif envelope.answer_to is not None and envelope.answer_to.done():
                self._let_in()
                continue
            self.taken += 1
            self.in_hand = envelope
            if self._line:
                self._let_in()
            if tracer:
                tracer.delivered(self.owner, envelope)
            yield envelope
        self.in_hand = None

    async def sleep(self, seconds: float | None) -> None:
        """Until a message comes, the inbox closes, or `seconds` have passed; then one turn of the loop at most."""
        if self.queue or self.closed:
            await asyncio.sleep(0)
            return
        self.room = 0
        loop = asyncio.get_running_loop()
        self._sleeper = sleeper = loop.create_future()
        timer = None if seconds is None else loop.call_later(max(0.0, seconds), self.wake)
        try:
            await sleeper
        finally:
            self._sleeper = None
            if timer:
                timer.cancel()
            self.open_gate()

    def wake(self) -> None:
        """End the owner's sleep; from now on senders append by themselves."""
        sleeper, self._sleeper = self._sleeper, None
        if sleeper and not sleeper.done():
            sleeper.set_result(None)
        self.open_gate()

    def open_gate(self) -> None:
        """Let senders append by themselves, unless somebody must look at each message."""
        awake = self._sleeper is None and not self.closed
        self.room = self.capacity if awake and not self._line and not self._watch.tracer else 0

    # ---- the keeper --------------------------------------------------------------------------------------------

    def drop_in_hand(self, why: str) -> Envelope | None:
        """After a failure: the message in hand is dropped, and who asked is told."""
        envelope, self.in_hand = self.in_hand, None
        if envelope is not None:
            fail(envelope, f"{self.owner} failed on {kind(envelope.body)}: {why}")
        return envelope

    def close(self) -> None:
        """Take nothing in any more; what is there can still be taken. Those who wait in line are refused."""
        self.closed = True
        self.room = 0
        while self._line:
            envelope, place, _ = self._line.popleft()
            if not place.done():
                place.set_exception(
                    Undeliverable(
                        f"{self.owner} has stopped; {kind(envelope.body)} from {envelope.source} was not taken"
                    )
                )
        self.wake()

    def empty(self, why: str) -> None:
        """Drop everything that nobody will take any more; every asker is told."""
        while self.queue:
            fail(self.queue.popleft(), f"{self.owner} {why}")

    def statistics(self) -> Statistics:
        """A snapshot for metrics."""
        return Statistics(len(self.queue), self.taken, self.missed, len(self._line))


def fail(envelope: Envelope, why: str) -> None:
    """Answer a request with PeerFailed; other messages have nobody to tell."""
    future: asyncio.Future[Any] | None = envelope.answer_to
    if future is not None and not future.done():
        future.set_exception(PeerFailed(why))
        future.exception()
