"""The log of a large job: a line for each thing that an operator would act on, and no more."""

import logging
from collections import Counter

import msgspec
import pytest

from beehive import log as beehive_log
from beehive.world import World
from tests.fakes.jobs import rolled_back, success
from tests.modules.taskmanager.cluster import Cluster

pytestmark = pytest.mark.virtual_time
NODES = [f"edge-{number:04}" for number in range(1000)]


async def upgrade(cluster: Cluster, *, bad: int) -> None:
    """A job of all nodes, a hundred at once, of which `bad` are rolled back."""
    cluster.connect(*NODES)
    cluster.apply(*NODES, concurrency=100, failure_tolerate="10%")
    ended = 0
    while ended < len(NODES):
        await cluster.until(lambda: len(cluster.started()) > ended, "more are told")  # noqa: B023
        told = cluster.started()[ended:]
        for started in told:
            ended += 1
            word = rolled_back if ended <= bad else success
            await cluster.say(started.partition("#")[0], word(uid="uid-of-north"))
    await cluster.until(lambda: cluster.status().phase == "Completed", "the job ends")


async def test_a_job_of_a_thousand_nodes_writes_at_most_three_lines_a_node(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster(world, *NODES)
    async with cluster.planner():
        await upgrade(cluster, bad=7)
    lines = Counter(record.message for record in caplog.records)
    assert lines["node dispatched"] == 1000
    assert lines["node upgraded"] == 993
    assert lines["node failed"] == 7
    assert (lines["job began"], lines["job ended"]) == (1, 1)
    assert len(caplog.records) <= 3 * len(NODES)
    assert len(caplog.records) < 2010, "two for each node, and a few for the job"
    by_node = Counter(getattr(record, "node", "") for record in caplog.records)
    assert max(count for node, count in by_node.items() if node) <= 3


async def test_a_failure_is_a_warning_with_the_reason_that_the_status_has(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster(world, "a")
    async with cluster.planner():
        cluster.connect("a")
        cluster.apply("a", failure_tolerate="100%")
        await cluster.until(lambda: len(cluster.started()) == 1, "it is told")
        await cluster.say("a", rolled_back(uid="uid-of-north"))
        await cluster.until(lambda: cluster.status().phase == "Completed", "it ends")
    (failed,) = [record for record in caplog.records if record.message == "node failed"]
    assert failed.levelno == logging.WARNING
    text = beehive_log.TextFormatter().format(failed)
    reason = cluster.entry("a").reason
    assert f'job=north node=a attempt=1 code=RolledBack reason="{reason}"' in text
    told = msgspec.json.decode(beehive_log.JsonFormatter().format(failed))
    assert (told["level"], told["module"], told["node"], told["reason"]) == ("warning", "taskmanager", "a", reason)


async def test_nodes_that_have_nothing_to_do_are_counted_and_not_listed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster(world, "a")
    async with cluster.planner():
        cluster.connect("a")
        cluster.apply("a", *(f"nowhere-{number}" for number in range(50)), failure_tolerate="100%")
        await cluster.until(lambda: len(cluster.started()) == 1, "it is told")
        await cluster.say("a", success(uid="uid-of-north"))
        await cluster.until(lambda: cluster.status().phase == "Completed", "it ends")
    told = [record.message for record in caplog.records]
    assert told == ["job began", "node dispatched", "node upgraded", "job ended"]
    assert getattr(caplog.records[-1], "failed", None) == 50
