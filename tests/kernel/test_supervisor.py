"""Start in order, keep, restart, give up, stop in reverse."""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from beehive.bus import Bus
from beehive.errors import ConfigError, PeerFailed, Problem, RuntimeFailed
from beehive.message import Draining, Envelope, Message, ModuleFailed
from beehive.module import Endpoint
from beehive.restart import Policy
from beehive.router import Declaration, Kinds
from beehive.supervisor import Supervisor
from tests.fakes.virtual_time import virtual_world
from tests.kernel.talk import Do, Double, settle

pytestmark = pytest.mark.virtual_time


class Heard:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, str, object]] = []
        self.pauses: list[float] = []
        self.stuck_ones: list[str] = []
        self.left: list[str] = []

    def failed(self, module: str, error: BaseException, dropped: Envelope | None) -> None:
        self.failures.append((module, str(error), dropped.body if dropped else None))

    def restarting(self, module: str, after: float) -> None:
        self.pauses.append(after)

    def stuck(self, module: str, seconds: float) -> None:
        self.stuck_ones.append(module)

    def left_behind(self, module: str) -> None:
        self.left.append(module)

    def blocked(self, module: str, seconds: float, where: str) -> None:
        raise AssertionError("no watchdog looks on here")


class Plain:
    """A module that writes into a diary when it starts, handles and ends."""

    accepts: Kinds = ()
    sends: Kinds = ()
    asks: Kinds = ()
    diary: ClassVar[list[str]] = []

    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self, endpoint: Endpoint) -> None:
        self.diary.append(f"{self.name} starts")
        await self.prepare(endpoint)
        endpoint.ready()
        async for envelope in endpoint.messages():
            await self.handle(endpoint, envelope)
        self.diary.append(f"{self.name} ends")

    async def prepare(self, endpoint: Endpoint) -> None:
        """Before it is ready."""

    async def handle(self, endpoint: Endpoint, envelope: Envelope) -> None:
        self.diary.append(f"{self.name} takes {type(envelope.body).__name__}")


@pytest.fixture(autouse=True)
def _clean_diary() -> None:
    Plain.diary.clear()


class House:
    """A supervisor over some modules, and a caller who can say Do and Double to whoever accepts them."""

    def __init__(self, *makes: tuple[str, Callable[[], Any], Kinds], policy: Policy | None = None) -> None:
        declared = [Declaration(name, accepts) for name, _, accepts in makes]
        accepted: set[type[Message]] = {kind for _, _, kinds in makes for kind in kinds}
        said = tuple(kind for kind in (Do,) if kind in accepted)
        asked = tuple(kind for kind in (Double,) if kind in accepted)
        declared.append(Declaration("caller", sends=said, asks=asked))
        self.bus = Bus(declared, {one.name: 16 for one in declared})
        self.heard = Heard()
        self.supervisor = Supervisor(self.bus, virtual_world(), policy, self.heard)
        self.caller = Endpoint("caller", self.bus)
        self.stop = asyncio.Event()
        for name, make, _ in makes:
            self.supervisor.add(name, make)

    def start(self) -> "asyncio.Task[None]":
        return asyncio.create_task(self.supervisor.run(self.stop))


async def test_each_is_ready_before_the_next_starts_and_they_end_in_reverse() -> None:
    class Slow(Plain):
        async def prepare(self, endpoint: Endpoint) -> None:
            await asyncio.sleep(5)
            self.diary.append(f"{self.name} is ready")

    house = House(*((name, lambda name=name: Slow(name), ()) for name in ("one", "two", "three")))
    running = house.start()
    await asyncio.sleep(20)
    assert house.supervisor.was_ready
    house.stop.set()
    await running
    assert Plain.diary == [
        "one starts", "one is ready", "two starts", "two is ready", "three starts", "three is ready",
        "three ends", "two ends", "one ends",
    ]  # fmt: skip


async def test_all_are_told_that_the_process_drains() -> None:
    house = House(("one", lambda: Plain("one"), (Draining,)))
    running = house.start()
    await settle()
    house.stop.set()
    await running
    assert Plain.diary == ["one starts", "one takes Draining", "one ends"]


class Brittle(Plain):
    """Fails on every Do with n == 13, and answers Double."""

    async def handle(self, endpoint: Endpoint, envelope: Envelope) -> None:
        await super().handle(endpoint, envelope)
        if envelope.body == Do(n=13) or envelope.body == Double(n=13):
            raise ZeroDivisionError("thirteen")
        if isinstance(envelope.body, Double):
            endpoint.reply(envelope, envelope.body.n * 2)


async def test_a_poison_message_fails_once_and_the_rest_of_the_inbox_is_kept() -> None:
    house = House(("one", lambda: Brittle("one"), (Do,)), ("watcher", lambda: Plain("watcher"), (ModuleFailed,)))
    running = house.start()
    await settle()
    for n in (1, 13, 2):
        await house.caller.send(Do(n=n))
    await asyncio.sleep(10)
    house.stop.set()
    await running
    assert Plain.diary.count("one takes Do") == 3
    assert Plain.diary.count("one starts") == 2
    assert Plain.diary.count("watcher takes ModuleFailed") == 1
    assert house.heard.failures == [("one", "thirteen", Do(n=13))]


async def test_who_asked_with_a_poison_message_is_told_at_once() -> None:
    house = House(("one", lambda: Brittle("one"), (Double,)))
    running = house.start()
    await settle()
    with pytest.raises(PeerFailed, match="one failed on Double: ZeroDivisionError: thirteen"):
        await house.caller.ask(Double(n=13), timeout=1000)
    assert asyncio.get_running_loop().time() < 1
    assert await house.caller.ask(Double(n=4)) == 8
    house.stop.set()
    await running


async def test_pauses_grow_and_more_than_the_policy_bears_ends_the_process() -> None:
    house = House(("one", lambda: Brittle("one"), (Do,)), policy=Policy(most=3, period=60))
    running = house.start()
    await settle()
    for _ in range(4):
        await house.caller.send(Do(n=13))
    with pytest.raises(RuntimeFailed, match="one was given up: it failed 4 times within 60 s; the last time: Zero"):
        await running
    assert house.heard.pauses == [0.5, 1.0, 2.0]


async def test_failures_that_lie_far_apart_are_borne_for_ever() -> None:
    house = House(("one", lambda: Brittle("one"), (Do,)), policy=Policy(most=2, period=60))
    running = house.start()
    for _ in range(20):
        await asyncio.sleep(31)
        await house.caller.send(Do(n=13))
    await asyncio.sleep(31)
    assert not running.done()
    house.stop.set()
    await running
    assert len(house.heard.failures) == 20


async def test_what_fails_before_the_process_was_ready_ends_it_at_once() -> None:
    class Broken(Plain):
        async def prepare(self, endpoint: Endpoint) -> None:
            raise OSError("no such device")

    house = House(("good", lambda: Plain("good"), ()), ("bad", lambda: Broken("bad"), ()))
    with pytest.raises(RuntimeFailed, match="bad failed before the process was ready: OSError: no such device"):
        await house.start()
    assert Plain.diary == ["good starts", "bad starts", "good ends"]


async def test_a_module_that_knows_it_cannot_go_on_ends_the_process_with_its_own_sentence() -> None:
    class Taken(Plain):
        async def prepare(self, endpoint: Endpoint) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.bind())

        async def bind(self) -> None:
            raise RuntimeFailed("Port 10000 is taken.")

    house = House(("hub", lambda: Taken("hub"), ()))
    with pytest.raises(RuntimeFailed, match=r"^Port 10000 is taken\.$"):
        await house.start()


async def test_settings_that_only_the_module_can_judge_end_the_process_as_a_wrong_configuration() -> None:
    class Misconfigured(Plain):
        async def prepare(self, endpoint: Endpoint) -> None:
            raise ConfigError("cloud.yaml", [Problem("setting", "one.port", "is taken by another setting")])

    house = House(("one", lambda: Misconfigured("one"), ()))
    with pytest.raises(ConfigError, match=r"one\.port: is taken by another setting"):
        await house.start()


async def test_a_module_that_never_becomes_ready_ends_the_process_and_says_what_it_waited_for() -> None:
    class Never(Plain):
        async def prepare(self, endpoint: Endpoint) -> None:
            endpoint.waiting_for("a miracle")
            await asyncio.Event().wait()

    house = House(("one", lambda: Never("one"), ()))
    with pytest.raises(RuntimeFailed, match="one was not ready after 30 s; it waits for a miracle"):
        await house.start()
    assert house.heard.stuck_ones == ["one"]


async def test_a_start_that_says_what_it_waits_for_is_not_hung() -> None:
    class Patient(Plain):
        async def prepare(self, endpoint: Endpoint) -> None:
            for _ in range(60):
                endpoint.waiting_for("the API server")
                await asyncio.sleep(20)

    house = House(("one", lambda: Patient("one"), ()))
    running = house.start()
    await asyncio.sleep(600)
    assert house.supervisor.waits() == {"one": "the API server"}
    await asyncio.sleep(700)
    assert house.supervisor.waits() == {"one": ""}
    house.stop.set()
    await running


async def test_stopping_while_one_still_starts_starts_no_other() -> None:
    class Slow(Plain):
        async def prepare(self, endpoint: Endpoint) -> None:
            await asyncio.sleep(25)

    house = House(("one", lambda: Slow("one"), ()), ("two", lambda: Plain("two"), ()))
    running = house.start()
    await asyncio.sleep(1)
    house.stop.set()
    await running
    assert "two starts" not in Plain.diary


async def test_a_module_that_does_not_end_is_cancelled_after_its_time_and_the_others_still_end() -> None:
    class Deaf(Plain):
        async def run(self, endpoint: Endpoint) -> None:
            endpoint.ready()
            await asyncio.Event().wait()

    house = House(("one", lambda: Plain("one"), ()), ("deaf", lambda: Deaf("deaf"), (Double,)))
    running = house.start()
    await settle()
    asked = house.caller.ask(Double(n=1), timeout=1000)
    house.stop.set()
    await running
    assert house.heard.stuck_ones == ["deaf"]
    assert Plain.diary == ["one starts", "one ends"]
    assert asyncio.get_running_loop().time() == pytest.approx(10, abs=1)
    with pytest.raises(PeerFailed, match="deaf has stopped"):
        await asked


async def test_a_module_that_ends_by_itself_is_started_again() -> None:
    class Weary(Plain):
        async def run(self, endpoint: Endpoint) -> None:
            endpoint.ready()
            self.diary.append("lives")
            await asyncio.sleep(100)

    house = House(("one", lambda: Weary("one"), ()))
    running = house.start()
    await asyncio.sleep(150)
    house.stop.set()
    await running
    assert Plain.diary == ["lives", "lives"]
    assert house.heard.failures[0][1] == "it ended without being told to"
