import asyncio
import time

import pytest

from beehive.world import World
from tests.fakes.virtual_time import START, Deadlock, VirtualLoop

pytestmark = pytest.mark.virtual_time


async def test_an_hour_passes_at_once_and_exactly(world: World) -> None:
    begun, real = world.now(), time.monotonic()
    await asyncio.sleep(3600)
    assert (begun, world.now()) == (START, START + 3600)
    assert time.monotonic() - real < 5


async def test_timers_fire_in_order() -> None:
    order: list[int] = []
    async with asyncio.TaskGroup() as group:
        for delay in (3, 1, 2):
            group.create_task(_after(delay, order))
    assert order == [1, 2, 3]


async def _after(delay: int, order: list[int]) -> None:
    await asyncio.sleep(delay)
    order.append(delay)


async def test_work_in_a_thread_does_not_let_time_leap() -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(10):
        await loop.run_in_executor(None, time.sleep, 0.05)
    assert loop.time() < 1


def test_waiting_for_nothing_is_a_deadlock() -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    loop = VirtualLoop()
    try:
        with pytest.raises(Deadlock):
            loop.run_until_complete(stuck())
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
