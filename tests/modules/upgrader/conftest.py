"""Hosts in directories, ended after each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.edge_host import NEW, EdgeHost, program


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Callable[..., EdgeHost]]:
    made: list[EdgeHost] = []

    def make(new: bytes = program(NEW), **more: object) -> EdgeHost:
        host = EdgeHost(tmp_path / f"host-{len(made)}", **more)  # type: ignore[arg-type]
        host.offer(new)
        made.append(host)
        host.start()
        return host

    yield make
    for host in made:
        host.end()
