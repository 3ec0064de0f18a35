"""The bounded queue of one module.

Everything hangs on one gate. `room` is the capacity while a message may simply be appended, and 0 whenever something
else must happen first: the owner sleeps and must be woken, a tracer looks on, or the inbox is closed. So the short way
of a sender is one comparison, and there is no second code path for the observed case.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Iterator
from itertools import repeat
from operator import length_hint
from typing import Any, TypeAlias

from msgspec import Struct

from beehive.errors import InboxFull, PeerFailed, Undeliverable
from beehive.message import MISSING, Envelope, Lagged, kind
from beehive.trace import Watch


class Statistics(Struct, frozen=True):
    """What metrics pull; all but `depth` and `waiting` only grow."""

    depth: int
    taken: int
    missed: int
    """Events that did not fit; told by `Lagged`."""
    waiting: int
    """Senders in line."""
    stale: int
    """Questions that nobody waited for any more when their turn came."""


Waiting: TypeAlias = tuple[Envelope, "asyncio.Future[None]", int]
"""A message, the sender's place in the line, and the message's cause."""


class Inbox:
    """Bounded, first in first out, with waiting senders in the order of their coming.

    Who waits is let in before anybody else can speak, so there is a line only while the queue is full.
    """

    __slots__ = (
        "_batch", "_counted", "_lagging", "_line", "_loop", "_missing", "_sleeper", "_watch", "capacity", "closed",
        "in_hand", "missed", "owner", "queue", "room", "stale",
    )  # fmt: skip

    def __init__(self, owner: str, capacity: int, watch: Watch | None = None) -> None:
        if capacity < 1:
            raise ValueError(f"the inbox of {owner} needs a capacity of at least 1")
        self.owner = owner
        self.capacity = capacity
        self.room = 0
        self.queue: deque[Envelope] = deque()
        self.in_hand: Envelope | None = None
        self._counted = 0
        self._batch = repeat(None, 0)
        self.missed = 0
        self.stale = 0
        self.closed = False
        self._watch = watch or Watch()
        self._line: OrderedDict[asyncio.Future[None], Waiting] = OrderedDict()
        """By their place; whoever leaves it costs the same wherever it stands."""
        self._sleeper: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where its owner runs; to ask for it each time costs a system call."""
        self._lagging = False
        self._missing = 0

    @property
    def taken(self) -> int:
        """Messages taken so far. A batch is counted when it begins, less what is still to come of it."""
        return self._counted - length_hint(self._batch)

    @property
    def gone(self) -> int:
        """Messages that are in the queue no more: taken, or stale."""
        return self.taken + self.stale

    # ---- senders -----------------------------------------------------------------------------------------------

    def accept(self, envelope: Envelope, cause: int) -> bool:
        """Take the message in if there is a place; the way behind the shut gate."""
        if self.closed:
            raise Undeliverable(
                f"{self.owner} has stopped; {kind(envelope.body)} from {envelope.source} has no receiver"
            )
        if len(self.queue) - self._lagging >= self.capacity:
            return False
        self._append(envelope, cause)
        return True

    def _append(self, envelope: Envelope, cause: int) -> None:
        tracer = self._watch.tracer
        if tracer:
            envelope = self._watch.number(envelope, cause)
            tracer.posted(self.owner, envelope)
        self.queue.append(envelope)
        if self._sleeper:
            self.wake()
        elif not tracer:
            self.open_gate()

    def line_up(self, envelope: Envelope, cause: int) -> "Waiting":
        """Stand in line, behind those who came before. Must be followed by `wait` or `withdraw`."""
        waiting: Waiting = (envelope, asyncio.get_running_loop().create_future(), cause)
        self._line[waiting[1]] = waiting
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
        if self._line.pop(waiting[1], None):
            waiting[1].cancel()

    def _let_in(self) -> None:
        """Give freed places to those who wait, first come first served."""
        while self._line and len(self.queue) - self._lagging < self.capacity:
            place, (envelope, _, cause) = self._line.popitem(last=False)
            if not place.done():
                self._append(envelope, cause)
                place.set_result(None)
        self.open_gate()

    def post(self, envelope: Envelope, cause: int) -> None:
        """Put an event in, or count it as missed: a publisher never waits."""
        if self.closed:
            return
        if len(self.queue) - self._lagging < self.capacity:
            self._append(envelope, cause)
            return
        self.missed += 1
        self._missing += 1
        if not self._lagging:
            self._lagging = True
            self.queue.append(MISSING)
            self.wake()

    # ---- the owner ---------------------------------------------------------------------------------------------

    def take(self) -> Iterator[Envelope]:
        """What is there now, one at a time; `in_hand` names the one being handled, so a failure costs exactly that.

        While the gate is open nobody waits and nobody looks on. `Endpoint.messages` has the same loop in itself, for a
        generator within another costs a tenth of a message.
        """
        queue = self.queue
        for _ in self.begin_batch():
            envelope = queue.popleft()
            answer_to = envelope.answer_to
            if answer_to is not None and answer_to.done():
                if self.is_stale(envelope):
                    continue
                envelope = self.lagged()
            self.in_hand = envelope
            if not self.room:
                self.look(envelope)
            yield envelope
        self.in_hand = None

    def begin_batch(self) -> Iterator[None]:
        """As many turns as there are messages; they count as taken when their turn comes."""
        self._end_batch()
        self._counted += len(self.queue)
        self._batch = repeat(None, len(self.queue))
        return self._batch

    def _end_batch(self) -> None:
        """Nothing more comes of it, also where somebody still goes through it."""
        self._counted -= length_hint(self._batch)
        for _ in self._batch:
            pass

    def is_stale(self, envelope: Envelope) -> bool:
        """Of what is over: a question that nobody asks any more is stale; what else there is becomes a `lagged`."""
        if envelope is MISSING:
            return False
        self.stale += 1
        self._counted -= 1
        self._let_in()
        return True

    def look(self, envelope: Envelope) -> None:
        """The gate is shut: somebody waits for the place of what was taken, or a tracer looks on."""
        if self._line:
            self._let_in()
        if self._watch.tracer:
            self._watch.tracer.delivered(self.owner, envelope)

    def lagged(self) -> Envelope:
        """The `Lagged` that stands for all events that were missed."""
        envelope = Envelope("kernel", Lagged(missed=self._missing))
        self._lagging, self._missing = False, 0
        if self._watch.tracer:
            envelope = self._watch.number(envelope, 0)
            self._watch.tracer.posted(self.owner, envelope)
        return envelope

    def sleep(self, seconds: float | None) -> Awaitable[None]:
        """Until a message comes, the inbox closes, or `seconds` have passed; one turn of the loop when one is there.

        A sleeper that is cancelled is found by the next sender: the gate stays shut until then.
        """
        if self.queue or self.closed:
            return asyncio.sleep(0)
        self.room = 0
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        sleeper: asyncio.Future[None] = asyncio.Future(loop=self._loop)
        self._sleeper = sleeper
        return sleeper if seconds is None else self._sleep_at_most(seconds, sleeper, self._loop)

    async def _sleep_at_most(
        self, seconds: float, sleeper: "asyncio.Future[None]", loop: asyncio.AbstractEventLoop
    ) -> None:
        timer = loop.call_later(max(0.0, seconds), self.wake)
        try:
            await sleeper
        finally:
            timer.cancel()

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
            place, (envelope, _, _) = self._line.popitem(last=False)
            if not place.done():
                place.set_exception(
                    Undeliverable(
                        f"{self.owner} has stopped; {kind(envelope.body)} from {envelope.source} was not taken"
                    )
                )
        self.wake()

    def empty(self, why: str) -> None:
        """Drop everything that nobody will take any more; every asker is told."""
        self._end_batch()
        while self.queue:
            envelope = self.queue.popleft()
            if envelope is not MISSING:
                fail(envelope, f"{self.owner} {why}")
        self._lagging, self._missing = False, 0

    def statistics(self) -> Statistics:
        """A snapshot for metrics."""
        return Statistics(len(self.queue), self.taken, self.missed, len(self._line), self.stale)


def fail(envelope: Envelope, why: str) -> None:
    """Answer a request with PeerFailed; other messages have nobody to tell."""
    future: asyncio.Future[Any] | None = envelope.answer_to
    if future is not None and not future.done():
        future.set_exception(PeerFailed(why))
        future.exception()
