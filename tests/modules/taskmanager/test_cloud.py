"""The planner's shell: one job from `kubectl apply` to its end, and what is done in which order."""

import asyncio
from typing import Any

import pytest

from beehive.api.nodeupgradejob import FINALIZER
from beehive.messages.fleet import Tell
from beehive.messages.objects import Denied, PatchJob, PatchJobStatus, PatchNode, Stale
from beehive.messages.tasks import Hello, StartTask
from beehive.world import World
from modules.taskmanager.job.phases import next_status
from tests.fakes.jobs import NEW, OLD, a_report, phases, rolled_back, success
from tests.modules.taskmanager.cluster import Cluster, away

pytestmark = pytest.mark.virtual_time
MINE: dict[str, Any] = {"uid": "uid-of-north"}


async def test_three_outcomes_from_apply_to_completed(world: World) -> None:
    cluster = Cluster(world, "a", "b", "c")
    cluster.connect("a", "b")
    async with cluster.planner():
        cluster.apply("a", "b", "c", concurrency=2, failure_tolerate="0.5")
        await cluster.until(lambda: len(cluster.started()) == 2, "two nodes are told")
        assert cluster.is_cordoned("a")
        await cluster.say("a", success(**MINE))
        await cluster.say("b", rolled_back(**MINE))
        await cluster.until(lambda: cluster.status().phase == "Completed", "the job ends")
        await cluster.rest()
        assert phases(cluster.status()) == {
            "a": "Successful",
            "b": "Failure/RolledBack",
            "c": "Skipped/NotConnected",
        }
        assert sorted(cluster.seen()) == ["a#1.4", "b#1.5"]
        assert [cluster.is_cordoned(node) for node in "abc"] == [False, False, False]
        assert [cluster.history(node) for node in "abc"] == [f"{OLD}->{NEW}", "", ""]
        assert cluster.started() == ["a#1", "b#1"], "nobody was told twice"
        assert cluster.writes(PatchNode) == 4, "one cordon and one uncordon of each node that was started"
        assert sorted(cluster.events()) == ["Completed", "NodeFailed", "NodesUpgraded", "Started"]
        assert sorted(cluster.events("Node")) == [
            "UpgradeFailed",
            "UpgradeSkipped",
            *["UpgradeStarted"] * 2,
            "Upgraded",
        ]


async def test_too_many_failures_end_the_job_as_failure(world: World) -> None:
    cluster = Cluster(world, "a", "b", "c")
    cluster.connect("a", "b", "c")
    async with cluster.planner():
        cluster.apply("a", "b", "c", failure_tolerate="0")
        await cluster.until(lambda: cluster.started() == ["a#1"], "the first is told")
        await cluster.say("a", rolled_back(**MINE))
        await cluster.until(lambda: cluster.status().phase == "Failure", "the job ends")
        assert cluster.status().reason == "BudgetExceeded"
        await cluster.rest()
        assert cluster.started() == ["a#1"]


async def test_order_finalizer_init_mark_cordon_tell(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.apply("a")
        await cluster.until(cluster.started, "it is told")
        kinds = [
            type(one) for one in cluster.peers.said if isinstance(one, PatchJob | PatchJobStatus | PatchNode | Tell)
        ]
        assert kinds == [PatchJob, PatchJobStatus, PatchJobStatus, PatchNode, Tell]
        assert cluster.store.jobs["north"].metadata.finalizers == (FINALIZER,)


async def test_nobody_is_told_before_the_mark_was_answered(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    gate = asyncio.Event()

    async def slow(request: object) -> object:
        if isinstance(request, PatchJobStatus) and cluster.status().phase == "Init":
            await gate.wait()
        return cluster.commit(request)  # type: ignore[arg-type]

    cluster.tampers = slow
    async with cluster.planner():
        cluster.apply("a")
        await cluster.rest(20)
        assert cluster.started() == []
        assert not cluster.is_cordoned("a")
        gate.set()
        await cluster.until(cluster.started, "it is told at last")


async def test_nobody_is_told_before_its_cordon_stands(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    gate = asyncio.Event()

    async def slow(request: object) -> object:
        if isinstance(request, PatchNode) and request.name == "a":
            await gate.wait()
        return cluster.commit(request)  # type: ignore[arg-type]

    cluster.tampers = slow
    async with cluster.planner():
        cluster.apply("a", "b", concurrency=2)
        await cluster.until(cluster.started, "one is told")
        await cluster.say("a", Hello(job="north", attempt=1, action="Upgrade", **MINE))
        await cluster.rest(20)
        cluster.disconnect("a")
        cluster.connect("a")
        await cluster.rest(1)
        assert cluster.started() == ["b#1"], "each as soon as its own cordon stands, and not before"
        gate.set()
        await cluster.until(lambda: cluster.started() == ["b#1", "a#1"], "then the other")


async def test_one_loop_is_never_blocked_by_a_slow_write(world: World) -> None:
    """Another job goes on while a write of the first hangs."""
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")

    async def hangs(request: object) -> object:
        if isinstance(request, PatchJobStatus) and request.name == "north":
            await asyncio.sleep(3600)
        return cluster.commit(request)  # type: ignore[arg-type]

    cluster.tampers = hangs
    async with cluster.planner():
        cluster.apply("a")
        cluster.apply("b", name="south")
        await cluster.until(lambda: cluster.started() == ["b#1"], "the other is told", limit=5)


async def test_reports_of_a_wave_share_a_write_and_are_acknowledged_when_it_stands(world: World) -> None:
    names = [f"n{number}" for number in range(50)]
    cluster = Cluster(world, *names)
    cluster.connect(*names)
    async with cluster.planner():
        cluster.apply(*names, concurrency=50)
        await cluster.until(lambda: len(cluster.started()) == 50, "all are told")
        before = cluster.writes()
        for name in names:
            await cluster.say(name, a_report(1, **MINE))
        assert cluster.seen() == []
        await cluster.until(lambda: len(cluster.seen()) == 50, "all are acknowledged")
        assert cluster.writes() - before <= 2
        for name in names:
            await cluster.say(name, success(4, **MINE))
        await cluster.until(lambda: cluster.status().phase == "Completed", "the job ends")
        assert cluster.writes() <= 7
        await cluster.rest()
        assert cluster.writes(PatchNode) == 100


async def test_writes_of_a_job_are_paced(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.apply("a", timeout_seconds=3600)
        await cluster.until(cluster.started, "it is told")
        begin, before = world.now(), cluster.writes()
        for revision in range(1, 101):
            await cluster.say("a", a_report(revision, **MINE))
            await asyncio.sleep(0.1)
        await cluster.until(lambda: "a#1.100" in cluster.seen(), "the last is acknowledged")
        assert cluster.writes() - before <= 3 + (world.now() - begin) + 1
        assert len(cluster.seen()) == 100, "every one is acknowledged"


async def test_writes_that_hung_while_the_server_was_away_do_not_slow_the_job_down_afterwards(world: World) -> None:
    """Three times 20 s: as a pace of a tenth of the time that would be minutes."""
    cluster = Cluster(world, "a")
    cluster.connect("a")

    async def hang(_: object) -> object:
        await asyncio.sleep(20)
        return away(None)

    async with cluster.planner():
        cluster.apply("a", timeout_seconds=3600)
        await cluster.until(cluster.started, "it is told")
        cluster.tampers = lambda request: hang(request) if isinstance(request, PatchJobStatus) else None
        for revision in range(1, 7):
            await cluster.say("a", a_report(revision, **MINE))
            await asyncio.sleep(20)
        cluster.tampers = None
        await cluster.until(lambda: "a#1.6" in cluster.seen(), "it stands soon", limit=55)


async def test_lease_is_what_is_left_and_is_renewed(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.apply("a", timeout_seconds=100)
        await cluster.until(cluster.started, "it is told")
        (order,) = [body for _, body in cluster.told if isinstance(body, StartTask)]
        assert 98 <= order.lease_seconds <= 100
        await cluster.rest(50)
        cluster.disconnect("a")
        cluster.connect("a")
        await cluster.until(lambda: len(cluster.started()) == 2, "it is told again in a new session")
        again = [body for _, body in cluster.told if isinstance(body, StartTask)][-1]
        assert again.attempt == order.attempt
        assert 40 <= again.lease_seconds <= 51
        await cluster.say("a", a_report(1, **MINE))
        seen = await cluster.peers.heard(Tell)
        while not hasattr(seen.body, "revision"):
            seen = await cluster.peers.heard(Tell)
        assert 95 <= seen.body.lease_seconds <= 100  # type: ignore[union-attr]
        assert seen.answers == "m"


async def test_silent_node_times_out_and_is_cancelled_and_uncordoned(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    async with cluster.planner():
        cluster.apply("a", "b", timeout_seconds=30, failure_tolerate="1")
        await cluster.until(lambda: cluster.started() == ["a#1", "b#1"], "the slot is free again", limit=40)
        assert phases(cluster.status()) == {"a": "Unknown/TimedOut", "b": "InProgress"}
        await cluster.until(lambda: not cluster.is_cordoned("a"), "it is uncordoned")
        assert cluster.cancelled() == ["a#1"]


async def test_suspend_and_resume(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    async with cluster.planner():
        cluster.apply("a", "b")
        await cluster.until(cluster.started, "the first is told")
        cluster.edit("north", suspend=True)
        await cluster.say("a", success(**MINE))
        await cluster.rest(30)
        assert cluster.started() == ["a#1"]
        assert phases(cluster.status()) == {"a": "Successful", "b": "Pending"}
        cluster.edit("north", suspend=False)
        await cluster.until(lambda: cluster.started() == ["a#1", "b#1"], "the second is told")


async def test_abort_tells_who_is_in_flight_once_and_ends(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    async with cluster.planner():
        cluster.apply("a", "b")
        await cluster.until(cluster.started, "the first is told")
        cluster.edit("north", abort=True)
        await cluster.until(lambda: cluster.cancelled() == ["a#1"], "it is told to stop")
        await cluster.say("a", a_report(3, final=True, code="Aborted", **MINE))
        await cluster.until(lambda: cluster.status().phase == "Failure", "the job ends")
        await cluster.rest()
        assert (cluster.status().reason, cluster.cancelled()) == ("Aborted", ["a#1"])
        assert phases(cluster.status()) == {"a": "Skipped/Aborted", "b": "Skipped/Aborted"}
        assert not cluster.is_cordoned("a")


async def test_retry_runs_the_next_attempt(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.apply("a")
        await cluster.until(cluster.started, "it is told")
        await cluster.say("a", rolled_back(**MINE))
        await cluster.until(lambda: cluster.status().phase == "Failure", "the job ends")
        cluster.edit("north", retry=1)
        await cluster.until(lambda: cluster.started() == ["a#1", "a#2"], "it is told again")
        await cluster.say("a", success(9, **MINE), "late")
        await cluster.say("a", success(1, attempt=2, **MINE))
        await cluster.until(lambda: cluster.status().phase == "Completed", "the job ends")
        assert cluster.seen() == ["a#1.5", "a#1.9", "a#2.1"]
        await cluster.rest()
        assert cluster.history("a") == f"{OLD}->{NEW}"


async def test_busy_node_waits_and_is_told_again_when_it_is_free(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.apply("a", timeout_seconds=3600)
        await cluster.until(cluster.started, "it is told")
        await cluster.say("a", a_report(1, code="Busy", reason="busy with keadm, pid 7", **MINE))
        await cluster.until(lambda: phases(cluster.status()) == {"a": "Pending/Busy"}, "it is set back")
        await cluster.until(lambda: not cluster.is_cordoned("a"), "it is uncordoned")
        assert cluster.cancelled() == [], "it does nothing that could be cancelled"
        assert cluster.status().waiting == "a: busy with keadm, pid 7"
        await cluster.say("a", a_report(2, action="", **MINE))
        await cluster.until(lambda: cluster.started() == ["a#1", "a#1"], "it is told again", limit=10)
        assert cluster.entry("a").phase == "InProgress"


# ---- answers to writes -------------------------------------------------------------------------------------------


async def test_operator_who_edits_at_the_worst_moment_loses_nothing(world: World) -> None:
    """Between our reading and our write the spec changes: 409, read, plan again."""
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    stale: list[object] = []

    def edit_first(request: object) -> object:
        if isinstance(request, PatchJobStatus) and cluster.status().phase == "Init" and not stale:
            cluster.edit("north", suspend=True)
            stale.append(cluster.commit(request))
            return stale[0]
        return None

    cluster.tampers = edit_first
    async with cluster.planner():
        cluster.apply("a", "b")
        await cluster.rest(20)
        assert isinstance(stale[0], Stale)
        assert cluster.started() == []
        assert cluster.store.jobs["north"].spec.suspend
        cluster.edit("north", suspend=False)
        await cluster.until(lambda: cluster.started() == ["a#1"], "it goes on")


async def test_write_that_is_refused_for_good_is_not_repeated(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    refused: list[PatchJobStatus] = []

    def refuse(request: object) -> object:
        if isinstance(request, PatchJobStatus) and cluster.status().phase == "InProgress" and len(refused) < 5:
            refused.append(request)
            return Denied("status.nodeStatus[0].reasonCode: too long")
        return None

    cluster.tampers = refuse
    async with cluster.planner():
        cluster.apply("a", "b", concurrency=2, timeout_seconds=36000, failure_tolerate="1")
        await cluster.until(lambda: len(cluster.started()) == 2, "both are told")
        await cluster.say("a", rolled_back(**MINE))
        await cluster.rest(300)
        assert len(refused) == 1
        assert cluster.seen() == [], "what is not stored is not acknowledged"
        assert "StatusRefused" in cluster.events()
        refused.extend([refused[0]] * 5)
        await cluster.say("b", success(**MINE))
        await cluster.until(lambda: cluster.status().phase == "Completed", "something else is tried, with both")
        await cluster.rest()
        assert sorted(cluster.seen()) == ["a#1.5", "b#1.4"]


async def test_write_that_lacks_a_right_is_tried_again_and_said_meanwhile(world: World) -> None:
    """403 is about who writes: it passes when rights are given, and what a node said must not wait for an edit."""
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.apply("a", timeout_seconds=36000)
        await cluster.until(cluster.started, "it is told")
        forbidden = Denied("cannot patch resource nodeupgradejobs/status", may_pass=True)
        cluster.tampers = lambda request: forbidden if isinstance(request, PatchJobStatus) else None
        await cluster.say("a", success(**MINE))
        await cluster.rest(300)
        assert cluster.manager.warning == "job north cannot be written: cannot patch resource nodeupgradejobs/status"
        assert cluster.events().count("StatusRefused") == 1
        assert cluster.seen() == []
        cluster.tampers = None
        await cluster.until(lambda: cluster.seen() == ["a#1.4"], "it stands, and is acknowledged", limit=35)
        assert (cluster.status().phase, cluster.manager.warning) == ("Completed", "")


async def test_job_whose_plan_trips_is_set_aside_and_the_others_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:

    def trips(job: object, scene: object) -> object:
        if job.metadata.name == "north" and job.metadata.generation == 1:  # type: ignore[attr-defined]
            raise RuntimeError("a bug")
        return next_status(job, scene)  # type: ignore[arg-type]

    monkeypatch.setattr("modules.taskmanager.job.round.next_status", trips)
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    async with cluster.planner():
        cluster.apply("a")
        cluster.apply("b", name="south")
        await cluster.until(lambda: cluster.started() == ["b#1"], "the other goes on")
        said = {one.type: one for one in cluster.status().conditions or ()}
        assert (said["Progressing"].status, said["Progressing"].reason) == ("False", "SetAside")
        assert "log mark" in said["Progressing"].message
        before = cluster.writes()
        await cluster.rest(600)
        assert cluster.writes() - before <= 2, "it is not tried over and over"
        cluster.edit("north", suspend=False)
        await cluster.until(lambda: "a#1" in cluster.started(), "a change of its spec takes it up again")
