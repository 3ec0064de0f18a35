"""Changes of the host's routes: told soon, once, and not too often."""

import asyncio

import pytest

from modules.edgehub.routes import Routes

pytestmark = pytest.mark.virtual_time


async def test_a_burst_is_told_once_and_an_interface_that_flaps_every_two_seconds() -> None:
    loop = asyncio.get_running_loop()
    began, told = loop.time(), list[float]()
    routes = Routes(lambda: told.append(loop.time() - began))
    for _ in range(50):
        routes.something_changed()
    await asyncio.sleep(0.35)
    assert told == pytest.approx([0.3])
    for _ in range(100):
        routes.something_changed()
        await asyncio.sleep(0.1)
    routes.close()
    await asyncio.sleep(60)
    assert told == pytest.approx([0.3, 2.3, 4.3, 6.3, 8.3, 10.3], abs=0.2)
