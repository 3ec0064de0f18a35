"""Who holds the loop, and how long messages wait."""

import asyncio
import json
import threading
import time
from collections.abc import Callable

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
    """What the watchdog said; `named` is set when it said that the holder holds the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[tuple[str, float, str]] = []
        self.named = threading.Event()

    def blocked(self, module: str, seconds: float, where: str) -> None:
        self.blocks.append((module, seconds, where))
        if module == "holder":
            self.named.set()


Hold = Callable[[threading.Event], object]


class Holder:
    """Holds the loop in its own way when it takes a message."""

    accepts: Kinds = (Do,)
    sends: Kinds = ()
    asks: Kinds = ()

    def __init__(self, hold: Hold, named: threading.Event) -> None:
        self._hold, self._named = hold, named

    async def run(self, endpoint: Endpoint) -> None:
        endpoint.ready()
        async for _ in endpoint.messages():
            self._hold(self._named)


def sleeps(named: threading.Event) -> None:
    assert named.wait(20)


def decodes(named: threading.Event) -> None:
    text, end = "[" + "1," * 100_000 + "1]", time.monotonic() + 20
    while not named.is_set():
        json.loads(text, parse_int=lambda digits: digits)
        assert time.monotonic() < end


def spawns(named: threading.Event) -> None:
    async def apart() -> None:
        sleeps(named)

    TASKS.append(asyncio.ensure_future(apart()))


def calls_back(named: threading.Event) -> None:
    asyncio.get_running_loop().call_soon(sleeps, named)


TASKS: list["asyncio.Task[None]"] = []


@pytest.mark.parametrize("hold", [sleeps, decodes, spawns, calls_back])
async def test_who_holds_the_loop_is_named_with_the_place(hold: Hold) -> None:
    blocks = Blocks()
    bus = Bus((Declaration("holder", (Do,)), Declaration("caller", sends=(Do,))), {"holder": 4, "caller": 4})
    supervisor = Supervisor(bus, World(), observer=blocks)
    supervisor.add("holder", lambda: Holder(hold, blocks.named))
    stop = asyncio.Event()
    running = asyncio.create_task(supervisor.run(stop))
    await supervisor.keepers[0].endpoint.is_ready.wait()
    watchdog = Watchdog(supervisor, asyncio.get_running_loop(), limit=0.1)
    await Endpoint("caller", bus).send(Do(n=1))
    async with asyncio.timeout(30):
        while not (blocks.named.is_set() and watchdog.delay > 0.1):  # noqa: ASYNC110 - a thread sets both
            await asyncio.sleep(0.01)
    watchdog.close()
    stop.set()
    await running
    seconds, where = next((seconds, where) for module, seconds, where in blocks.blocks if module == "holder")
    assert where.startswith("tests.kernel.test_watchdog:")
    assert f" in {'decodes' if hold is decodes else 'sleeps'}" in where.replace("<lambda>", "decodes")
    assert seconds >= 0.1
    assert watchdog.stalls == len(blocks.blocks)
    assert watchdog.stalled >= 0.1
    TASKS.clear()


async def test_a_loop_that_turns_is_left_alone() -> None:
    blocks = Blocks()
    bus = Bus((Declaration("holder", (Do,)),), {"holder": 4})
    watchdog = Watchdog(Supervisor(bus, World(), observer=blocks), asyncio.get_running_loop(), limit=20, every=0.01)
    async with asyncio.timeout(30):
        while not watchdog.delay:  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.01)
    watchdog.close()
    assert blocks.blocks == []
    assert watchdog.stalls == 0
    assert watchdog.stalled == 0.0


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


async def test_an_inbox_that_nobody_empties_needs_one_mark_for_each_message_and_no_more() -> None:
    inbox = Inbox("one", 100)
    ages = Ages({"one": inbox})
    put(inbox, 3)
    for now in range(1000):
        ages.mark(now)
    put(inbox, 1)
    for now in range(1000, 2000):
        ages.mark(now)
    assert ages._marks["one"] == [(0, 3), (1000, 4)]
    take(inbox, 4)
    ages.mark(2000)
    assert ages._marks["one"] == []


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
