"""Words of nodes: none is lost, none counts twice, and none that is not stored is acknowledged."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from beehive.message import Envelope, Lagged
from beehive.messages.fleet import Tell
from beehive.messages.objects import Jobs, ListJobs, PatchJobStatus, PatchNode
from beehive.messages.tasks import CancelTask, Hello, ReportSeen, StartTask, TaskReport
from beehive.world import World
from tests.fakes.jobs import NEW, OLD, a_report, phases, result, rolled_back, success
from tests.modules.taskmanager.cluster import Cluster, away

pytestmark = pytest.mark.virtual_time
MINE: dict[str, Any] = {"uid": "uid-of-north"}


async def in_flight(cluster: Cluster, *nodes: str, **spec: Any) -> None:
    """The job north with these nodes told to start."""
    cluster.connect(*nodes)
    cluster.apply(*nodes, concurrency=max(1, len(nodes)), **{"timeout_seconds": 3600, **spec})
    await cluster.until(lambda: len(cluster.started()) == len(nodes), "all are told")


# ---- acknowledgement ---------------------------------------------------------------------------------------------


async def test_report_is_acknowledged_when_it_stands_and_not_before(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        cluster.tampers = lambda request: away(request) if isinstance(request, PatchJobStatus) else None
        await cluster.say("a", success(**MINE))
        await cluster.rest(300)
        assert cluster.seen() == []
        cluster.tampers = None
        await cluster.until(lambda: cluster.seen() == ["a#1.4"], "it is acknowledged", limit=40)
        assert cluster.status().phase == "Completed"


async def test_repetition_counts_once_and_needs_one_acknowledgement(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    async with cluster.planner():
        await in_flight(cluster, "a", "b")
        for number in range(500):
            await cluster.say("a", success(**MINE), f"m{number}")
        await cluster.until(lambda: cluster.seen() == ["a#1.4"], "the last is acknowledged")
        seen = [one.answers for one in cluster.peers.all_of(Tell) if isinstance(one.body, ReportSeen)]
        assert seen == ["m499"]
        await cluster.say("a", success(**MINE))
        await cluster.say("a", a_report(2, **MINE))
        await cluster.until(lambda: len(cluster.seen()) == 3, "late ones are acknowledged at once")
        assert (cluster.status().successful, cluster.status().in_progress) == (1, 1)


async def test_order_does_not_matter(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        for report in (success(4, **MINE), a_report(3, action="BackUp", **MINE), a_report(1, **MINE)):
            await cluster.say("a", report)
        await cluster.until(lambda: len(cluster.seen()) == 3, "all are acknowledged")
        assert cluster.entry("a").phase == "Successful"
        assert cluster.cancelled() == []


async def test_no_more_than_so_many_words_of_one_node_are_kept(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        cluster.tampers = lambda request: away(request) if isinstance(request, PatchJobStatus) else None
        for number in range(200):
            await cluster.say("a", success(4 + number, **MINE), f"m{number}", ticket=number + 1)
        await cluster.rest(1)
        assert [outcome for _, outcome in cluster.answers()] == ["not-yet"] * 136
        cluster.tampers = None
        await cluster.until(lambda: cluster.status().phase == "Completed", "what was kept is written", limit=60)


# ---- posts -------------------------------------------------------------------------------------------------------


async def test_post_is_answered_when_it_stands(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        await cluster.say("a", success(0, **MINE), "", ticket=7)
        await cluster.until(lambda: cluster.answers() == [(7, "seen")], "it is answered")
        assert cluster.status().phase == "Completed"
        assert cluster.seen() == []


async def test_post_about_what_is_not_there_is_unknown(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    async with cluster.planner():
        await in_flight(cluster, "a")
        await cluster.say("a", success(0, uid="uid-of-nothing"), "", ticket=1)
        await cluster.say("b", success(0, **MINE), "", ticket=2)
        await cluster.until(lambda: len(cluster.answers()) == 2, "both are answered")
        assert sorted(cluster.answers()) == [(1, "unknown"), (2, "unknown")]


async def test_words_under_another_jobs_name_or_as_a_legacy_peers_with_a_uid_change_nothing(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        await cluster.say("a", structs.replace(success(0, **MINE), job="nojob"), "", ticket=1)
        await cluster.say("a", structs.replace(success(0, uid="uid-of-nothing"), attempt=-1), "", ticket=2)
        await cluster.until(lambda: len(cluster.answers()) == 2, "both are answered")
        assert sorted(cluster.answers()) == [(1, "unknown"), (2, "unknown")]
        assert cluster.entry("a").phase == "InProgress"


async def test_post_while_the_api_server_is_away_is_not_yet(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")

        async def silent(_: ListJobs) -> Jobs:
            await asyncio.sleep(3600)
            return Jobs(())

        cluster.peers.answer(ListJobs, silent)
        await cluster.say("a", success(0, uid="uid-of-new"), "", ticket=1)
        await cluster.until(lambda: cluster.answers() == [(1, "not-yet")], "it is answered", limit=60)


async def test_post_to_one_who_does_not_lead_is_not_yet(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner(leads=False):
        await cluster.say("a", success(0, **MINE), "", ticket=1)
        await cluster.say("a", success(1, **MINE))
        await cluster.until(lambda: cluster.answers() == [(1, "not-yet")], "it is answered")
        assert cluster.seen() == []


# ---- jobs that are not there, not there any more, or not there yet -----------------------------------------------


async def test_report_about_a_job_that_is_gone_is_acknowledged_and_the_node_stopped(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        reads = len(cluster.peers.all_of(ListJobs))
        await cluster.say("a", success(4, uid="uid-of-nothing"))
        await cluster.say("a", a_report(2, uid="uid-of-nothing"))
        await cluster.until(lambda: len(cluster.seen()) == 2, "both are acknowledged")
        assert cluster.cancelled() == ["a#1"], "only who still works is told to stop"
        fresh = [one for one in cluster.peers.all_of(ListJobs)[reads:] if one.fresh]
        assert 1 <= len(fresh) <= 2


async def test_report_about_a_job_that_our_cache_does_not_show_yet(world: World) -> None:
    """Another leader made the mark, and the watch is behind: one reading finds it, and nothing is lost."""
    cluster = Cluster(world, "a", "b")
    async with cluster.planner():
        await in_flight(cluster, "a")
        hidden = cluster.store.jobs["north"]
    del cluster.store.jobs["north"]
    async with cluster.planner():
        await cluster.rest(1)
        cluster.store.jobs["north"] = hidden
        await cluster.say("a", success(**MINE))
        await cluster.until(lambda: cluster.status().phase == "Completed", "it counts")
        assert cluster.seen() == ["a#1.4"]


async def test_many_strangers_are_one_reading(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        await cluster.rest(1)
        reads = len(cluster.peers.all_of(ListJobs))
        for number in range(300):
            await cluster.say("a", success(4, uid=f"uid-{number}"))
        await cluster.until(lambda: len(cluster.seen()) == 300, "all are acknowledged")
        assert len(cluster.peers.all_of(ListJobs)) - reads <= 3


@pytest.mark.parametrize("late", ["before", "after"])
async def test_late_report_of_a_job_made_again_under_its_name_does_not_touch_it(world: World, late: str) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        cluster.delete()
        await cluster.until(lambda: "north" not in cluster.store.jobs, "the old one is gone")
        again = cluster.store.add_job("north", cluster.apply("a", name="other").spec)
        del cluster.store.jobs["other"]
        meta = type(again.metadata)(name="north", uid="uid-2", generation=1, resource_version=cluster.store.next(),
                                    creation_timestamp=again.metadata.creation_timestamp)  # fmt: skip
        again = type(again)(metadata=meta, spec=again.spec)
        cluster.store.jobs["north"] = again
        if late == "before":
            await cluster.say("a", rolled_back(5, **MINE))
        cluster._put(again)
        await cluster.until(lambda: len(cluster.started()) == 2, "the new one starts")
        if late == "after":
            await cluster.say("a", rolled_back(5, **MINE))
        await cluster.until(lambda: "a#1.5" in cluster.seen(), "the late word is acknowledged")
        await cluster.rest(5)
        assert phases(cluster.status()) == {"a": "InProgress"}
        await cluster.say("a", success(4, uid="uid-2"))
        await cluster.until(lambda: cluster.status().phase == "Completed", "the new one ends by its own word")


async def test_node_that_the_job_does_not_have_changes_nothing(world: World) -> None:
    cluster = Cluster(world, "a", "intruder")
    async with cluster.planner():
        await in_flight(cluster, "a")
        cluster.connect("intruder")
        before = cluster.status()
        await cluster.say("intruder", success(**MINE))
        await cluster.until(lambda: cluster.seen() == ["intruder#1.4"], "it is acknowledged and dropped")
        assert cluster.status() == before


async def test_attempt_that_nobody_gave_is_dropped_after_a_look(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        await cluster.say("a", success(4, attempt=7, **MINE))
        await cluster.until(lambda: cluster.seen() == ["a#7.4"], "it is acknowledged and dropped")
        assert phases(cluster.status()) == {"a": "InProgress"}


# ---- asking for leave --------------------------------------------------------------------------------------------


async def greeted(cluster: Cluster, node: str, **more: Any) -> object:
    """What a node is told that asks whether it may begin."""
    cluster.hear()
    before = len(cluster.told)
    await cluster.say(node, Hello(**{"job": "north", "attempt": 1, "action": "Upgrade", **MINE, **more}))
    await cluster.rest(2)
    cluster.hear()
    return [type(body) for name, body in cluster.told[before:] if name == node]


async def test_hello_of_a_node_in_flight_is_answered_with_a_new_lease(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        assert await greeted(cluster, "a") == [StartTask]


async def test_hello_of_a_node_that_is_not_in_flight_is_answered_with_a_cancel(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    async with cluster.planner():
        await in_flight(cluster, "a")
        cluster.connect("b")
        await cluster.say("a", success(**MINE))
        await cluster.until(lambda: cluster.status().phase == "Completed", "the job ends")
        assert await greeted(cluster, "a") == [CancelTask]
        assert await greeted(cluster, "a", attempt=0) == [CancelTask]
        assert await greeted(cluster, "a", uid="uid-of-nothing") == [CancelTask]
        assert await greeted(cluster, "b") == [CancelTask]


async def test_hello_after_abort_is_answered_with_a_cancel(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        cluster.edit("north", abort=True)
        await cluster.until(lambda: cluster.cancelled() == ["a#1"], "it is told once by itself")
        assert await greeted(cluster, "a") == [CancelTask]


async def test_hello_gets_no_lease_while_its_end_may_be_written_already(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a", timeout_seconds=30)
        cluster.tampers = lambda request: away(request) if isinstance(request, PatchJobStatus) else None
        await cluster.rest(40)
        assert await greeted(cluster, "a") == []


async def test_progress_without_a_mark_is_cancelled(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a", timeout_seconds=30)
        await cluster.until(lambda: cluster.status().phase == "Failure", "it times out", limit=60)
        count = len(cluster.cancelled())
        await cluster.say("a", a_report(3, action="BackUp", **MINE))
        await cluster.until(lambda: len(cluster.cancelled()) == count + 1, "it is told to stop")
        await cluster.say("a", success(5, **MINE))
        await cluster.until(lambda: cluster.entry("a").phase == "Successful", "its last word counts all the same")
        assert cluster.status().phase == "Failure"
        await cluster.until(lambda: cluster.history("a") == f"{OLD}->{NEW}", "and its history is told")


async def test_wait_sets_back_and_works_without_a_mark(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a", timeout_seconds=30, on_offline="Wait")
        cluster.disconnect("a")
        await cluster.until(lambda: phases(cluster.status()) == {"a": "Pending"}, "it is set back", limit=60)
        await cluster.until(lambda: not cluster.is_cordoned("a"), "it is uncordoned")
        cluster.edit("north", suspend=True)
        cluster.connect("a")
        await cluster.say("a", a_report(3, action="BackUp", **MINE))
        await cluster.until(lambda: phases(cluster.status()) == {"a": "Pending/Cancelling"}, "it holds no slot")
        await cluster.until(lambda: cluster.cancelled() == ["a#1"], "it is told to stop")
        await cluster.say("a", a_report(4, final=True, code="Aborted", **MINE))
        await cluster.until(lambda: cluster.status().phase == "Completed", "its last word closes it")


# ---- a real EdgeCore ---------------------------------------------------------------------------------------------


def legacy(action: str, code: str | None = None, ok: bool = True) -> TaskReport:
    return TaskReport(
        job="north", uid="", attempt=-1, revision=0, action=action, results=(result(action, ok, at=2e9),),
        final=code is not None, code=code or "", from_version=OLD, to_version=NEW,
    )  # fmt: skip


async def test_edgecore_is_told_once_and_nothing_else(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a", legacy=True)
    async with cluster.planner():
        cluster.apply("a", timeout_seconds=600)
        await cluster.until(cluster.started, "it is told")
        cluster.disconnect("a")
        cluster.connect("a", legacy=True)
        await cluster.say("a", legacy("Check"))
        await cluster.rest(10)
        cluster.edit("north", abort=True)
        await cluster.rest(10)
        await cluster.say("a", legacy("Upgrade", ""))
        await cluster.until(lambda: cluster.status().phase == "Failure", "the job ends")
        cluster.hear()
        assert [type(body) for _, body in cluster.told] == [StartTask]
        assert phases(cluster.status()) == {"a": "Successful"}


async def test_edgecore_is_not_told_again_by_a_new_leader(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", legacy=True)
    async with cluster.planner():
        cluster.apply("a", "b", timeout_seconds=600)
        await cluster.until(cluster.started, "it is told")
    async with cluster.planner():
        await cluster.rest(10)
        assert cluster.started() == ["a#1"]
        cluster.connect("b", legacy=True)
        await cluster.say("a", legacy("RollBack", "RolledBack"))
        await cluster.until(lambda: cluster.status().phase == "Failure", "the job ends")
        assert phases(cluster.status())["a"] == "Failure/RolledBack"


# ---- losing messages ---------------------------------------------------------------------------------------------


async def test_lagged_reads_the_sum_again(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    cluster.connect("a")
    async with cluster.planner():
        await cluster.rest(1)
        job = cluster.store.add_job("north", cluster.apply("a", "b", name="gone").spec)
        del cluster.store.jobs["gone"]
        cluster.connect("b")
        cluster.peers.said.clear()
        cluster._read = 0
        cluster.peers.module.inbox.post(Envelope("kernel", Lagged(missed=3)), 0)
        await cluster.until(lambda: cluster.status().phase == "InProgress", "what was missed is found")
        assert job.metadata.uid == "uid-of-north"


async def test_small_inbox_loses_nothing_that_counts(world: World) -> None:
    names = [f"n{number}" for number in range(30)]
    cluster = Cluster(world, *names)
    cluster.connect(*names)
    async with cluster.planner(inbox=4):
        cluster.apply(*names, concurrency=30)
        await cluster.until(lambda: len(cluster.started()) == 30, "all are told")
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(cluster.say(name, success(**MINE)))
        await cluster.until(lambda: cluster.status().phase == "Completed", "the job ends")
        await cluster.until(lambda: len(cluster.seen()) == 30, "all are acknowledged")
        await cluster.rest(5)
        assert cluster.started() == [f"{name}#1" for name in names]
        assert not any(cluster.is_cordoned(name) for name in names)
        assert cluster.writes(PatchNode) == 60


async def test_reports_seen_name_the_message_that_they_answer(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        await in_flight(cluster, "a")
        await cluster.say("a", success(**MINE), "message-17")
        await cluster.until(cluster.seen, "it is acknowledged")
        (seen,) = [one for one in cluster.peers.all_of(Tell) if isinstance(one.body, ReportSeen)]
        assert (seen.answers, seen.body.lease_seconds) == ("message-17", 0.0)  # type: ignore[union-attr]
