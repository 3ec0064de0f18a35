"""The embedded API server, in a thread of its own."""

import ssl
from collections.abc import Iterator

import pytest

from beehive.api.crd import crd
from modules.demo.apiserver.server import Config
from tests.contracts.api import Api, Forget
from tests.contracts.rollout import CRD
from tests.modules.demo.embedded import TOKEN, Embedded, embedded


@pytest.fixture(scope="module")
def running() -> Iterator[Embedded]:
    """A server with the contract's CRD and Beehive's."""
    with embedded(Config(crds=[CRD, crd()], token=TOKEN)) as server:
        yield server


@pytest.fixture(scope="module")
def _client(running: Embedded) -> Iterator[Api]:
    with running.client() as client:
        yield Api(client, ssl.create_default_context())


@pytest.fixture
def api(_client: Api) -> Iterator[Api]:
    """A client of it that tidies up."""
    yield _client
    _client.tidy()


@pytest.fixture
def forget(running: Embedded) -> Forget:
    """Make the server forget its history."""
    return running.forget
