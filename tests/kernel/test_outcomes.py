"""No answer is ever lost: of many asks each ends in exactly one way, and nothing of them stays."""

import asyncio
import gc
import random
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from beehive.bus import Questions
from beehive.errors import InboxFull, NoAnswer, PeerFailed
from beehive.inbox import fail
from beehive.message import Envelope
from benchmarks.bus_sizes import outcomes
from tests.kernel.talk import Do, Done, Double, pair

pytestmark = pytest.mark.virtual_time

CALLERS = 64
EACH = 40


@pytest.mark.parametrize(("capacity", "seed"), [(3, 1), (1024, 2)])
async def test_every_ask_ends_in_exactly_one_way(capacity: int, seed: int) -> None:
    caller, owner, bus = pair(capacity)
    chance, ended, loop = random.Random(seed), Counter[str](), asyncio.get_running_loop()

    async def answer() -> None:
        async for envelope in owner.messages():
            roll = chance.random()
            if roll < 0.6:
                assert owner.reply(envelope, envelope.body.n * 2)
                assert not owner.reply(envelope, -1)
            elif roll < 0.8:
                loop.call_later(chance.random() * 20, owner.reply, envelope, envelope.body.n * 2)
            elif roll < 0.9:
                fail(envelope, "on purpose")

    async def one(n: int) -> None:
        begun = loop.time()
        try:
            assert await caller.ask(Double(n=n), timeout=10) == n * 2
            ended["answer"] += 1
        except NoAnswer:
            assert loop.time() - begun == pytest.approx(10, abs=0.01)
            ended["no answer"] += 1
        except PeerFailed:
            ended["failed"] += 1

    async def call(number: int) -> None:
        for n in range(EACH):
            asking = asyncio.ensure_future(one(number * EACH + n))
            if chance.random() < 0.1:
                loop.call_later(chance.random() * 12, asking.cancel)
            await asyncio.wait((asking,))
            ended["cancelled"] += asking.cancelled()
            assert asking.cancelled() or asking.exception() is None

    answering = asyncio.create_task(answer())
    await asyncio.gather(*(call(number) for number in range(CALLERS)))
    await asyncio.sleep(30)
    assert ended.total() == CALLERS * EACH
    assert set(ended) == {"answer", "no answer", "failed", "cancelled"}
    assert len(bus.questions) == 0
    assert owner.inbox.statistics().depth == 0
    assert owner.inbox.statistics().waiting == 0
    owner.inbox.close()
    await answering


async def test_a_dead_consumer_bounds_the_memory_of_all_who_speak_to_it() -> None:
    """An owner that takes nothing for an hour, while others go on sending, asking and publishing to it."""
    caller, owner, bus = pair(capacity=8)
    few, loop, ended = 16, asyncio.get_running_loop(), Counter[str]()

    async def speak(say: Callable[[], Awaitable[object]]) -> None:
        while loop.time() < 3600:
            try:
                await say()
            except (InboxFull, NoAnswer) as error:
                ended[type(error).__name__] += 1
            assert len(owner.inbox.queue) <= 9
            assert owner.inbox.statistics().waiting <= 2 * few
            assert len(bus.questions) <= few

    async def publish() -> None:
        while loop.time() < 3600:
            caller.publish(Done(n=1))
            await asyncio.sleep(1)

    speaking = [speak(lambda: caller.send(Do(n=1), patience=60)) for _ in range(few)]
    speaking += [speak(lambda: caller.ask(Double(n=1), timeout=60)) for _ in range(few)]
    running = [asyncio.ensure_future(one) for one in (*speaking, publish())]
    tracemalloc.start()
    try:
        await asyncio.sleep(600)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        await asyncio.sleep(2400)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        await asyncio.gather(*running)
    assert grown < 50_000, f"{grown} bytes in 2,400 s"
    assert min(ended.values()) > 50 * few, ended
    assert owner.inbox.missed > 3500


@pytest.mark.long
@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_of_a_million_asks_in_real_time_each_ends_in_exactly_one_way(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        ended = runner.run(outcomes(1_000_000))
    assert ended.total() == 1_000_000
    assert set(ended) == {"answer", "NoAnswer", "PeerFailed", "cancelled"}


async def test_many_who_wait_cost_little_though_each_has_its_own_deadline() -> None:
    """With a look through all of them whenever one is over there would be 5,000 looks at up to 5,000."""
    questions, loop, looks, many = Questions(), asyncio.get_running_loop(), 0, 5_000
    futures: list[asyncio.Future[int]] = [loop.create_future() for _ in range(many)]
    for n, future in enumerate(futures):
        questions.waiting[future] = (10 + n * 0.0002, Envelope("caller", Double(n=n), future), "owner")
    questions.arm(loop, 10)
    while len(questions):
        looks += 1
        await asyncio.sleep(max(0.0, questions.due - loop.time()) + 1e-6)
    assert looks < 1000
    assert loop.time() == pytest.approx(10 + many * 0.0002, abs=0.02)
    for future in futures:
        assert isinstance(future.exception(), NoAnswer)
