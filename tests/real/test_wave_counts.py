"""What a wave costs the API server, as exact counts: they hold on a busy machine as well, and fail before a user would
notice. `make bench NAME=wave` measures the times."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.wave import requests
from tests.fakes.edges import names
from tests.real.running.apiserver import ApiServer
from tests.real.waving import Field

NODES = names(200)


@pytest.fixture
def field(own_apiserver: ApiServer, tmp_path: Path) -> Iterator[Field]:
    made = Field(own_apiserver, tmp_path, NODES)
    try:
        cloud = made.add_cloud(lease={})
        cloud.start()
        cloud.wait_until_ready()
        yield made
    finally:
        made.end()


def test_two_patches_of_each_node_and_few_of_the_job(field: Field) -> None:
    with field.edges(work=0.5, repeat=5.0) as edges:
        before = requests(field.server)
        field.apply_job("north", concurrency=len(NODES))
        assert field.wait_for_end("north", 90)["phase"] == "Completed"
        made = requests(field.server) - before
        saw = edges.saw()
    assert saw.ran() == dict.fromkeys(NODES, 1)
    assert made["PATCH nodes"] == 2 * len(NODES)
    assert made["PATCH nodeupgradejobs/status"] <= 0.1 * len(NODES)
    assert made["PATCH nodeupgradejobs"] == 1, "the finalizer"
