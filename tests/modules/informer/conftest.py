"""The embedded API server, in memory, one for each test, and a proxy before it."""

from collections.abc import AsyncIterator

import pytest

from beehive.api.crd import crd
from modules.demo.apiserver.server import Config as ServerConfig
from modules.demo.apiserver.server import Server
from modules.informer import Config
from tests.contracts.faults import Proxy
from tests.contracts.place import Place


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server(ServerConfig(crds=[crd()], namespaces=["kubeedge"])) as running:
        yield running


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    async with Proxy(server.address) as running:
        yield running


@pytest.fixture
async def place(server: Server, proxy: Proxy) -> AsyncIterator[Place]:
    """The admin reaches the server itself, the informer through the proxy."""
    async with Place(Config(server=server.address), Config(server=proxy.address)) as opened:
        yield opened
