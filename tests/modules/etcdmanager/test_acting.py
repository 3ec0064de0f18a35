"""Orders: one at a time, once, with a second look before and a third after."""

import asyncio

import pytest

from beehive.messages.objects import LeadershipChanged, PatchNodeCondition, RecordEvent
from beehive.world import World
from modules.etcdmanager.changes import Outcome
from modules.etcdmanager.config import Config
from modules.etcdmanager.learners import Clock
from modules.etcdmanager.module import EtcdManager
from modules.etcdmanager.orders import Evict, MoveLeader, Promote, Remove
from modules.etcdmanager.records import key, read_k3s, write_own
from modules.etcdmanager.sight import SILENT, Probe, Progress
from modules.etcdmanager.writing import REFUSED
from tests.fakes.alone import Peers, alone
from tests.fakes.virtual_time import START
from tests.modules.etcdmanager.cluster import ScriptedCluster, cluster
from tests.modules.etcdmanager.nodes import ApiSide, node

__all__ = ["cluster"]

pytestmark = pytest.mark.virtual_time

CONFIG = Config(endpoints=("https://127.0.0.1:1",))
DEAD = Probe(trouble="it is dead", state=SILENT)
FOUR = tuple(node(f"server-{number}", f"m-{number}") for number in range(1, 5))


async def begin(peers: Peers, *nodes: object) -> ApiSide:
    side = ApiSide(*(nodes or FOUR))  # type: ignore[arg-type]
    side.behind(peers)
    peers.publish(LeadershipChanged(until=1e12))
    await asyncio.sleep(1)
    return side


class TestLearners:
    async def test_the_promotion_shows_in_the_same_pass(self, world: World, cluster: ScriptedCluster) -> None:
        cluster.add(4, learner=True)
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = await begin(peers)
            assert cluster.orders == [Promote(4, "m-4")]
            assert side.reasons()["server-4"] == "MemberNotLearner"
            assert len(peers.all_of(PatchNodeCondition)) == 4
            assert cluster.looks == 3

    async def test_what_is_not_wanted_any_more_at_the_second_look_is_not_done(
        self, world: World, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cluster.add(4, learner=True)
        once = cluster.look

        async def dies(*arguments: object) -> object:
            look = await once(*arguments)  # type: ignore[arg-type]
            cluster.probes[4] = DEAD
            return look

        monkeypatch.setattr(cluster, "look", dies)
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            await begin(peers)
            assert cluster.orders == []

    async def test_nothing_is_ordered_by_a_list_that_no_majority_confirmed(
        self, world: World, cluster: ScriptedCluster
    ) -> None:
        cluster.add(4, learner=True)
        cluster.fenced = False
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            await begin(peers)
            await asyncio.sleep(100)
            assert cluster.orders == []

    async def test_one_that_is_not_in_sync_is_asked_again_in_the_next_pass(
        self, world: World, cluster: ScriptedCluster
    ) -> None:
        cluster.add(4, learner=True)
        cluster.outcomes = [Outcome("wait", "in sync")]
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = await begin(peers)
            assert side.reasons()["server-4"] == "MemberIsLearner"
            assert side.report is not None
            assert side.report.troubles == ()
            await asyncio.sleep(15)
            assert cluster.orders == [Promote(4, "m-4")] * 2
            assert side.reasons()["server-4"] == "MemberNotLearner"

    async def test_every_pass_commits_an_entry_while_there_is_a_learner(
        self, world: World, cluster: ScriptedCluster
    ) -> None:
        """One that joined by a snapshot would hang on an idle cluster (spec/k3s-etcd.md 12b.3)."""
        cluster.add(4, learner=True)
        cluster.probes[4] = DEAD
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            await begin(peers)
            await asyncio.sleep(60)
            assert cluster.kept == 5

    async def test_a_learner_that_does_not_move_is_evicted_after_five_minutes(
        self, world: World, cluster: ScriptedCluster
    ) -> None:
        cluster.add(4, learner=True)
        cluster.probes[4] = DEAD
        cluster.progress = Progress({1: 100, 4: 7})
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = await begin(peers)
            await asyncio.sleep(300)
            assert cluster.orders == []
            await asyncio.sleep(15)
            assert cluster.orders == [Evict(4, "m-4")]
            assert side.reasons()["server-4"] == "NotAMember"
            assert cluster.own == {key(4): write_own(Clock("m-4", 7, 0, START))}
            await asyncio.sleep(15)
            assert cluster.own == {}

    @pytest.mark.parametrize("where", ["k3s", "own"])
    async def test_the_clock_survives_a_change_of_the_observer(
        self, world: World, cluster: ScriptedCluster, where: str
    ) -> None:
        cluster.add(4, learner=True)
        cluster.probes[4] = DEAD
        text = b'{"id":4,"name":"m-4","raftAppliedIndex":7,"lastProgress":"2025-12-31T23:56:00Z"}\n'
        if where == "k3s":
            cluster.k3s = text
        else:
            cluster.own = {key(4): write_own(read_k3s(text, START)[0][4])}
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            await begin(peers)
            await asyncio.sleep(75)
            assert cluster.orders == [Evict(4, "m-4")]

    async def test_a_damaged_record_stops_nothing_and_is_named(self, world: World, cluster: ScriptedCluster) -> None:
        cluster.k3s = b"garbage"
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = await begin(peers)
            assert set(side.reasons().values()) == {"MemberNotLearner", "NotAMember"}
            assert side.report is not None
            assert side.report.troubles[0].startswith("the progress record of K3s cannot be read")


class TestOpenOutcome:
    async def test_a_removal_without_an_answer_is_listed_again_never_sent_again_and_its_member_not_probed(
        self, world: World, cluster: ScriptedCluster
    ) -> None:
        """`Status` makes a member panic whose removal was just applied (spec/k3s-etcd.md 12b.3)."""
        cluster.outcomes = [Outcome("unknown", "did not answer in 5 s")] * 9
        carry_out = cluster.carry_out

        async def without_an_answer(order: Evict, leader: object) -> Outcome:
            cluster.fenced = False
            return await carry_out(order, leader)  # type: ignore[arg-type]

        cluster.carry_out = without_an_answer  # type: ignore[assignment,method-assign]
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = await begin(peers, *FOUR[:2], node("server-3", "m-3", remove="true"))
            assert cluster.orders == [Remove(3, "m-3", "server-3")]
            await asyncio.sleep(100)
            assert cluster.orders == [Remove(3, "m-3", "server-3")]
            assert set(cluster.probed[2:]) == {frozenset({1, 2})}
            assert side.annotations("server-3")["etcd.k3s.cattle.io/remove"] == "true"
            cluster.apply(Remove(3, "m-3", "server-3"))
            cluster.fenced = True
            await asyncio.sleep(15)
            assert len(cluster.orders) == 1
            assert side.annotations("server-3")["etcd.k3s.cattle.io/removed-node-name"] == "m-3"

    async def test_one_that_was_lost_is_ordered_anew_after_a_confirmed_list(
        self, world: World, cluster: ScriptedCluster
    ) -> None:
        cluster.outcomes = [Outcome("unknown", "did not answer in 5 s")]
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = await begin(peers, *FOUR[:2], node("server-3", "m-3", remove="true"))
            assert side.report is not None
            assert side.report.troubles == ("remove member m-3, as its Node asks: unknown: did not answer in 5 s",)
            await asyncio.sleep(15)
            assert cluster.orders == [Remove(3, "m-3", "server-3")] * 2

    async def test_nothing_is_ordered_when_the_lease_runs_out_meanwhile(
        self, world: World, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cluster.add(4, learner=True)
        once = cluster.look

        async def slow(*arguments: object) -> object:
            await asyncio.sleep(3)
            return await once(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(cluster, "look", slow)
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            ApiSide(*FOUR).behind(peers)
            peers.publish(LeadershipChanged(until=asyncio.get_running_loop().time() + 5))
            await asyncio.sleep(30)
            assert cluster.orders == []


class TestRemoval:
    async def test_a_member_is_removed_and_its_node_says_so(self, world: World, cluster: ScriptedCluster) -> None:
        asked = node("server-3", "m-3", remove="True", node_address="10.0.0.3")
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = await begin(peers, *FOUR[:2], asked)
            await asyncio.sleep(15)
            assert cluster.orders == [Remove(3, "m-3", "server-3")]
            said = {name.rpartition("/")[2]: value for name, value in side.annotations("server-3").items()}
            assert said == {"removed-node-name": "m-3", "etcd-observer": "true"}
            assert side.reasons()["server-3"] == "NotAMember"
            assert (await peers.heard(RecordEvent)).note == "etcd member m-3 was removed"
            await asyncio.sleep(1_000)
            assert len(cluster.orders) == 1
            assert len(peers.all_of(RecordEvent)) == 1

    async def test_a_leader_hands_over_in_one_pass_and_is_removed_in_a_later_one(
        self, world: World, cluster: ScriptedCluster
    ) -> None:
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            await begin(peers, node("server-1", "m-1", remove="true"), *FOUR[1:3])
            assert cluster.orders == [MoveLeader(3, "m-3")]
            await asyncio.sleep(15)
            assert cluster.orders == [MoveLeader(3, "m-3"), Remove(1, "m-1", "server-1")]

    async def test_a_refusal_stands_on_the_node_with_its_reason_until_it_can_be_done(
        self, world: World, cluster: ScriptedCluster
    ) -> None:
        cluster.probes[2] = DEAD
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = await begin(peers, *FOUR[:2], node("server-3", "m-3", remove="true"))
            why = "of the 2 voters that would stay 1 are healthy, 2 are needed"
            assert side.annotations("server-3")[REFUSED] == why
            assert (await peers.heard(RecordEvent)).note == f"etcd member not removed: {why}"
            await asyncio.sleep(60)
            assert len(peers.all_of(RecordEvent)) == 1
            del cluster.probes[2]
            await asyncio.sleep(30)
            assert cluster.orders == [Remove(3, "m-3", "server-3")]
            assert REFUSED not in side.annotations("server-3")

    @pytest.mark.parametrize("value", ["false", "", "yes", "1"])
    async def test_other_values_ask_nothing(self, world: World, cluster: ScriptedCluster, value: str) -> None:
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            await begin(peers, *FOUR[:2], node("server-3", "m-3", remove=value))
            assert cluster.orders == []

    async def test_a_node_that_rejoined_can_be_removed_again(self, world: World, cluster: ScriptedCluster) -> None:
        """K3s takes the second wish for the rejoining (spec/k3s-etcd.md 7.1)."""
        again = node("server-3", "m-3", remove="true", removed_node_name="m-3-old")
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            await begin(peers, *FOUR[:2], again)
            assert cluster.orders == [Remove(3, "m-3", "server-3")]
