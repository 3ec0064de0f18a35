"""What a large fleet costs the planner: looks are counted, and no turn of the loop is long (of CPU)."""

import asyncio
import gc
import statistics
import time
from typing import Any

import msgspec
import pytest

from beehive.messages.objects import PatchJobStatus
from beehive.messages.tasks import StartTask
from beehive.world import World
from modules.taskmanager.cloud.term import Term
from tests.fakes.edges import names
from tests.fakes.jobs import a_report, phases, success
from tests.modules.taskmanager.cluster import Cluster

pytestmark = pytest.mark.virtual_time
_LONGEST = 100
"""Of one turn of the loop, in times that it takes to make 5,000 entries anew on the spot (1 ms of CPU)."""


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the planner looked."""
    found: list[float] = []
    plain = Term.look

    async def look(self: Term) -> None:
        found.append(asyncio.get_running_loop().time())
        await plain(self)

    monkeypatch.setattr(Term, "look", look)
    return found


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The CPU of each turn of the planner's loop, in seconds."""
    found: list[float] = []
    plain = asyncio.Handle._run

    def run(self: asyncio.Handle) -> None:
        begun = time.thread_time()
        plain(self)
        task = getattr(self._callback, "__self__", None)  # type: ignore[attr-defined]
        if isinstance(task, asyncio.Task) and "CloudTaskManager" in getattr(task.get_coro(), "__qualname__", ""):
            found.append(time.thread_time() - begun)

    monkeypatch.setattr(asyncio.Handle, "_run", run)
    return found


async def play(cluster: Cluster, seconds: float, counted: list[float]) -> None:
    """One job over the whole fleet, which is connected; the last words come over so many seconds."""
    nodes = tuple(cluster.store.nodes)
    cluster.connect(*nodes)
    await cluster.rest(1)
    counted.clear()
    job = cluster.apply(*nodes, concurrency=len(nodes), failure_tolerate="100%", timeout_seconds=1800)
    await cluster.until(lambda: len(cluster.started()) == len(nodes), "all are told")
    assert sum(isinstance(body, StartTask) for _, body in cluster.told) == len(nodes)
    for node in nodes:
        await cluster.say(node, success(uid=job.metadata.uid))
        await asyncio.sleep(seconds / len(nodes))
    await cluster.until(lambda: cluster.status().phase == "Completed", "the job has ended")
    await cluster.until(lambda: len(cluster.seen()) == len(nodes), "every word is acknowledged")


async def test_looks_are_as_few_as_writes_not_as_many_as_words(world: World, looks: list[float]) -> None:
    cluster = Cluster(world, *names(200))
    async with cluster.planner():
        await play(cluster, 20, looks)
    assert cluster.writes() <= 30, "a write a second"
    assert len(looks) <= 2 * cluster.writes() + 10, f"{len(looks)} looks, {cluster.writes()} writes"


@pytest.mark.long
async def test_no_turn_of_the_loop_is_long_with_5000_nodes(world: World, turns: list[float]) -> None:
    """The best of three, without the garbage collector, whose work grows with all that other tests left."""
    longest = []
    for _ in range(3):
        cluster = Cluster(world, *names(5000))
        gc.disable()
        try:
            async with cluster.planner(inbox=100_000):
                await play(cluster, 3, turns)
        finally:
            gc.enable()
        assert len(turns) > 100
        longest.append(max(turns) / yardstick(cluster))
        if longest[-1] <= _LONGEST:
            return
    raise AssertionError(f"the loop stood still for {longest} times as long as making 5,000 entries anew")


def yardstick(cluster: Cluster) -> float:
    """Seconds of CPU for making each entry of the job anew."""
    entries = cluster.status().node_status or ()
    assert len(entries) == 5000
    took = []
    for _ in range(5):
        begun = time.thread_time()
        assert len([msgspec.structs.replace(entry, revision=entry.revision + 1) for entry in entries]) == 5000
        took.append(time.thread_time() - begun)
    return statistics.median(took)


async def test_word_that_a_node_is_free_counts_also_when_the_job_that_waits_is_being_written(world: World) -> None:
    """It is heard once, here by the last word about a job that is gone; who is being written has yet to hear of it."""
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    mine: dict[str, Any] = {"uid": "uid-of-north"}
    async with cluster.planner():
        cluster.apply("a", "b", concurrency=2, timeout_seconds=3600)
        await cluster.until(lambda: len(cluster.started()) == 2, "they are told")
        await cluster.say("a", a_report(1, code="Busy", reason="busy with job south, attempt 1", **mine))
        await cluster.until(lambda: phases(cluster.status())["a"] == "Pending/Busy", "it is set back")
        writing: list[PatchJobStatus] = []

        async def late(request: PatchJobStatus) -> object:
            writing.append(request)
            await asyncio.sleep(0.5)
            return cluster.commit(request)

        cluster.tampers = lambda request: late(request) if isinstance(request, PatchJobStatus) else None
        await cluster.say("b", a_report(2, action="BackUp", **mine))
        await cluster.until(lambda: writing, "the write with b's progress is under way")
        await cluster.say("a", success(job="south", uid="uid-of-south"))
        await cluster.until(lambda: cluster.started().count("a#1") == 2, "it is told again", limit=15)
