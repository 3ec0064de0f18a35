"""The planner dies at any moment, loses its grant, or its API server: the job goes on from its status."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from beehive.messages.fleet import ListOnline, Online
from beehive.messages.objects import Denied, JobChanged, Jobs, ListJobs, Nodes, PatchJobStatus, PatchNode
from beehive.messages.tasks import CancelTask, StartTask, TaskReport
from beehive.world import World
from tests.fakes.jobs import NEW, OLD, phases, rolled_back, success
from tests.modules.taskmanager.cluster import Cluster, Write, away

pytestmark = pytest.mark.virtual_time
MINE: dict[str, Any] = {"uid": "uid-of-north"}
NODES = ("a", "b", "c", "d")


class Hosts:
    """Edges that outlive the planner: each runs an attempt once, and says so until it is acknowledged."""

    def __init__(self, cluster: Cluster, fails: str = "") -> None:
        self.cluster = cluster
        self.runs: list[str] = []
        """Upgrades that really ran, as node#attempt."""
        self._fails = fails
        self._results: dict[tuple[str, str, int], TaskReport] = {}
        self._unseen: set[tuple[str, str, int]] = set()
        self._read = 0

    def listen(self) -> None:
        """Take in what was told since."""
        self.cluster.hear()
        for node, body in self.cluster.told[self._read :]:
            key = (node, body.uid, body.attempt)  # type: ignore[attr-defined]
            if isinstance(body, StartTask):
                if key not in self._results:
                    self.runs.append(f"{node}#{body.attempt}")
                    end = rolled_back if node in self._fails else success
                    self._results[key] = end(4, uid=body.uid, attempt=body.attempt)
                self._unseen.add(key)
            elif not isinstance(body, CancelTask):
                self._unseen.discard(key)
        self._read = len(self.cluster.told)

    async def live(self) -> None:
        """Speak every two seconds."""
        while True:
            self.listen()
            for key in sorted(self._unseen):
                await self.cluster.say(key[0], self._results[key])
            await asyncio.sleep(2)


async def until_dead_or(cluster: Cluster, hosts: Hosts, holds: Callable[[], bool]) -> None:
    """Play on until the planner was killed, or it holds."""
    living = asyncio.ensure_future(hosts.live())
    try:
        await cluster.until(lambda: cluster.dead_at is not None or holds(), "it ends or is killed", limit=2000)
    finally:
        living.cancel()


def is_over(cluster: Cluster) -> bool:
    """The job ended, every word was heard, no node is ours any more."""
    job = cluster.store.jobs.get("north")
    return (
        job is not None
        and job.status.phase in ("Completed", "Failure")
        and not any(cluster.holds_annotation(node) for node in NODES)
    )


async def played(world: World, kill_at: int, when: str) -> tuple[Cluster, Hosts, int]:
    """A job of four nodes, the planner killed around its `kill_at`th write; then another one carries on."""
    cluster = Cluster(world, *NODES)
    cluster.connect(*NODES)
    hosts = Hosts(cluster, fails="b")
    count = 0

    def tamper(request: Write) -> object:
        nonlocal count
        count += 1
        if count != kill_at:
            return None
        if when == "after":
            cluster.commit(request)
        return cluster.kill()

    cluster.tampers = tamper
    async with cluster.planner():
        cluster.apply(*NODES, concurrency=2, failure_tolerate="0.25")
        await until_dead_or(cluster, hosts, lambda: is_over(cluster))
    cluster.tampers = None
    async with cluster.planner():
        await until_dead_or(cluster, hosts, lambda: is_over(cluster))
        await cluster.rest(10)
    hosts.listen()
    return cluster, hosts, count


def must_be_right(cluster: Cluster, hosts: Hosts) -> None:
    assert phases(cluster.status()) == {
        "a": "Successful",
        "b": "Failure/RolledBack",
        "c": "Successful",
        "d": "Successful",
    }
    assert cluster.status().phase == "Completed"
    assert sorted(hosts.runs) == ["a#1", "b#1", "c#1", "d#1"], "each ran once"
    assert not any(cluster.is_cordoned(node) or cluster.holds_annotation(node) for node in NODES)
    assert [cluster.history(node) for node in NODES] == [f"{OLD}->{NEW}", "", f"{OLD}->{NEW}", f"{OLD}->{NEW}"]
    assert not hosts._unseen, "every word is acknowledged"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_at_every_write_the_next_one_ends_it_right(world: World, when: str) -> None:
    _, _, writes = await played(world, 0, when)
    assert writes >= 12, "finalizer, Init, marks, words, four cordons and four uncordons"
    for kill_at in range(1, writes + 1):
        cluster, hosts, _ = await played(world, kill_at, when)
        must_be_right(cluster, hosts)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_in_flight_never_passes_the_concurrency_whatever_is_killed(world: World, when: str) -> None:
    for kill_at in range(1, 16, 2):
        cluster, hosts, _ = await played(world, kill_at, when)
        must_be_right(cluster, hosts)
        assert cluster.most_in_flight <= 2


async def test_write_whose_answer_was_lost_is_found_and_not_doubled(world: World) -> None:
    """It stood, but we were told that the API server is away; then nothing for a while."""
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    lost: list[PatchJobStatus] = []

    def stands_but_says_nothing(request: Write) -> object:
        if isinstance(request, PatchJobStatus) and cluster.status().phase == "Init" and not lost:
            lost.append(request)
            cluster.store.patched(request)
            return away(request)
        return None

    cluster.tampers = stands_but_says_nothing
    async with cluster.planner():
        cluster.apply("a", "b")
        await cluster.until(cluster.started, "it is told")
        await cluster.rest(30)
        assert cluster.started() == ["a#1"]
        assert phases(cluster.status()) == {"a": "InProgress", "b": "Pending"}


async def test_words_whose_write_stood_unanswered_are_acknowledged(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    lost: list[PatchJobStatus] = []

    def stands_but_says_nothing(request: Write) -> object:
        if isinstance(request, PatchJobStatus) and cluster.status().phase == "InProgress" and not lost:
            lost.append(request)
            cluster.store.patched(request)
            return away(request)
        return None

    cluster.tampers = stands_but_says_nothing
    async with cluster.planner():
        cluster.apply("a")
        await cluster.until(cluster.started, "it is told")
        await cluster.say("a", success(**MINE))
        await cluster.say("a", success(**MINE), "", ticket=5)
        await cluster.until(lambda: cluster.seen() == ["a#1.4"], "it is acknowledged when it is seen to stand")
        assert cluster.answers() == [(5, "seen")]
        assert cluster.status().phase == "Completed"
        await cluster.until(lambda: cluster.history("a") == f"{OLD}->{NEW}", "and the rest follows")


async def test_watch_that_is_behind_our_own_writes_is_not_believed(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    async with cluster.planner():
        old = cluster.apply("a", "b")
        await cluster.until(cluster.started, "it is told")
        asked = len(cluster.peers.all_of(PatchJobStatus))
        cluster.peers.publish(JobChanged(job=old))
        await cluster.rest(10)
        assert len(cluster.peers.all_of(PatchJobStatus)) == asked, "nothing is planned from the past"
        assert len(cluster.started()) == 1


async def test_five_minutes_without_the_api_server(world: World) -> None:
    cluster = Cluster(world, *NODES)
    cluster.connect(*NODES)
    hosts = Hosts(cluster)
    async with cluster.planner():
        cluster.apply(*NODES, concurrency=4)
        await cluster.until(lambda: len(cluster.started()) == 4, "all are told")
        cluster.tampers = away
        living = asyncio.ensure_future(hosts.live())
        await cluster.rest(300)
        assert cluster.seen() == []
        assert cluster.status().in_progress == 4
        cluster.tampers = None
        await cluster.until(lambda: is_over(cluster), "it ends within seconds", limit=60)
        living.cancel()
        assert sorted(hosts.runs) == [f"{node}#1" for node in NODES]
        assert cluster.status().successful == 4


async def test_tries_while_the_api_server_is_away_become_rarer(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.apply("a")
        await cluster.until(cluster.started, "it is told")
        cluster.tampers = away
        before = len(cluster.peers.all_of(PatchJobStatus))
        await cluster.say("a", success(**MINE))
        await cluster.rest(600)
        tries = len(cluster.peers.all_of(PatchJobStatus)) - before
        assert 15 <= tries <= 35


# ---- leadership --------------------------------------------------------------------------------------------------


async def test_who_does_not_lead_does_nothing(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner(leads=False):
        cluster.apply("a")
        await cluster.rest(60)
        assert cluster.peers.said == []
        cluster.lead()
        await cluster.until(cluster.started, "as leader it works")
        assert [one.fresh for one in cluster.peers.all_of(ListJobs)] == [True]


async def test_grant_that_ends_in_silence_ends_everything(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    async with cluster.planner(leads=False):
        cluster.lead(15)
        cluster.apply("a", "b")
        await cluster.until(cluster.started, "it is told")
        await cluster.rest(15)
        said = len(cluster.peers.said)
        await cluster.say("a", success(**MINE))
        cluster.edit("north", suspend=True)
        await cluster.rest(600)
        assert len(cluster.peers.said) == said
        cluster.lead()
        await cluster.rest(5)
        assert [one.fresh for one in cluster.peers.all_of(ListJobs)] == [True, True], "a new term reads afresh"
        assert cluster.started() == ["a#1", "a#1"], "who is in flight is told again"


async def test_renewed_grant_goes_on_without_reading(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner(leads=False):
        for _ in range(20):
            cluster.lead(15)
            await cluster.rest(5)
        assert len(cluster.peers.all_of(ListJobs)) == 1


async def test_answers_of_a_former_term_mean_nothing(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    gate = asyncio.Event()

    async def slow(request: Write) -> object:
        if isinstance(request, PatchJobStatus) and cluster.status().phase == "Init" and not gate.is_set():
            await gate.wait()
            return Denied("too late")
        return cluster.commit(request)

    cluster.tampers = slow
    async with cluster.planner():
        cluster.apply("a")
        await cluster.rest(3)
        cluster.lead(0)
        await cluster.rest(1)
        gate.set()
        cluster.lead()
        await cluster.until(cluster.started, "the new term works")
        assert "StatusRefused" not in cluster.events()


async def test_leader_that_cannot_read_says_what_it_waits_for_and_tries_again(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner(leads=False):

        async def hangs(_: object) -> Nodes:
            await asyncio.sleep(40)
            return Nodes(tuple(cluster.store.nodes.values()))

        cluster.peers.answer(ListJobs, hangs)
        cluster.apply("a")
        cluster.lead()
        await cluster.rest(35)
        assert "the list of jobs, nodes and sessions" in cluster.peers.module.waits_for
        cluster.peers.answer(ListJobs, cluster._list_jobs)
        await cluster.until(cluster.started, "it works when it can", limit=60)
        assert cluster.peers.module.waits_for == ""


async def test_report_while_nothing_was_read_yet_is_not_acknowledged(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.apply("a")
        await cluster.until(cluster.started, "it is told")
    async with cluster.planner(leads=False):

        async def hangs(_: object) -> object:
            await asyncio.sleep(40)
            return cluster._list_jobs(ListJobs())

        cluster.peers.answer(ListJobs, hangs)
        cluster.lead()
        await cluster.say("a", success(**MINE))
        await cluster.rest(35)
        assert cluster.seen() == []
        cluster.peers.answer(ListJobs, cluster._list_jobs)
        await cluster.rest(60)
        await cluster.say("a", success(**MINE))
        await cluster.until(lambda: cluster.seen() == ["a#1.4"], "when it repeats itself it is")


async def test_nobody_is_offline_before_the_hub_is_open(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.open_since = 0.0
    async with cluster.planner():
        cluster.apply("a")
        await cluster.rest(300)
        assert phases(cluster.status()) == {"a": "Pending"}
        cluster.open_since = world.now()
        cluster.connect("a")
        await cluster.until(cluster.started, "it came in time", limit=5)


async def test_node_that_stays_away_is_skipped_when_its_time_is_over(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.open_since = world.now()
    async with cluster.planner():
        cluster.apply("a")
        await cluster.rest(1)
        assert phases(cluster.status()) == {"a": "Pending"}
        await cluster.until(lambda: cluster.status().phase == "Completed", "its time is over", limit=2)
        assert phases(cluster.status()) == {"a": "Skipped/NotConnected"}


async def test_takeover_from_a_cache_that_is_behind_doubles_nothing(world: World) -> None:
    """The list is older than what stands: the first write is refused as stale, and what stands rules."""
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    old: list[Jobs] = []

    def remember(request: Write) -> None:
        if isinstance(request, PatchJobStatus) and cluster.status().phase == "Init":
            old.append(cluster._list_jobs(ListJobs()))

    cluster.tampers = remember
    async with cluster.planner():
        cluster.apply("a", "b")
        await cluster.until(cluster.started, "it is told")
    assert old[0].items[0].status.phase == "Init"
    async with cluster.planner(leads=False):
        cluster.peers.answer(ListJobs, lambda _: old[0])
        cluster.lead()
        await cluster.rest(10)
        assert phases(cluster.status()) == {"a": "InProgress", "b": "Pending"}
        assert cluster.started() == ["a#1", "a#1"]


async def test_hub_that_does_not_answer_does_not_stop_the_planner(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.open_since = 0.0
    cluster.connect("a")
    async with cluster.planner():
        await cluster.rest(1)

        async def hangs(_: object) -> Online:
            await asyncio.sleep(60)
            return Online((), 0.0)

        cluster.peers.answer(ListOnline, hangs)
        cluster.apply("a")
        await cluster.until(lambda: cluster.writes(PatchNode), "it is marked and cordoned", limit=60)
