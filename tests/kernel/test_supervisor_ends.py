"""Modules that never become ready again, never end, or fail while they end."""

import asyncio

import pytest

from beehive.errors import RuntimeFailed
from beehive.message import Envelope, ModuleFailed
from beehive.module import Endpoint
from beehive.restart import Policy
from tests.kernel.talk import Do, Double, settle
from tests.kernel.test_supervisor import House, Plain

pytestmark = pytest.mark.virtual_time


@pytest.fixture(autouse=True)
def _clean_diary() -> None:
    Plain.diary.clear()


class FailsAtTheEnd(Plain):
    """Raises when its messages have ended."""

    error: Exception = ValueError("cannot flush")

    async def run(self, endpoint: Endpoint) -> None:
        await super().run(endpoint)
        raise self.error


async def test_what_fails_while_it_ends_is_told_and_neither_started_again_nor_in_the_way_of_others() -> None:
    house = House(
        ("first", lambda: Plain("first"), (ModuleFailed,)), ("bad", lambda: FailsAtTheEnd("bad"), ()),
        ("last", lambda: Plain("last"), ()),
    )  # fmt: skip
    running = house.start()
    await settle()
    house.stop.set()
    await running
    assert house.heard.failures == [("bad", "cannot flush", None)]
    assert house.heard.pauses == []
    assert Plain.diary == [
        "first starts", "bad starts", "last starts", "last ends", "bad ends", "first takes ModuleFailed", "first ends",
    ]  # fmt: skip


async def test_what_would_end_the_process_is_no_longer_needed_for_that_while_it_ends() -> None:
    class Fatal(FailsAtTheEnd):
        error = RuntimeFailed("the port is gone")

    house = House(("one", lambda: Fatal("one"), ()))
    running = house.start()
    await settle()
    house.stop.set()
    await running
    assert [text for _, text, _ in house.heard.failures] == ["the port is gone"]


async def test_who_asked_what_failed_while_it_ended_is_told() -> None:
    class Handles(Plain):
        async def handle(self, endpoint: Endpoint, envelope: Envelope) -> None:
            if endpoint.inbox.closed:
                raise ValueError("too late")

    house = House(("one", lambda: Handles("one"), (Double,)))
    running = house.start()
    await settle()
    first, second = (house.caller.ask(Double(n=n), timeout=1000) for n in (1, 2))
    house.supervisor.keepers[0].endpoint.inbox.closed = True
    house.stop.set()
    await running
    errors = await asyncio.gather(first, second, return_exceptions=True)
    assert [str(error) for error in errors] == [
        "one failed on Double: ValueError: too late", "one has stopped",
    ]  # fmt: skip


async def test_a_stop_in_the_pause_before_a_restart_ends_it_there() -> None:
    class Fails(Plain):
        async def handle(self, endpoint: Endpoint, envelope: Envelope) -> None:
            raise ValueError("no")

    house = House(("one", lambda: Fails("one"), (Do,)), policy=Policy(first_pause=30))
    running = house.start()
    await settle()
    await house.caller.send(Do(n=1))
    await asyncio.sleep(10)
    house.stop.set()
    await running
    assert asyncio.get_running_loop().time() == pytest.approx(10, abs=0.1)
    assert Plain.diary == ["one starts"]
    assert house.supervisor.keepers[0].restarts == 0


class HangsAfterAFailure(Plain):
    """Its first life fails on a message, its others prepare for ever, with or without saying so."""

    def __init__(self, name: str, lives: list[str], signs: float) -> None:
        super().__init__(name)
        self.lives, self.signs = lives, signs

    async def prepare(self, endpoint: Endpoint) -> None:
        self.lives.append("life")
        while len(self.lives) > 1:
            endpoint.waiting_for("a miracle")
            await asyncio.sleep(self.signs)

    async def handle(self, endpoint: Endpoint, envelope: Envelope) -> None:
        raise ValueError("no")


async def test_a_restart_that_never_becomes_ready_is_a_failure_and_ends_the_process_at_last() -> None:
    lives: list[str] = []
    house = House(("one", lambda: HangsAfterAFailure("one", lives, 1e9), (Do,)), policy=Policy(most=2, period=600))
    running = house.start()
    await settle()
    await house.caller.send(Do(n=1))
    with pytest.raises(
        RuntimeFailed, match=r"one was given up: it failed 3 times .*not ready after 30 s; .* a miracle"
    ):
        await running
    assert lives == ["life"] * 3
    assert asyncio.get_running_loop().time() == pytest.approx(0.5 + 30 + 1 + 30, abs=0.1)


async def test_a_restart_that_says_what_it_waits_for_is_not_hung() -> None:
    lives: list[str] = []
    house = House(("one", lambda: HangsAfterAFailure("one", lives, 20), (Do,)))
    running = house.start()
    await settle()
    await house.caller.send(Do(n=1))
    await asyncio.sleep(1000)
    assert lives == ["life"] * 2
    assert house.supervisor.waits() == {"one": "a miracle"}
    house.stop.set()
    await running


async def test_a_module_that_was_ready_and_waits_again_is_not_hung() -> None:
    class Waits(Plain):
        async def handle(self, endpoint: Endpoint, envelope: Envelope) -> None:
            if envelope.body == Do(n=1):
                raise ValueError("no")
            endpoint.waiting_for("the API server")

    house = House(("one", lambda: Waits("one"), (Do,)))
    running = house.start()
    await settle()
    await house.caller.send(Do(n=1))
    await asyncio.sleep(1)
    await house.caller.send(Do(n=2))
    await asyncio.sleep(1000)
    assert house.supervisor.keepers[0].failed == 1
    assert house.supervisor.keepers[0].restarts == 1
    house.stop.set()
    await running


async def test_a_time_out_of_its_own_is_told_as_what_it_is() -> None:
    class TimesOut(Plain):
        async def handle(self, endpoint: Endpoint, envelope: Envelope) -> None:
            async with asyncio.timeout(3):
                await asyncio.Event().wait()

    house = House(("one", lambda: TimesOut("one"), (Do,)))
    running = house.start()
    for _ in range(2):
        await settle()
        await house.caller.send(Do(n=1))
        await asyncio.sleep(5)
    house.stop.set()
    await running
    assert [text for _, text, _ in house.heard.failures] == ["", ""]


async def test_a_module_that_cannot_be_cancelled_is_left_behind_and_the_others_still_end() -> None:
    release = asyncio.Event()

    class Stubborn(Plain):
        async def run(self, endpoint: Endpoint) -> None:
            endpoint.ready()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    self.diary.append("no")

    house = House(("one", lambda: Plain("one"), ()), ("stubborn", lambda: Stubborn("stubborn"), ()))
    running = house.start()
    await settle()
    house.stop.set()
    await running
    assert Plain.diary == ["one starts", "no", "one ends"]
    assert (house.heard.stuck_ones, house.heard.left) == (["stubborn"], ["stubborn"])
    assert house.supervisor.left_behind == ["stubborn"]
    assert asyncio.get_running_loop().time() == pytest.approx(15, abs=0.1)
    release.set()
    await settle()


async def test_a_module_cancelled_by_somebody_else_is_started_again() -> None:
    class Cancels(Plain):
        async def handle(self, endpoint: Endpoint, envelope: Envelope) -> None:
            task = asyncio.ensure_future(asyncio.Event().wait())
            task.cancel()
            await task

    house = House(("one", lambda: Cancels("one"), (Do,)))
    running = house.start()
    await settle()
    await house.caller.send(Do(n=1))
    await asyncio.sleep(5)
    house.stop.set()
    await running
    assert Plain.diary == ["one starts", "one starts", "one ends"]
    assert house.supervisor.keepers[0].failed == 1
