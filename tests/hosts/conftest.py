"""Hosts under systemd for tests, each on a disk of its own.

===========  =======  ================================================================================================
fixture      lives    what it is
===========  =======  ================================================================================================
``forge``    session  makes hosts: ``running.forge.Forge``
``edge``     test     a function that makes and boots an edge host with an old version, and a new one asked for
===========  =======  ================================================================================================
"""

import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hosts.running import groups, leftovers
from tests.hosts.running.edge import Edge
from tests.hosts.running.forge import Forge


@pytest.fixture(scope="session")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """Fails the session if a mount, a loop device or a machine of ours outlives it."""
    folder = Path(tempfile.mkdtemp(prefix=f"beehive-hosts-{uuid.uuid4().hex[:6]}-"))
    made = Forge(folder)
    yield made
    made.remove()
    left = leftovers.found(folder) + [f"control group {one}" for name in made.names for one in groups.left(name)]
    assert not left, "the tests left something behind:\n  " + "\n  ".join(left)


@pytest.fixture
def edge(forge: Forge) -> Iterator[Callable[..., Edge]]:
    """Makes booted hosts, and removes them after the test."""
    made: list[Edge] = []

    def make(*arguments: object, **named: object) -> Edge:
        host = forge.edge(*arguments, **named)  # type: ignore[arg-type]
        made.append(host)
        host.machine.boot()
        return host

    yield make
    for host in made:
        host.machine.remove()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A host takes seconds where a function takes milliseconds, and its machine may be busy."""
    for item in items:
        if "hosts" in item.path.parts and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(400))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the matrices of power cuts, whichever process tried them."""
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, [])]
    tables = [text for one in reports for name, text in getattr(one, "user_properties", []) if name == "cuts"]
    if tables:
        terminalreporter.section("power cuts")
        terminalreporter.write_line("\n\n".join(tables))
