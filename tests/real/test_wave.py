"""A wave through two replicas, whatever happens to the one that leads. What counts is what the hosts saw."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.edges import Records, names
from tests.real.running.apiserver import ApiServer
from tests.real.waving import Field

NODES = names(20)
BAD = NODES[3:4]


@pytest.fixture(scope="module")
def place(_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApiServer, Field]]:
    """An API server with twenty nodes."""
    server = ApiServer.started(tmp_path_factory.mktemp("wave-apiserver"))
    try:
        yield server, Field(server, tmp_path_factory.mktemp("wave"), NODES)
    finally:
        server.remove()


@pytest.fixture
def field(place: tuple[ApiServer, Field], tmp_path: Path) -> Iterator[Field]:
    """With two new replicas, and no job afterwards."""
    made = place[1]
    made.begin(tmp_path)
    try:
        for _ in range(2):
            made.add_cloud().start()
        for cloud in made.clouds:
            cloud.wait_until_ready()
        yield made
        made.delete_jobs()
    finally:
        made.end()


def must_be_right(status: Any, saw: Records) -> None:
    """Each host ran once, every word stands, every slot was kept."""
    assert status["phase"] == "Completed", status
    assert Counter(one["phase"] for one in status["nodeStatus"]) == {"Successful": 19, "Failure": 1}
    assert saw.ran() == dict.fromkeys(NODES, 1), "each ran once"
    assert saw.unseen == 0, "every word was acknowledged"


def wait_for_middle(field: Field) -> None:
    """Some are done, some are not."""
    field.wait(lambda: 3 <= field.status("north").get("successful", 0) <= 15, "the job is in the middle")


def test_a_killed_leader_is_followed_within_its_lease_and_nothing_is_doubled(field: Field) -> None:
    with field.edges(work=0.4, failing=BAD) as edges:
        field.apply_job("north", concurrency=4)
        wait_for_middle(field)
        first = field.wait_for_leader()
        assert first.process
        first.process.kill()
        killed = time.monotonic()
        field.wait_for_leader(first)
        took = time.monotonic() - killed
        status = field.wait_for_end("north")
        must_be_right(status, edges.saw())
    assert took <= 8, "a Lease of 3 s and one look"


def test_a_leader_that_hangs_says_and_writes_nothing_when_it_wakes_up(field: Field) -> None:
    with field.edges(work=0.4, failing=BAD) as edges:
        field.apply_job("north", concurrency=4)
        wait_for_middle(field)
        first = field.wait_for_leader()
        assert first.process
        os.kill(first.process.pid, signal.SIGSTOP)
        field.wait_for_leader(first)
        done = field.status("north")["successful"]
        woken = time.monotonic()
        os.kill(first.process.pid, signal.SIGCONT)
        field.wait(lambda: field.status("north")["successful"] > done, "the job goes on")
        status = field.wait_for_end("north")
        first.process.must_run()
        saw = edges.saw()
    must_be_right(status, saw)
    late = [one for one in saw.orders if one.at > woken and one.server.endswith(f":{first.websocket_port}")]
    assert late == [], "the deposed leader tells nobody"


def test_a_leader_that_is_asked_to_end_hands_over_at_once(field: Field) -> None:
    with field.edges(work=0.4, failing=BAD) as edges:
        field.apply_job("north", concurrency=4)
        wait_for_middle(field)
        first = field.wait_for_leader()
        assert first.process
        asked = time.monotonic()
        os.kill(first.process.pid, signal.SIGTERM)
        field.wait_for_leader(first)
        took = time.monotonic() - asked
        must_be_right(field.wait_for_end("north"), edges.saw())
    assert took <= 3.0
