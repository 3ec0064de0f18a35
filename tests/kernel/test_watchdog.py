"""Who holds the loop, and how long messages wait."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.bus import Bus
from beehive.inbox import Inbox
from beehive.message import Envelope
from beehive.module import Endpoint
from beehive.router import Declaration, Kinds
from beehive.supervisor import Supervisor
from beehive.watchdog import Ages, Watchdog
from beehive.world import World
from tests.kernel.talk import Do
from tests.kernel.test_supervisor import Heard


class Blocks(Heard):
    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[tuple[str, float, str]] = []

    def blocked(self, module: str, seconds: float, where: str) -> None:
        self.blocks.append((module, seconds, where))


class Holder:
    """Holds the loop in its own way when it takes a message."""

    accepts: Kinds = (Do,)
    sends: Kinds = ()
    asks: Kinds = ()

    def __init__(self, hold: Callable[[], object]) -> None:
        self._hold = hold

    async def run(self, endpoint: Endpoint) -> None:
        endpoint.ready()
        async for _ in endpoint.messages():
            self._hold()


def sleeps_for_luck() -> None:
    time.sleep(0.35)


def decodes_for_long() -> None:
    text, end = "[" + "1," * 200_000 + "1]", time.monotonic() + 0.35
    while time.monotonic() < end:
        json.loads(text, parse_int=lambda digits: digits)


def spawns_what_sleeps() -> None:
    async def apart() -> None:
        sleeps_for_luck()

    TASKS.append(asyncio.ensure_future(apart()))


def calls_back_later() -> None:
    asyncio.get_running_loop().call_soon(sleeps_for_luck)


TASKS: list["asyncio.Task[None]"] = []


@pytest.fixture
async def blocks() -> AsyncIterator[Blocks]:
    yield Blocks()
    TASKS.clear()


@pytest.mark.parametrize("hold", [sleeps_for_luck, decodes_for_long, spawns_what_sleeps, calls_back_later])
async def test_who_holds_the_loop_is_named_with_the_place(hold: Callable[[], object], blocks: Blocks) -> None:
    bus = Bus((Declaration("holder", (Do,)), Declaration("caller", sends=(Do,))), {"holder": 4, "caller": 4})
    supervisor = Supervisor(bus, World(), observer=blocks)
    supervisor.add("holder", lambda: Holder(hold))
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    running = asyncio.create_task(supervisor.run(stop))
    await supervisor.keepers[0].endpoint.is_ready.wait()
    watchdog = Watchdog(supervisor, loop, limit=0.1)
    await Endpoint("caller", bus).send(Do(n=1))
    async with asyncio.timeout(10):
        while not watchdog.delay > 0.1:  # noqa: ASYNC110 - it is a thread that sets it
            await asyncio.sleep(0.01)
    watchdog.close()
    stop.set()
    await running
    assert [module for module, _, _ in blocks.blocks] == ["holder"]
    _, seconds, where = blocks.blocks[0]
    assert where.startswith("tests.kernel.test_watchdog:")
    assert where.endswith(" in <lambda>" if hold is decodes_for_long else " in sleeps_for_luck") or "json" in where
    assert 0.1 <= seconds < 0.3
    assert watchdog.stalls == 1
    assert 0.2 < watchdog.stalled < 0.6


async def test_a_loop_that_turns_is_left_alone(blocks: Blocks) -> None:
    bus = Bus((Declaration("holder", (Do,)),), {"holder": 4})
    watchdog = Watchdog(Supervisor(bus, World(), observer=blocks), asyncio.get_running_loop(), limit=0.1)
    for _ in range(40):
        await asyncio.sleep(0.01)
    watchdog.close()
    assert blocks.blocks == []
    assert watchdog.stalls == 0
    assert watchdog.stalled == 0.0
    assert 0 < watchdog.delay < 0.1


# ---- ages ----------------------------------------------------------------------------------------------------------


def put(inbox: Inbox, many: int = 1) -> None:
    for n in range(many):
        inbox.post(Envelope("caller", Do(n=n)), 0)


def take(inbox: Inbox, many: int = 1) -> None:
    for _, _ in zip(range(many), inbox.take(), strict=False):
        pass


async def test_the_oldest_message_is_as_old_as_the_first_mark_that_saw_it() -> None:
    inbox = Inbox("one", 100)
    ages = Ages({"one": inbox})
    put(inbox)
    ages.mark(10)
    put(inbox)
    ages.mark(20)
    assert ages.oldest(25) == {"one": 15}
    take(inbox)
    assert ages.oldest(25) == {"one": 5}
    take(inbox)
    assert ages.oldest(25) == {"one": 0}


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["put", "take", "wait", "mark"]), st.integers(1, 5)), max_size=60))
def test_an_age_is_never_too_high_and_short_by_no_more_than_the_time_between_marks(
    steps: list[tuple[str, int]],
) -> None:
    inbox = Inbox("one", 8)
    ages, now, marked = Ages({"one": inbox}), 0.0, 0.0
    born: list[float] = []
    longest_gap = 0.0
    for what, many in steps:
        if what == "put":
            born += [now] * min(many, inbox.capacity - len(inbox.queue))
            put(inbox, min(many, inbox.capacity - len(inbox.queue)))
        elif what == "take":
            take(inbox, min(many, len(inbox.queue)))
            del born[: len(born) - len(inbox.queue)]
        elif what == "wait":
            now += many
        else:
            ages.mark(now)
            longest_gap, marked = max(longest_gap, now - marked), now
        truth = now - born[0] if born else 0.0
        seen = ages.oldest(now)["one"]
        assert seen <= truth
        assert truth - seen <= max(longest_gap, now - marked)
        assert len(ages._marks["one"]) <= inbox.capacity + 1
