"""What a module is, and its own end of the bus."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Protocol, TypeVar, overload

from msgspec import Struct

from beehive.bus import Bus
from beehive.errors import Undeliverable
from beehive.inbox import Inbox, Waiting, fail
from beehive.journal import Journal
from beehive.message import Command, Envelope, Event, Message, Request
from beehive.router import Kinds
from beehive.world import World

R = TypeVar("R")


class Module(Protocol):
    """A piece of the house. It declares its conversation and runs one loop.

    `run` must call `endpoint.ready()` once it can do its work, before its first ask, and returns when the endpoint's
    messages end. It is made anew for every restart, so the constructor holds no history.
    """

    @property
    def accepts(self) -> Kinds:
        """Commands and requests that it owns, events that it wants."""

    @property
    def sends(self) -> Kinds:
        """Commands that it sends and events that it publishes."""

    @property
    def asks(self) -> Kinds:
        """Requests that it asks."""

    async def run(self, endpoint: "Endpoint") -> None:
        """Work until the messages end."""


class Make(Protocol):
    """Makes a module from its configuration section; the whole dependency injection."""

    def __call__(self, config: Any, world: World, journal: Journal) -> Module:
        """Make it anew: at the first start and at each restart."""


class ModuleSpec(Struct, frozen=True):
    """One line of the registry (`modules/registry.py`)."""

    name: str
    config: type[Struct]
    """Its section of the configuration, under its name."""
    cloud: Make | None = None
    edge: Make | None = None
    inbox: int = 256
    """Capacity of its inbox, in messages."""
    optional: bool = False
    """The others may run without it."""
    start_timeout: float = 30.0
    """Seconds from its start, or from when it last said what it waits for, until it must be ready."""
    stop_timeout: float = 10.0
    """Seconds that it has to end when its messages end; then it is cancelled."""


class Endpoint:
    """A module's own end of the bus: the only way in which modules touch each other."""

    def __init__(self, name: str, bus: Bus, world: World | None = None) -> None:
        self.name = name
        self.inbox: Inbox = bus.inboxes[name]
        self._bus = bus
        self._world = world or World()
        declared = bus.declarations[name]
        self._owners = {
            one: bus.owner_of(one) for one in (*declared.sends, *declared.asks) if not issubclass(one, Event)
        }
        self._topics = {one: bus.subscribers_of(one) for one in declared.sends if issubclass(one, Event)}
        self._sent: asyncio.Future[None] | None = None
        self.is_ready = asyncio.Event()
        self.waits_for = "its start"
        """What it waits for, as a sentence without a full stop; empty when it is ready."""
        self.last_sign = 0.0
        """When it last said that it waits, on the loop's clock: a start that makes progress is not hung."""

    # ---- being alive -------------------------------------------------------------------------------------------

    def ready(self) -> None:
        """It can do its work (again)."""
        self.waits_for = ""
        self.is_ready.set()

    def waiting_for(self, what: str) -> None:
        """It can't do its work yet, or not now; `/readyz?verbose` shows `what`."""
        self.waits_for = what
        self.last_sign = asyncio.get_running_loop().time()

    # ---- saying ------------------------------------------------------------------------------------------------

    def send(self, command: Command, patience: float = 5.0) -> Awaitable[None]:
        """Hand a command to its owner; waits up to `patience` seconds while the owner's inbox is full.

        Raises InboxFull, or Undeliverable when the owner has stopped or the type was not declared.
        """
        inbox = self._owner(type(command))
        envelope = Envelope(self.name, command)
        if len(inbox.queue) < inbox.room:
            inbox.queue.append(envelope)
            return self._done()
        cause = self._cause()
        if inbox.accept(envelope, cause):
            return self._done()
        return inbox.wait(inbox.line_up(envelope, cause), patience)

    def publish(self, event: Event) -> None:
        """Tell all subscribers; never waits. Who is full gets `Lagged` instead."""
        try:
            inboxes = self._topics[type(event)]
        except KeyError:
            raise self._undeclared(type(event)) from None
        envelope = Envelope(self.name, event)
        for inbox in inboxes:
            if len(inbox.queue) < inbox.room:
                inbox.queue.append(envelope)
            else:
                inbox.post(envelope, self._cause())

    def ask(self, request: Request[R], timeout: float = 10.0) -> Awaitable[R]:
        """Ask the one owner; waits at most `timeout` seconds in all, for a place in the inbox and for the answer.

        Raises NoAnswer, or PeerFailed at once when the owner failed on it or has stopped.
        """
        inbox = self._owner(type(request))
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        envelope = Envelope(self.name, request, future)
        if len(inbox.queue) < inbox.room:
            inbox.queue.append(envelope)
            return self._bus.questions.expect(envelope, inbox.owner, timeout)
        return self._ask_slowly(inbox, envelope, timeout)

    def _ask_slowly(self, inbox: Inbox, envelope: Envelope, timeout: float) -> Awaitable[Any]:
        cause = self._cause()
        try:
            taken = inbox.accept(envelope, cause)
        except Undeliverable:
            fail(envelope, f"{inbox.owner} has stopped")
            taken = True
        answer = self._bus.questions.expect(envelope, inbox.owner, timeout)
        return answer if taken else self._ask_in_line(inbox, inbox.line_up(envelope, cause), answer)

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

    def reply(self, envelope: Envelope, answer: object) -> bool:
        """Answer a request; never waits. False when nobody waits for it any more."""
        future = envelope.answer_to
        if future is None:
            raise ValueError(f"{type(envelope.body).__name__} from {envelope.source} is not a request")
        self._bus.questions.forget(future)
        if future.done():
            return False
        future.set_result(answer)
        if self._bus.watch.tracer:
            self._bus.watch.tracer.answered(envelope, answer)
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
        inbox = self.inbox
        while True:
            for envelope in inbox.take():
                yield envelope
                if until and self._is_due(until):
                    yield None
            if inbox.closed and not inbox.queue:
                return
            await inbox.sleep(self._pause(until))
            if until and not inbox.queue and not inbox.closed and self._is_due(until):
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

    def _pause(self, until: Callable[[], float | None] | None) -> float | None:
        at = until() if until else None
        return None if at is None else min(60.0, max(0.0, at - self._world.now()))

    # ---- inside ------------------------------------------------------------------------------------------------

    def _owner(self, message: type[Message]) -> Inbox:
        try:
            inbox = self._owners[message]
        except KeyError:
            raise self._undeclared(message) from None
        if inbox is None:
            raise Undeliverable(f"the module that would take {message.__name__} was left out of this process")
        return inbox

    def _undeclared(self, message: type[Message]) -> Undeliverable:
        return Undeliverable(f"{self.name} does not declare that it says {message.__name__}")

    def _cause(self) -> int:
        return self.inbox.in_hand.id if self.inbox.in_hand else 0

    def _done(self) -> "asyncio.Future[None]":
        if self._sent is None:
            self._sent = asyncio.get_running_loop().create_future()
            self._sent.set_result(None)
        return self._sent
