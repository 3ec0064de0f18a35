"""The embedded API server, in memory, one for each test."""

from collections.abc import AsyncIterator

import pytest

from beehive.api.crd import crd
from modules.demo.apiserver.server import Config as ServerConfig
from modules.demo.apiserver.server import Server
from modules.informer import Config
from tests.contracts.place import Place


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server(ServerConfig(crds=[crd()], namespaces=["kubeedge"])) as running:
        yield running


@pytest.fixture
async def place(server: Server) -> AsyncIterator[Place]:
    async with Place(Config(server=server.address)) as opened:
        yield opened
