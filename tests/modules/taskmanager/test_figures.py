"""What an operator watches of the work: how long steps take, what is not written yet, what came to nothing."""

import pytest

from beehive.messages.objects import Denied, PatchJobStatus
from beehive.world import World
from modules.taskmanager import figures
from tests.fakes.jobs import START, a_report, result, rolled_back, success
from tests.modules.taskmanager.cluster import Cluster, away

pytestmark = pytest.mark.virtual_time


def test_a_step_lasts_from_the_end_of_the_one_before() -> None:
    flow = (result("Check", at=START + 4), result("BackUp", at=START + 6), result("Upgrade", ok=False, at=START + 40))
    assert list(figures.steps(flow, told=START)) == [
        ("Check", "ok", 4.0), ("BackUp", "ok", 2.0), ("Upgrade", "failed", 34.0),
    ]  # fmt: skip
    assert [step for step, _, _ in figures.steps(flow, told=None)] == ["BackUp", "Upgrade"]
    assert list(figures.steps(flow[2:], told=START)) == [], "how long it took without the steps before, nobody knows"


def test_clocks_that_jump_and_times_that_are_none_are_no_steps() -> None:
    flow = (result("Check", at=START + 4), result("BackUp", at=START - 900))
    assert list(figures.steps(flow, told=START + 9)) == [("Check", "ok", 0.0), ("BackUp", "ok", 0.0)]
    odd = (result("Check"), result("Dance"))
    assert [step for step, _, _ in figures.steps(odd, told=START)] == ["Check"]


async def test_steps_are_observed_once_for_each_attempt_that_ended(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    async with cluster.planner():
        cluster.connect("a", "b")
        cluster.apply("a", "b", concurrency=2, failure_tolerate="100%")
        await cluster.until(lambda: len(cluster.started()) == 2, "both are told")
        await cluster.say(
            "a", a_report(2, uid="uid-of-north", action="Upgrade", results=(result("Check"), result("BackUp")))
        )
        await cluster.until(lambda: cluster.entry("a").revision == 2, "a word on the way is written")
        await cluster.say("a", success(0, uid="uid-of-north", results=(result("Upgrade"),)))
        await cluster.say("a", success(uid="uid-of-north"))
        await cluster.say("a", success(5, uid="uid-of-north"))
        await cluster.say("b", rolled_back(uid="uid-of-north"))
        await cluster.until(lambda: len(cluster.seen()) >= 2, "both are written")
        await cluster.say("a", success(uid="uid-of-north"))
        await cluster.rest(60)
        spreads = cluster.manager.figures.spreads(figures.STEP)
        assert len(spreads) == 10
        counts = {labels: sum(spread.counts) for labels, spread in spreads.items()}
        assert {labels: count for labels, count in counts.items() if count} == {
            ("Check", "ok"): 2, ("BackUp", "ok"): 2, ("Upgrade", "ok"): 1, ("Upgrade", "failed"): 1,
            ("RollBack", "ok"): 1,
        }  # fmt: skip


async def test_reports_that_cannot_be_written_are_pending_and_the_errors_are_counted(world: World) -> None:
    cluster = Cluster(world, "a")
    async with cluster.planner():
        cluster.connect("a")
        cluster.apply("a", timeout_seconds=3600)
        await cluster.until(lambda: len(cluster.started()) == 1, "it is told")
        read = cluster.manager.figures
        assert read.numbers(figures.ERRORS) == {("plan",): 0, ("refused",): 0, ("unanswered",): 0, ("unread",): 0}
        cluster.tampers = lambda request: away(request) if isinstance(request, PatchJobStatus) else None
        await cluster.say("a", success(uid="uid-of-north"))
        await cluster.rest(60)
        assert read.numbers(figures.PENDING_REPORTS) == {(): 1}
        assert read.numbers(figures.ERRORS)["unanswered",] > 1
        cluster.tampers = lambda request: Denied("no") if isinstance(request, PatchJobStatus) else None
        await cluster.until(lambda: read.numbers(figures.ERRORS)["refused",] > 0, "it is refused", limit=120)
        cluster.tampers = None
