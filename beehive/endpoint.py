"""A module's own end of the bus: saying and hearing. What each costs: `make bench NAME=bus`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Protocol, TypeVar, overload

from beehive.bus import Bus
from beehive.errors import Undeliverable
from beehive.inbox import Inbox, Waiting, fail
from beehive.message import Command, Envelope, Event, Message, Request
from beehive.world import World

C = TypeVar("C", bound=Command)
C_contra = TypeVar("C_contra", bound=Command, contravariant=True)
R = TypeVar("R")


class Sender(Protocol[C_contra]):
    """What `Endpoint.sender` gives."""

    def __call__(self, command: C_contra, patience: float = 5.0) -> Awaitable[None]:
        """As `Endpoint.send`."""


class Endpoint:
    """A module's own end of the bus: the only way in which modules touch each other."""

    __slots__ = (
        "_bus", "_is_ready", "_owners", "_questions", "_sent", "_topics", "_watch", "_world",
        "inbox", "last_sign", "name", "readied", "waits_for",
    )  # fmt: skip

    def __init__(self, name: str, bus: Bus, world: World | None = None) -> None:
        self.name = name
        self.inbox: Inbox = bus.inboxes[name]
        self._bus, self._questions, self._watch = bus, bus.questions, bus.watch
        self._world = world or World()
        declared = bus.declarations[name]
        self._owners = {
            one: owner
            for one in (*declared.sends, *declared.asks)
            if not issubclass(one, Event) and (owner := bus.owner_of(one))
        }
        self._topics = {
            one: tuple((inbox, inbox.queue) for inbox in bus.subscribers_of(one))
            for one in declared.sends
            if issubclass(one, Event)
        }
        self._sent: asyncio.Future[None] | None = None
        self._is_ready: asyncio.Event | None = None
        self.readied = 0
        """How often it said that it is ready."""
        self.waits_for = "its start"
        """What it waits for, as a sentence without a full stop; empty when it is ready."""
        self.last_sign = 0.0
        """When it last said that it waits, on the loop's clock: a start that makes progress is not hung."""

    # ---- being alive -------------------------------------------------------------------------------------------

    def ready(self) -> None:
        """It can do its work (again)."""
        self.waits_for = ""
        self.readied += 1
        if self._is_ready:
            self._is_ready.set()

    @property
    def is_ready(self) -> asyncio.Event:
        """Set when it has been ready at least once."""
        if self._is_ready is None:
            self._is_ready = asyncio.Event()
            if self.readied:
                self._is_ready.set()
        return self._is_ready

    def waiting_for(self, what: str) -> None:
        """It can't do its work yet, or not now; `/readyz?verbose` shows `what`."""
        self.waits_for = what
        self.last_sign = asyncio.get_running_loop().time()

    # ---- saying ------------------------------------------------------------------------------------------------

    def send(self, command: Command, patience: float = 5.0) -> Awaitable[None]:
        """Hand a command to its owner; waits up to `patience` seconds while the owner's inbox is full.

        Raises InboxFull, or Undeliverable when the owner has stopped or the type was not declared.
        """
        try:
            inbox = self._owners[type(command)]
        except KeyError:
            raise self._undeliverable(type(command)) from None
        if len(inbox.queue) < inbox.room:
            inbox.queue.append(Envelope(self.name, command))
            return self._sent or self._done()
        return self._send_slowly(inbox, command, patience)

    def sender(self, kind: type[C]) -> "Sender[C]":
        """`send` for commands of one kind, with the route looked up once: for hubs, which say the same all day.

        To be called in `run`. Raises Undeliverable as `send` does.
        """
        try:
            inbox = self._owners[kind]
        except KeyError:
            raise self._undeliverable(kind) from None
        name, queue, append, slowly = self.name, inbox.queue, inbox.queue.append, self._send_slowly
        sent = self._done()

        def send(command: C, patience: float = 5.0) -> Awaitable[None]:
            if len(queue) < inbox.room:
                append(Envelope(name, command))
                return sent
            return slowly(inbox, command, patience)

        return send

    def _send_slowly(self, inbox: Inbox, command: Command, patience: float) -> Awaitable[None]:
        in_hand = self.inbox.in_hand
        envelope, cause = Envelope(self.name, command), in_hand.id if in_hand else 0
        if inbox.accept(envelope, cause):
            return self._done()
        return inbox.wait(inbox.line_up(envelope, cause), patience)

    def publish(self, event: Event) -> None:
        """Tell all subscribers; never waits. Who is full gets `Lagged` instead."""
        try:
            inboxes = self._topics[type(event)]
        except KeyError:
            raise self._undeliverable(type(event)) from None
        envelope = Envelope(self.name, event)
        for inbox, queue in inboxes:
            if len(queue) < inbox.room:
                queue.append(envelope)
            else:
                inbox.post(envelope, self._cause())

    def ask(self, request: Request[R], timeout: float = 10.0) -> Awaitable[R]:
        """Ask the one owner; waits at most `timeout` seconds in all, for a place in the inbox and for the answer.

        Raises NoAnswer, or PeerFailed at once when the owner failed on it or has stopped.
        """
        try:
            inbox = self._owners[type(request)]
        except KeyError:
            raise self._undeliverable(type(request)) from None
        questions = self._questions
        loop = questions.loop or questions.begin()
        future: asyncio.Future[R] = asyncio.Future(loop=loop)
        envelope = Envelope(self.name, request, future)
        if len(inbox.queue) < inbox.room:
            inbox.queue.append(envelope)
            waiting: Waiting | None = None
        else:
            waiting = self._ask_slowly(inbox, envelope)
        deadline = questions.clock() + timeout
        questions.waiting[future] = (deadline, envelope, inbox.owner)
        if deadline < questions.due:
            questions.arm(loop, deadline)
        return future if waiting is None else self._ask_in_line(inbox, waiting, future)

    def _ask_slowly(self, inbox: Inbox, envelope: Envelope) -> Waiting | None:
        """The way behind the shut gate; a place in the line where there is none in the inbox."""
        cause = self._cause()
        try:
            if inbox.accept(envelope, cause):
                return None
        except Undeliverable:
            fail(envelope, f"{inbox.owner} has stopped")
            return None
        return inbox.line_up(envelope, cause)

    async def _ask_in_line(self, inbox: Inbox, waiting: Waiting, answer: "asyncio.Future[Any]") -> Any:
        """The question waits for its place and for its answer at once; whichever ends first ends both."""
        envelope, place, _ = waiting
        try:
            await asyncio.wait((place, answer), return_when=asyncio.FIRST_COMPLETED)
            if place.done() and place.exception() and not answer.done():
                fail(envelope, f"{inbox.owner} has stopped")
            return await answer
        finally:
            inbox.withdraw(waiting)
            answer.cancel()
            del envelope, place, waiting, answer  # a failed answer holds this frame, and no collector sees an envelope

    def reply(self, envelope: Envelope, answer: object) -> bool:
        """Answer a request; never waits. False when nobody waits for it any more."""
        future = envelope.answer_to
        if future is None:
            raise ValueError(f"{type(envelope.body).__name__} from {envelope.source} is not a request")
        self._questions.waiting.pop(future, None)
        try:
            future.set_result(answer)
        except asyncio.InvalidStateError:
            return False
        if self._watch.tracer:
            self._watch.tracer.answered(envelope, answer)
        return True

    # ---- hearing -----------------------------------------------------------------------------------------------

    @overload
    def messages(self) -> AsyncIterator[Envelope]: ...
    @overload
    def messages(self, until: Callable[[], float | None]) -> AsyncIterator[Envelope | None]: ...
    async def messages(self, until: Callable[[], float | None] | None = None) -> AsyncIterator[Envelope | None]:
        """Every message in order, one at a time; ends when the inbox is closed and empty.

        `until` gives the wall-clock time (of `World.now`) of the next alarm, or None; when it has come, None is
        yielded. It is read again after each message, and at least once a minute in case the clock was set.
        """
        inbox, queue = self.inbox, self.inbox.queue
        while True:
            for _ in inbox.begin_batch():  # as in `Inbox.take`
                envelope = queue.popleft()
                answer_to = envelope.answer_to
                if answer_to is not None and answer_to.done():
                    if inbox.is_stale(envelope):
                        continue
                    envelope = inbox.lagged()
                inbox.in_hand = envelope
                if not inbox.room:
                    inbox.look(envelope)
                yield envelope
                if until is not None and self._is_due(until):
                    yield None
            inbox.in_hand = None
            if inbox.closed and not queue:
                return
            await inbox.sleep(self._pause(until) if until else None)
            if until and not queue and not inbox.closed and self._is_due(until):
                yield None

    async def batches(self) -> AsyncIterator[Iterator[Envelope]]:
        """Per wake-up an iterator over what is there; for hubs, which do one thing for many messages."""
        inbox = self.inbox
        while True:
            yield inbox.take()
            if inbox.closed and not inbox.queue:
                return
            await inbox.sleep(None)

    def _is_due(self, until: Callable[[], float | None]) -> bool:
        at = until()
        return at is not None and at <= self._world.now()

    def _pause(self, until: Callable[[], float | None]) -> float | None:
        at = until()
        return None if at is None else min(60.0, max(0.0, at - self._world.now()))

    # ---- inside ------------------------------------------------------------------------------------------------

    def _undeliverable(self, message: type[Message]) -> Undeliverable:
        declared = self._bus.declarations[self.name]
        if message in (*declared.sends, *declared.asks):
            return Undeliverable(f"the module that would take {message.__name__} was left out of this process")
        return Undeliverable(f"{self.name} does not declare that it says {message.__name__}")

    def _cause(self) -> int:
        return self.inbox.in_hand.id if self.inbox.in_hand else 0

    def _done(self) -> "asyncio.Future[None]":
        if self._sent is None:
            self._sent = asyncio.get_running_loop().create_future()
            self._sent.set_result(None)
        return self._sent
