"""The tool's own word by POST, on real parts: it closes an entry whose agent is dead, and counts once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.demo.children import wait_until
from tests.real.running.apiserver import ApiServer
from tests.real.running.registry import Registry
from tests.real.test_main_job import HISTORY, NEW, OLD, Build, Fleet, assert_runs

RECORDS = "var/lib/beehive/upgrader/records"


@pytest.fixture
def fleet(own_apiserver: ApiServer, registry: Registry, standin: Build, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(own_apiserver, registry, standin, tmp_path)
    try:
        made.cloud.start()
        made.cloud.wait_until_ready()
        yield made
    finally:
        made.end()


def outcome(fleet: Fleet) -> dict[str, tuple[str, str]]:
    return {name: (one["phase"], one.get("reasonCode", "")) for name, one in fleet.entries("north").items()}


def test_with_both_agents_dead_the_job_ends_and_their_later_words_change_no_count(fleet: Fleet) -> None:
    fleet.push(NEW, schema=8)
    good, unsuited = fleet.add_host("edge-1", schema=8), fleet.add_host("edge-2", schema=9)
    fleet.apply_job("north", nodeNames=["edge-1", "edge-2"], concurrency=2, failureTolerate="50%", timeoutSeconds=600)
    for host in (good, unsuited):
        wait_until(lambda: list((host.directory / RECORDS).glob("*.json")), 60, f"{host.name}'s tool is at work")  # noqa: B023
        assert host.agent is not None
        host.agent.kill()
    job = fleet.wait_for_end("north")
    right = {"edge-1": ("Successful", ""), "edge-2": ("Failure", "RolledBack")}
    assert outcome(fleet) == right
    assert {one["revision"] for one in fleet.entries("north").values()} == {0}, "nobody but the tools has spoken"
    assert "cannot open database: schema 9" in fleet.entries("north")["edge-2"]["reason"]
    counted = {key: job["status"][key] for key in ("phase", "done", "successful", "failed", "total")}
    assert counted == {"phase": "Completed", "done": "2/2", "successful": 1, "failed": 1, "total": 2}
    assert_runs(good, NEW, [OLD, NEW])
    assert_runs(unsuited, OLD, [OLD, NEW, OLD])
    for host in (good, unsuited):
        host.start_agent()
    wait_until(lambda: all(one["revision"] > 0 for one in fleet.entries("north").values()), 60, "both agents' words")
    assert outcome(fleet) == right
    status = fleet.job("north")["status"]
    assert {key: status[key] for key in counted} == counted
    assert fleet.node("edge-1")["metadata"]["annotations"][HISTORY] == f"{OLD}->{NEW}"
    assert_runs(good, NEW, [OLD, NEW])
