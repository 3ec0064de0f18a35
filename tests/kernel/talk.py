"""A small conversation for the kernel's tests."""

import asyncio
from collections.abc import Awaitable, Callable

from beehive.bus import Bus
from beehive.message import Command, Envelope, Event, Lagged, Request
from beehive.module import Endpoint
from beehive.router import Declaration


class Do(Command, frozen=True, kw_only=True, gc=False, tag="talk.do"):
    n: int


class Done(Event, frozen=True, kw_only=True, gc=False, tag="talk.done"):
    n: int


class Double(Request[int], frozen=True, kw_only=True, gc=False, tag="talk.double"):
    n: int


class Unsaid(Command, frozen=True, kw_only=True, gc=False, tag="talk.unsaid"):
    """Nobody declares it."""


def pair(capacity: int = 4) -> tuple[Endpoint, Endpoint, Bus]:
    """`caller` says everything to `owner`."""
    bus = Bus(
        (
            Declaration("caller", sends=(Do, Done), asks=(Double,)),
            Declaration("owner", accepts=(Do, Done, Double, Lagged)),
        ),
        {"caller": 4, "owner": capacity},
    )
    return Endpoint("caller", bus), Endpoint("owner", bus), bus


async def drain(endpoint: Endpoint, on: Callable[[Envelope], Awaitable[None] | None] = lambda _: None) -> list[object]:
    """Take messages until they end; requests are doubled."""
    heard: list[object] = []
    async for envelope in endpoint.messages():
        heard.append(envelope.body)
        waited = on(envelope)
        if waited is not None:
            await waited
        if isinstance(envelope.body, Double):
            endpoint.reply(envelope, envelope.body.n * 2)
    return heard


async def settle() -> None:
    """Let everything that can run now run."""
    for _ in range(20):
        await asyncio.sleep(0)
