"""What is older than what is known, or meant another time, changes nothing and is not chased."""

import asyncio
from typing import Any

import pytest

from beehive.api.nodeupgradejob import NodeUpgradeJob
from beehive.messages.objects import Denied, JobChanged, Missing, NodeChanged, Patched, PatchJobStatus, PatchNode, Stale
from beehive.messages.tasks import CancelTask
from beehive.world import World
from modules.taskmanager.cloud.notes import LookedUp, NodeWritten, StatusWritten
from tests.fakes.jobs import success
from tests.modules.taskmanager.cluster import Cluster

pytestmark = pytest.mark.virtual_time
MINE: dict[str, Any] = {"uid": "uid-of-north"}


async def test_answer_that_a_former_term_asked_for_means_nothing_in_this_one(world: World) -> None:
    """It lay in the inbox when the next grant began: what it is about was read anew since."""
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.apply("a", timeout_seconds=3600)
        await cluster.until(cluster.started, "it is told")
        cluster.lead(0)
        cluster.lead()
        await cluster.rest(1)
        told = len(cluster.peers.all_of(CancelTask))
        for answer in (Denied("no"), Missing(), Patched(None)):
            await cluster.peers.module.send(StatusWritten(term=1, uid="uid-of-north", answer=answer, took=9.0))
        await cluster.peers.module.send(NodeWritten(term=1, node="a", answer=Missing()))
        await cluster.peers.module.send(LookedUp(term=1, jobs=None))
        await cluster.rest(1)
        assert cluster.events().count("StatusRefused") == 0
        assert len(cluster.peers.all_of(CancelTask)) == told, "the job is not gone"
        await cluster.say("a", success(**MINE))
        await cluster.until(lambda: cluster.status().phase == "Completed", "the job goes on", limit=10)


async def test_watch_that_shows_an_older_object_starts_no_write(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    seen: list[NodeUpgradeJob] = []
    async with cluster.planner():
        cluster.tampers = lambda request: seen.append(cluster.store.jobs["north"])
        cluster.apply("a", timeout_seconds=3600)
        await cluster.until(cluster.started, "it is told")
        await cluster.rest(3)
        asked = len(cluster.peers.all_of(PatchJobStatus))
        (older,) = [one for one in seen if one.status.phase == "Init"][:1]
        cluster.peers.publish(JobChanged(job=older))
        await cluster.rest(5)
        assert len(cluster.peers.all_of(PatchJobStatus)) == asked
        assert cluster.started() == ["a#1"]


async def test_node_patch_that_is_stale_without_news_is_tried_ever_more_rarely(world: World) -> None:
    """The API server says that it changed, and shows what we had decided on."""
    cluster = Cluster(world, "a")
    cluster.connect("a")
    tries: list[float] = []

    def stale(request: object) -> object:
        if not isinstance(request, PatchNode) or len(tries) >= 50:
            return None
        tries.append(world.now())
        return Stale(cluster.store.nodes["a"])

    cluster.tampers = stale
    async with cluster.planner():
        cluster.apply("a", timeout_seconds=3600)
        await cluster.until(lambda: tries, "it is tried")
        await cluster.rest(60)
        assert 4 <= len(tries) <= 10, f"{len(tries)} tries in a minute"
        cluster.tampers = None
        await cluster.until(lambda: cluster.started() == ["a#1"], "it stands at last", limit=40)


async def test_node_whose_patch_is_under_way_gets_no_second_one(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")

    async def slowly(request: PatchNode) -> object:
        await asyncio.sleep(5)
        return cluster.commit(request)

    cluster.tampers = lambda request: slowly(request) if isinstance(request, PatchNode) else None
    async with cluster.planner():
        cluster.apply("a", timeout_seconds=3600)
        await cluster.until(lambda: cluster.peers.all_of(PatchNode), "it is under way")
        for node in [cluster.store.nodes["a"]] * 3:
            cluster.peers.publish(NodeChanged(node=node))
        await cluster.rest(3)
        assert len(cluster.peers.all_of(PatchNode)) == 1
        await cluster.until(lambda: cluster.started() == ["a#1"], "it is told when that one stands")
