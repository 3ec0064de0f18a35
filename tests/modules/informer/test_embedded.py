"""The informer on the embedded API server."""

from collections.abc import AsyncIterator

import pytest

from modules.demo.apiserver.server import Server
from modules.informer import Config
from tests.contracts.informer import InformerContract
from tests.contracts.informer_others import InformerOthersContract
from tests.contracts.place import Place


@pytest.fixture
async def place(server: Server) -> AsyncIterator[Place]:
    async with Place(Config(server=server.address)) as opened:
        yield opened


class TestOnTheEmbeddedServer(InformerContract, InformerOthersContract):
    """The same tests as tests/real/test_informer.py on kube-apiserver."""
