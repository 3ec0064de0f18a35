"""Run one module alone on a real bus; `Peers` stands for everybody else.

    async with alone(module, world=world) as peers:
        peers.answer(ListNodes, lambda request: Nodes(()))
        await peers.send(StartTask(...))
        step = await peers.heard(RunStep)

The module's failure fails the test. What it says is kept in order in `peers.said`; `heard` takes the next message of a
kind that was not taken yet.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from beehive.bus import Bus
from beehive.message import Command, Envelope, Event, Lagged, Message, Request
from beehive.module import Endpoint, Module
from beehive.router import Declaration, Kinds, complaints
from beehive.world import World

M = TypeVar("M", bound=Message)
R = TypeVar("R")
Answerer = Callable[[Any], Any]


class Peers:
    """Everybody else: accepts what the module says, asks and sends what it accepts."""

    def __init__(self, endpoint: Endpoint, module: Endpoint) -> None:
        self.endpoint = endpoint
        self.module = module
        """The module's own endpoint: `waits_for`, `inbox`."""
        self.said: list[Message] = []
        """All that the module said, in order, with the requests."""
        self._taken: set[int] = set()
        self._answers: dict[type[Message], Answerer] = {}
        self._news = asyncio.Event()

    def answer(self, kind: type[Request[Any]], how: Answerer) -> None:
        """From now on this kind of request is answered by `how(request)`, a function or a coroutine function."""
        self._answers[kind] = how

    async def send(self, command: Command) -> None:
        """Send the module a command."""
        await self.endpoint.send(command)

    def publish(self, event: Event) -> None:
        """Publish an event that the module subscribed to."""
        self.endpoint.publish(event)

    async def ask(self, request: Request[R], timeout: float = 10.0) -> R:
        """Ask the module."""
        return await self.endpoint.ask(request, timeout)

    async def heard(self, kind: type[M], timeout: float = 30.0) -> M:
        """The next message of this kind that was not taken yet; waits for it, and says what was heard instead."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    for index, body in enumerate(self.said):
                        if isinstance(body, kind) and index not in self._taken:
                            self._taken.add(index)
                            return body
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            heard = ", ".join(type(body).__name__ for body in self.said) or "nothing"
            raise AssertionError(f"no {kind.__name__} within {timeout:g} s; heard: {heard}") from None

    def all_of(self, kind: type[M]) -> list[M]:
        """Every message of this kind so far, taken or not."""
        return [body for body in self.said if isinstance(body, kind)]

    async def listen(self) -> None:
        async with asyncio.TaskGroup() as group:
            async for envelope in self.endpoint.messages():
                self.said.append(envelope.body)
                self._news.set()
                if envelope.answer_to is not None:
                    group.create_task(self._reply(envelope))

    async def _reply(self, envelope: Envelope) -> None:
        how = self._answers.get(type(envelope.body))
        if how is None:
            raise AssertionError(f"the module asked {envelope.body!r}, and the test has no answer for it")
        answer = how(envelope.body)
        self.endpoint.reply(envelope, await answer if isinstance(answer, Awaitable) else answer)


@asynccontextmanager
async def alone(
    module: Module, *, name: str = "module", world: World | None = None, ready: bool = True, inbox: int = 1024
) -> AsyncIterator[Peers]:
    """Start the module and, unless `ready` is False, wait until it is ready; at the end its messages end."""
    own = tuple(kind for kind in module.sends if kind in module.accepts)
    heard: Kinds = (*(kind for kind in (*module.sends, *module.asks) if kind not in own), Lagged)
    said = tuple(kind for kind in module.accepts if kind is not Lagged and kind not in own)
    declarations = (
        Declaration(name, module.accepts, module.sends, module.asks),
        Declaration(
            "peers",
            accepts=heard,
            sends=tuple(kind for kind in said if not issubclass(kind, Request)),
            asks=tuple(kind for kind in said if issubclass(kind, Request)),
        ),
    )
    wrong = [text for text in complaints(declarations) if not text.startswith("Asks form a cycle")]
    if wrong:
        raise AssertionError("; ".join(wrong))
    bus = Bus(declarations, {name: inbox, "peers": 100_000})
    peers = Peers(Endpoint("peers", bus, world), Endpoint(name, bus, world))
    async with asyncio.TaskGroup() as group:
        listening = group.create_task(peers.listen())
        running = group.create_task(module.run(peers.module), name=name)
        if ready:
            await _until_ready(peers.module, running)
        try:
            yield peers
        finally:
            peers.module.inbox.close()
            await asyncio.wait((running,), timeout=30)
            peers.endpoint.inbox.close()
            if not running.done():
                running.cancel()
                raise AssertionError(f"{name} did not end within 30 s after its messages ended")
            await asyncio.wait((listening,), timeout=30)


async def _until_ready(endpoint: Endpoint, running: "asyncio.Task[None]") -> None:
    waiting = asyncio.ensure_future(endpoint.is_ready.wait())
    await asyncio.wait((waiting, running), timeout=60, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if running.done():
        await running
        raise AssertionError(f"{endpoint.name} ended before it was ready")
    if not endpoint.is_ready.is_set():
        raise AssertionError(f"{endpoint.name} was not ready after 60 s; it waits for {endpoint.waits_for}")
