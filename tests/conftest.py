"""What every tier shares: virtual time, and the switch that regenerates transcripts."""

import pytest

from beehive.world import World
from tests.fakes.virtual_time import VirtualLoop, virtual_world


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the transcripts of tests/stories anew")


LONG = ("tests/modules/demo/", "tests/modules/informer/", "tests/modules/upgrader/")
"""Modules tried on real sockets, disks and processes: marked long as a whole."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.as_posix() for folder in LONG):
            item.add_marker(pytest.mark.long)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: left out of `make check`, which must stay quick; `make test` runs it")
    config.addinivalue_line("markers", "virtual_time: run on a loop that leaps from timer to timer")


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    """asyncio for all; tests marked `virtual_time` run on the leaping loop."""
    if request.node.get_closest_marker("virtual_time"):
        return "asyncio", {"loop_factory": VirtualLoop}
    return "asyncio", {}


@pytest.fixture
def world() -> World:
    """The virtual world (for tests marked `virtual_time`)."""
    return virtual_world()
