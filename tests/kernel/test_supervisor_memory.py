"""A module that failed is gone: neither it nor what it had in hand outlives its successor's first moment."""

import asyncio
import gc
import weakref

import pytest

from beehive.errors import PeerFailed
from beehive.message import Envelope, Request
from beehive.module import Endpoint
from tests.kernel.talk import Do, Double
from tests.kernel.test_supervisor import House, Plain

pytestmark = pytest.mark.virtual_time


class Heavy(Plain):
    """Fails on 13; its asker's envelope and itself are in the frames of its error."""

    async def handle(self, endpoint: Endpoint, envelope: Envelope) -> None:
        if envelope.body.n == 13:
            raise ZeroDivisionError("thirteen")
        if isinstance(envelope.body, Request):
            endpoint.reply(envelope, 0)


@pytest.mark.parametrize("asked", [False, True])
async def test_an_instance_that_failed_is_freed_when_the_next_one_runs(asked: bool) -> None:
    made: list[weakref.ref[Heavy]] = []

    def make() -> Heavy:
        one = Heavy("one")
        made.append(weakref.ref(one))
        return one

    house = House(("one", make, (Do, Double)))
    running = house.start()
    await asyncio.sleep(1)
    for _ in range(20):
        if asked:
            with pytest.raises(PeerFailed):
                await house.caller.ask(Double(n=13))
        else:
            await house.caller.send(Do(n=13))
        await asyncio.sleep(100)
    gc.collect()
    alive = [number for number, one in enumerate(made) if one()]
    house.heard.failures.clear()
    house.stop.set()
    await running
    assert alive == [20]
