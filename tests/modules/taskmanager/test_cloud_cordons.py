"""Cordons and deletion: a node's flag ends as it began on every path, and a deletion never hangs."""

import asyncio
from typing import Any

import pytest

from beehive.api.node import CORDON, HISTORY, KEEP_CORDONED
from beehive.messages.etcd import MembershipJudged
from beehive.messages.objects import Denied, NodeGone, PatchJob, PatchNode
from beehive.world import World
from tests.fakes.jobs import NEW, OLD, phases, rolled_back, success
from tests.modules.taskmanager.cluster import Cluster, Write, away

pytestmark = pytest.mark.virtual_time
MINE: dict[str, Any] = {"uid": "uid-of-north"}


async def in_flight(cluster: Cluster, *nodes: str, **spec: Any) -> None:
    cluster.connect(*nodes)
    cluster.apply(*nodes, concurrency=len(nodes), **{"timeout_seconds": 600, "failure_tolerate": "1", **spec})
    await cluster.until(lambda: len(cluster.started()) == len(nodes), "all are told")


# ---- the flag ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["success", "failure", "timeout", "abort", "deletion"])
@pytest.mark.parametrize("was", [False, True])
async def test_flag_ends_as_it_began(world: World, end: str, was: bool) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        cluster.change_node("a", unschedulable=was)
        await in_flight(cluster, "a")
        assert cluster.is_cordoned("a")
        match end:
            case "success":
                await cluster.say("a", success(**MINE))
            case "failure":
                await cluster.say("a", rolled_back(**MINE))
            case "timeout":
                cluster.disconnect("a")
            case "abort":
                cluster.edit("north", abort=True)
            case "deletion":
                cluster.delete()
        await cluster.until(lambda: not cluster.holds_annotation("a"), "our annotation is off", limit=700)
        assert cluster.is_cordoned("a") is was
        assert bool(cluster.history("a")) is (end == "success")


async def test_node_whose_job_went_while_the_process_was_down(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
    del cluster.store.jobs["north"]
    async with cluster.planner():
        await cluster.until(lambda: not cluster.holds_annotation("a"), "it is undone")
        assert not cluster.is_cordoned("a")


async def test_node_whose_entry_ended_while_the_process_was_down_keeps_its_history(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        cluster.tampers = lambda request: away(request) if isinstance(request, PatchNode) else None
        await cluster.say("a", success(**MINE))
        await cluster.until(lambda: cluster.status().phase == "Completed", "it ends")
    cluster.tampers = None
    async with cluster.planner():
        await cluster.until(lambda: not cluster.holds_annotation("a"), "it is undone")
        assert (cluster.is_cordoned("a"), cluster.history("a")) == (False, f"{OLD}->{NEW}")


async def test_uncordon_during_the_job_is_respected(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        cluster.change_node("a", unschedulable=False)
        await cluster.rest(60)
        assert not cluster.is_cordoned("a")
        await cluster.say("a", success(**MINE))
        await cluster.until(lambda: not cluster.holds_annotation("a"), "it ends")
        assert not cluster.is_cordoned("a")
        assert cluster.writes(PatchNode) == 2


async def test_keep_cordoned(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        notes = cluster.store.nodes["a"].metadata.annotations or {}
        cluster.change_node("a", annotations={**notes, KEEP_CORDONED: "yes"})
        await cluster.say("a", success(**MINE))
        await cluster.until(lambda: not cluster.holds_annotation("a"), "it ends")
        assert cluster.is_cordoned("a")


async def test_annotations_of_others_survive(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        cluster.change_node("a", annotations={"theirs": "1", HISTORY: "v1.21.0->v1.22.0"})
        await in_flight(cluster, "a")
        await cluster.say("a", success(**MINE))
        await cluster.until(lambda: not cluster.holds_annotation("a"), "it ends")
        assert cluster.store.nodes["a"].metadata.annotations == {
            "theirs": "1",
            HISTORY: f"v1.21.0->v1.22.0;{OLD}->{NEW}",
        }


async def test_rubbish_in_our_annotation_is_taken_off(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.change_node("a", annotations={CORDON: "rubbish"}, unschedulable=True)
        await cluster.until(lambda: not cluster.holds_annotation("a"), "it is taken off")
        assert cluster.is_cordoned("a"), "nobody knows what it was before"


# ---- refusals ----------------------------------------------------------------------------------------------------


async def test_node_that_changed_meanwhile_is_decided_again(world: World) -> None:
    cluster = Cluster(world, "a")
    touched: list[object] = []

    def touch_first(request: Write) -> object:
        if isinstance(request, PatchNode) and len(touched) < 3:
            cluster.change_node(
                "a", labels={**(cluster.store.nodes["a"].metadata.labels or {}), "n": str(len(touched))}
            )
            touched.append(request)
        return None

    cluster.tampers = touch_first
    async with cluster.planner():
        await in_flight(cluster, "a")
        assert len(touched) == 3
        assert cluster.writes(PatchNode) == 1
        assert (cluster.store.nodes["a"].metadata.labels or {})["n"] == "2"


async def test_refused_cordon_is_tried_until_the_deadline_and_then_it_is_the_failure(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    tries: list[float] = []

    def refuse(request: Write) -> object:
        if isinstance(request, PatchNode) and request.name == "a":
            tries.append(world.now())
            return Denied("admission webhook nodes.example.com denied the request")
        return None

    cluster.tampers = refuse
    async with cluster.planner():
        cluster.apply("a", "b", timeout_seconds=120, failure_tolerate="1")
        await cluster.until(lambda: cluster.started() == ["b#1"], "the next one goes on", limit=130)
        assert phases(cluster.status())["a"] == "Failure/CordonFailed"
        assert "nodes.example.com denied" in cluster.entry("a").reason
        assert 4 <= len(tries) <= 12
        await cluster.say("b", success(**MINE))
        await cluster.until(lambda: cluster.status().phase == "Completed", "the job ends")


async def test_cordon_that_comes_through_late_starts_the_node(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.tampers = lambda request: away(request) if isinstance(request, PatchNode) else None
    cluster.connect("a")
    async with cluster.planner():
        cluster.apply("a", timeout_seconds=600)
        await cluster.rest(60)
        assert cluster.started() == []
        cluster.tampers = None
        await cluster.until(cluster.started, "it is told at last", limit=35)


async def test_uncordon_that_is_refused_is_tried_on_after_the_job_has_ended(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        cluster.tampers = lambda request: Denied("no") if isinstance(request, PatchNode) else None
        await cluster.say("a", success(**MINE))
        await cluster.rest(120)
        assert cluster.is_cordoned("a")
        cluster.tampers = None
        await cluster.until(lambda: not cluster.is_cordoned("a"), "it is undone when it can", limit=35)


async def test_node_object_deleted_in_flight(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        node = cluster.store.nodes.pop("a")
        cluster.peers.publish(NodeGone(name="a", uid=node.metadata.uid))
        await cluster.rest(5)
        cluster.disconnect("a")
        cluster.connect("a")
        await cluster.until(lambda: len(cluster.started()) == 2, "it goes on by its session")
        await cluster.say("a", success(**MINE))
        await cluster.until(lambda: cluster.status().phase == "Completed", "it ends")
        await cluster.rest(60)
        assert len(cluster.peers.all_of(PatchNode)) == 1, "nothing is patched that is not there"


async def test_node_object_made_again_in_flight_is_cordoned_anew(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        old = cluster.store.nodes.pop("a")
        cluster.peers.publish(NodeGone(name="a", uid=old.metadata.uid))
        cluster.store.add_node("a", OLD)
        cluster.change_node("a", unschedulable=False)
        await cluster.until(lambda: cluster.is_cordoned("a"), "it is cordoned")
        await cluster.say("a", success(**MINE))
        await cluster.until(lambda: not cluster.is_cordoned("a"), "and uncordoned")


async def test_many_cordons_are_under_way_at_once_and_no_more_than_the_setting(world: World) -> None:
    names = [f"n{number}" for number in range(200)]
    cluster = Cluster(world, *names)
    now = most = 0

    async def slow(request: Write) -> object:
        nonlocal now, most
        if isinstance(request, PatchNode):
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.1)
            now -= 1
        return cluster.commit(request)

    cluster.tampers = slow
    async with cluster.planner():
        begin = world.now()
        await in_flight(cluster, *names)
        assert most == 64
        assert world.now() - begin < 1.0


# ---- two jobs ----------------------------------------------------------------------------------------------------


async def test_node_goes_from_one_job_to_the_next_with_one_patch_of_each_kind(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        cluster.apply("a", name="south", version="v1.24.0")
        await cluster.rest(20)
        assert cluster.status("south").waiting == "a: in flight for job north"
        await cluster.say("a", success(**MINE))
        await cluster.until(lambda: len(cluster.started()) == 2, "the second job has it")
        second = {"job": "south", "uid": "uid-of-south", "to_version": "v1.24.0", "from_version": NEW}
        await cluster.say("a", success(4, **second))
        await cluster.until(lambda: not cluster.is_cordoned("a"), "it is free")
        assert cluster.history("a") == f"{OLD}->{NEW};{NEW}->v1.24.0"


async def test_quorum_holds_a_node_back(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.peers.publish(MembershipJudged(critical_nodes=("a",)))
        cluster.apply("a")
        await cluster.rest(30)
        assert phases(cluster.status()) == {"a": "Pending/QuorumAtRisk"}
        cluster.peers.publish(MembershipJudged(critical_nodes=()))
        await cluster.until(cluster.started, "it may go")


# ---- deletion ----------------------------------------------------------------------------------------------------


async def test_deletion_stops_nodes_undoes_cordons_and_goes(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    async with cluster.planner():
        await in_flight(cluster, "a", "b")
        cluster.delete()
        await cluster.until(lambda: "north" not in cluster.store.jobs, "it is gone", limit=5)
        assert sorted(cluster.cancelled()) == ["a#1", "b#1"]
        assert not cluster.is_cordoned("a")
        await cluster.say("a", success(**MINE))
        await cluster.until(lambda: cluster.seen() == ["a#1.4"], "a late word is acknowledged")
        order = [one for one in cluster.store.writes if one.startswith(("PatchNode", "PatchJob "))]
        assert order[-1] == "PatchJob north", "the finalizer is last"


async def test_deletion_does_not_hang_on_a_node_that_cannot_be_patched(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        cluster.tampers = lambda request: Denied("no") if isinstance(request, PatchNode) else None
        cluster.delete()
        await cluster.until(lambda: "north" not in cluster.store.jobs, "it is gone all the same", limit=35)
        cluster.tampers = None
        await cluster.until(lambda: not cluster.is_cordoned("a"), "and the rule undoes it afterwards", limit=65)


async def test_deletion_while_a_word_waits_for_its_write(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        await cluster.say("a", success(**MINE), "", ticket=3)
        cluster.delete()
        await cluster.until(lambda: "north" not in cluster.store.jobs, "it is gone", limit=35)
        await cluster.until(lambda: len(cluster.answers()) == 1, "who waits is answered")


async def test_finished_job_is_deleted_at_once(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        await cluster.say("a", success(**MINE))
        await cluster.until(lambda: cluster.status().phase == "Completed", "it ends")
        await cluster.rest(5)
        cluster.delete()
        await cluster.until(lambda: "north" not in cluster.store.jobs, "it is gone", limit=1)


async def test_job_deleted_while_the_planner_was_down_goes_when_it_is_up(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        cluster.peers.said.clear()
        cluster._read = 0
        job = cluster.store.jobs["north"]
    cluster.delete_quietly(job)
    async with cluster.planner():
        await cluster.until(lambda: "north" not in cluster.store.jobs, "it is gone", limit=10)
        assert not cluster.is_cordoned("a")
        assert cluster.cancelled() == ["a#1"]


async def test_finalizer_that_is_refused_keeps_the_job_from_starting_and_is_tried_again(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    cluster.tampers = lambda request: Denied("no") if isinstance(request, PatchJob) else None
    async with cluster.planner():
        cluster.apply("a")
        await cluster.rest(60)
        assert cluster.status().phase == ""
        assert len(cluster.peers.all_of(PatchJob)) < 30
        cluster.tampers = None
        await cluster.until(cluster.started, "it starts when it can", limit=35)
