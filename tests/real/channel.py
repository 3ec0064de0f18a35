"""What the tests of the channel share beside its two ends."""

import asyncio

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

on_both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "uvloop"], indirect=True)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    """The product runs on uvloop; the stock loop stays possible."""
    return "asyncio", {"use_uvloop": getattr(request, "param", "uvloop") == "uvloop"}


async def closed(websocket: ClientConnection, timeout: float = 10.0) -> ConnectionClosed:
    """Read until the connection ends."""
    async with asyncio.timeout(timeout):
        while True:
            try:
                await websocket.recv()
            except ConnectionClosed as end:
                return end
