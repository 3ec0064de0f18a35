"""The writer of Events keeps out of the way of what must be written, and is never silent for that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from beehive.messages.objects import RecordEvent
from beehive.world import World
from modules.informer.answers import Reply
from modules.informer.client import Client
from modules.informer.recorder import Recorder

pytestmark = pytest.mark.virtual_time


class Server:
    """Takes every Event, and notes when."""

    where = "the API server at nowhere"

    def __init__(self) -> None:
        self.at: list[float] = []

    async def create(self, path: str, body: bytes) -> Reply:
        self.at.append(asyncio.get_running_loop().time())
        return Reply(201, body)


@asynccontextmanager
async def recording(world: World, busy: Any) -> AsyncIterator[tuple[Recorder, Server]]:
    server = Server()
    recorder = Recorder(cast("Client", server), world, busy)
    task = asyncio.create_task(recorder.run())
    yield recorder, server
    task.cancel()


def said(number: int) -> RecordEvent:
    return RecordEvent(kind="Node", name=f"n{number}", uid=f"u{number}", warning=False, reason="Started", note="x")


async def test_events_wait_while_more_urgent_writes_are_under_way(world: World) -> None:
    loop = asyncio.get_running_loop()
    async with recording(world, lambda: loop.time() < 0.7) as (recorder, server):
        recorder.record(said(0))
        await asyncio.sleep(5)
    assert 0.7 <= server.at[0] <= 0.8


async def test_a_server_that_is_always_busy_gets_a_few_at_a_time(world: World) -> None:
    async with recording(world, lambda: True) as (recorder, server):
        for number in range(100):
            recorder.record(said(number))
        await asyncio.sleep(3.5)
        assert 16 <= len(server.at) <= 64, "a batch a second"
        await recorder.flush()
        assert len(server.at) == 100, "who ends does not wait"


async def test_the_events_of_the_largest_job_find_room(world: World) -> None:
    """Two of each of 5,000 nodes, before one of them is written."""
    async with recording(world, lambda: True) as (recorder, server):
        for number in range(10_000):
            recorder.record(said(number))
        await recorder.flush()
    assert (len(server.at), recorder.dropped) == (10_000, 0)
