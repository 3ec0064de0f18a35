"""What is done to the bus, and the same done with what Python programs use in its place.

Ours goes through the interface that modules use: an `Endpoint` on each side. All queues hold 1,024.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable

import anyio
import janus

from beehive.bus import Bus
from beehive.message import Command, Envelope, Event, Request
from beehive.module import Endpoint
from beehive.router import Declaration

PLACES = 1024
CALLERS = 64
LISTENERS = 8
BURST = 64


class Do(Command, frozen=True, kw_only=True, gc=False, tag="bench.do"):
    n: int


class Done(Event, frozen=True, kw_only=True, gc=False, tag="bench.done"):
    n: int


class Double(Request[int], frozen=True, kw_only=True, gc=False, tag="bench.double"):
    n: int


DO, DONE, DOUBLE = Do(n=1), Done(n=1), Double(n=1)


class Nothing:
    """A tracer that does nothing."""

    def posted(self, receiver: str, envelope: Envelope) -> None: ...
    def delivered(self, receiver: str, envelope: Envelope) -> None: ...
    def answered(self, envelope: Envelope, answer: object) -> None: ...


def pair() -> tuple[Endpoint, Endpoint, Bus]:
    """Who says it, who takes it, and their bus."""
    bus = Bus(
        (Declaration("caller", sends=(Do,), asks=(Double,)), Declaration("owner", accepts=(Do, Double))),
        {"caller": PLACES, "owner": PLACES},
    )
    return Endpoint("caller", bus), Endpoint("owner", bus), bus


# ---- one way -------------------------------------------------------------------------------------------------------


async def _take(owner: Endpoint) -> int:
    taken = 0
    async for _ in owner.messages():
        taken += 1
    return taken


async def _take_batches(owner: Endpoint) -> int:
    taken = 0
    async for batch in owner.batches():
        for _ in batch:
            taken += 1
    return taken


def _all(taken: int, times: int) -> None:
    if taken != times:
        raise AssertionError(f"{times} were said and {taken} taken")


async def send_to_messages(times: int, *, traced: bool = False) -> None:
    caller, owner, bus = pair()
    if traced:
        bus.trace(Nothing())
    taking = asyncio.ensure_future(_take(owner))
    for _ in range(times):
        await caller.send(DO)
    owner.inbox.close()
    _all(await taking, times)


async def traced(times: int) -> None:
    await send_to_messages(times, traced=True)


async def sender_to_batches(times: int) -> None:
    caller, owner, _ = pair()
    send = caller.sender(Do)
    taking = asyncio.ensure_future(_take_batches(owner))
    for _ in range(times):
        await send(DO)
    owner.inbox.close()
    _all(await taking, times)


async def _from_queue(queue: "asyncio.Queue[object]", times: int) -> None:
    for _ in range(times):
        await queue.get()


async def queue(times: int) -> None:
    line: asyncio.Queue[object] = asyncio.Queue(PLACES)
    taking = asyncio.ensure_future(_from_queue(line, times))
    for _ in range(times):
        await line.put(DO)
    await taking


async def queue_of_envelopes(times: int) -> None:
    line: asyncio.Queue[object] = asyncio.Queue(PLACES)
    taking = asyncio.ensure_future(_from_queue(line, times))
    for _ in range(times):
        await line.put(Envelope("caller", DO))
    await taking


async def anyio_stream(times: int) -> None:
    to, out = anyio.create_memory_object_stream[object](PLACES)

    async def take() -> int:
        taken = 0
        async for _ in out:
            taken += 1
        return taken

    taking = asyncio.ensure_future(take())
    for _ in range(times):
        await to.send(DO)
    to.close()
    _all(await taking, times)
    out.close()


async def janus_queue(times: int) -> None:
    line: janus.Queue[object] = janus.Queue(PLACES)

    async def take() -> None:
        for _ in range(times):
            await line.async_q.get()

    taking = asyncio.ensure_future(take())
    for _ in range(times):
        await line.async_q.put(DO)
    await taking
    await line.aclose()


# ---- ask and reply -------------------------------------------------------------------------------------------------


async def _by_callers(one: Callable[[], Awaitable[object]], times: int) -> None:
    async def caller() -> None:
        for _ in range(times // CALLERS):
            await one()

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


async def ask_and_reply(times: int) -> None:
    caller, owner, _ = pair()

    async def answer() -> None:
        async for envelope in owner.messages():
            owner.reply(envelope, 2)

    answering = asyncio.ensure_future(answer())
    await _by_callers(functools.partial(caller.ask, DOUBLE), times)
    owner.inbox.close()
    await answering


Waiting = Callable[["asyncio.Future[int]"], Awaitable[int]]


def _over_a_queue(wait: Waiting | None) -> Callable[[int], Awaitable[None]]:
    """A Queue of (request, future); `wait` bounds the waiting, None waits for ever."""

    async def run(times: int) -> None:
        loop = asyncio.get_running_loop()
        line: asyncio.Queue[tuple[Double, asyncio.Future[int]]] = asyncio.Queue(PLACES)

        async def answer() -> None:
            while True:
                _, future = await line.get()
                future.set_result(2)

        async def unbounded() -> int:
            future: asyncio.Future[int] = loop.create_future()
            await line.put((DOUBLE, future))
            return await future

        async def bounded() -> int:
            assert wait is not None
            future: asyncio.Future[int] = loop.create_future()
            await line.put((DOUBLE, future))
            return await wait(future)

        answering = asyncio.ensure_future(answer())
        await _by_callers(bounded if wait else unbounded, times)
        answering.cancel()

    return run


async def _in_time(future: "asyncio.Future[int]") -> int:
    async with asyncio.timeout(10):
        return await future


async def _or_fail(future: "asyncio.Future[int]") -> int:
    with anyio.fail_after(10):
        return await future


future_alone = _over_a_queue(None)
asyncio_timeout = _over_a_queue(_in_time)
anyio_fail_after = _over_a_queue(_or_fail)


# ---- to eight at once ----------------------------------------------------------------------------------------------


async def publish_to_eight(times: int) -> None:
    names = [f"listener-{n}" for n in range(LISTENERS)]
    bus = Bus(
        (Declaration("caller", sends=(Done,)), *(Declaration(name, accepts=(Done,)) for name in names)),
        dict.fromkeys(("caller", *names), PLACES),
    )
    caller, listeners = Endpoint("caller", bus), [Endpoint(name, bus) for name in names]
    taking = [asyncio.ensure_future(_take(listener)) for listener in listeners]
    for burst in range(times // BURST):
        for _ in range(BURST):
            caller.publish(DONE)
        while listeners[-1].inbox.taken < (burst + 1) * BURST:  # noqa: ASYNC110 - the same for both sides
            await asyncio.sleep(0)
    for listener in listeners:
        listener.inbox.close()
    for taken in await asyncio.gather(*taking):
        _all(taken, times // BURST * BURST)


async def eight_queues(times: int) -> None:
    lines: list[asyncio.Queue[object]] = [asyncio.Queue(PLACES) for _ in range(LISTENERS)]
    whole = times // BURST * BURST
    taking = [asyncio.ensure_future(_from_queue(line, whole)) for line in lines]
    for _ in range(times // BURST):
        for _ in range(BURST):
            for line in lines:
                line.put_nowait(DONE)
        while lines[-1].qsize():  # noqa: ASYNC110 - the same for both sides
            await asyncio.sleep(0)
    await asyncio.gather(*taking)
