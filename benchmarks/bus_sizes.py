"""Exact counts: bytes of a message that waits and of an inbox that is empty, and the outcomes of a million asks."""

import asyncio
import gc
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable

from beehive.bus import Bus
from beehive.errors import NoAnswer, PeerFailed
from beehive.inbox import fail
from beehive.module import Endpoint
from beehive.router import Declaration
from benchmarks.bus_cases import CALLERS, DO, PLACES, Do, Double, pair


def _allocated(make: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        kept = make()
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
        del kept
        return size
    finally:
        tracemalloc.stop()


async def bytes_per_message() -> float:
    """Beside its body, in a full inbox."""
    caller, owner, _ = pair()
    await caller.send(DO)
    for _ in owner.inbox.take():
        pass
    owner.inbox.open_gate()

    def fill() -> None:
        for _ in range(PLACES):
            caller.send(DO).__await__()

    size = _allocated(fill)
    if len(owner.inbox.queue) != PLACES:
        raise AssertionError("the inbox is not full")
    return size / PLACES


async def bytes_per_inbox() -> float:
    """An empty inbox with its endpoint, of a module that says one command and asks one request."""
    many = 1000
    declared = (
        Declaration("owner", accepts=(Do, Double)),
        *(Declaration(f"caller-{n}", sends=(Do,), asks=(Double,)) for n in range(many)),
    )
    places = dict.fromkeys((one.name for one in declared), PLACES)

    def make() -> object:
        bus = Bus(declared, places)
        return bus, [Endpoint(one.name, bus) for one in declared]

    return _allocated(make) / (many + 1)


async def outcomes(times: int) -> Counter[str]:
    """Ask so many times from 64 callers; instant, late, failed and missing answers, and callers that are cancelled."""
    caller, owner, bus = pair()
    chance = random.Random(4)
    ended: Counter[str] = Counter()
    late: set[asyncio.Handle] = set()
    loop = asyncio.get_running_loop()

    async def answer() -> None:
        async for envelope in owner.messages():
            roll = chance.random()
            if roll < 0.9:
                owner.reply(envelope, envelope.body.n)
            elif roll < 0.95:
                late.add(loop.call_later(chance.random() * 0.02, owner.reply, envelope, envelope.body.n))
            elif roll < 0.98:
                fail(envelope, "on purpose")

    async def one(n: int) -> str:
        try:
            return "answer" if await caller.ask(Double(n=n), timeout=0.01) == n else "WRONG ANSWER"
        except NoAnswer:
            return "NoAnswer"
        except PeerFailed:
            return "PeerFailed"

    async def call() -> None:
        for n in range(times // CALLERS):
            if chance.random() < 0.01:
                asking = asyncio.ensure_future(one(n))
                loop.call_soon(asking.cancel)
                await asyncio.wait((asking,))
                ended["cancelled" if asking.cancelled() else asking.result()] += 1
            else:
                ended[await one(n)] += 1

    answering = asyncio.ensure_future(answer())
    async with asyncio.timeout(600):
        await asyncio.gather(*(call() for _ in range(CALLERS)))
        while len(bus.questions):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    owner.inbox.close()
    await answering
    return ended
