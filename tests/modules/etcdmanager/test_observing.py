"""Beside other writers: K3s, or one process of ours per server; and what the report says."""

import asyncio
import logging

import pytest

from beehive.api.node import NodeCondition
from beehive.messages.etcd import MembershipJudged
from beehive.messages.objects import LeadershipChanged, PatchNodeCondition
from beehive.world import World, rfc3339
from modules.etcdmanager.conditions import MARK
from modules.etcdmanager.config import OWN_NAME, Config
from modules.etcdmanager.module import EtcdManager
from modules.etcdmanager.orders import Promote
from modules.etcdmanager.sight import SILENT, Probe
from tests.fakes.alone import Peers, alone
from tests.fakes.virtual_time import START
from tests.modules.etcdmanager.cluster import ScriptedCluster, cluster
from tests.modules.etcdmanager.nodes import ApiSide, node

__all__ = ["cluster"]

pytestmark = pytest.mark.virtual_time

CONFIG = Config(endpoints=("https://127.0.0.1:1",))
LOCAL = Config(endpoints=("https://127.0.0.1:1",), local_endpoint="https://127.0.0.1:1")
DEAD = Probe(trouble="it is dead", state=SILENT)
THREE = tuple(node(f"server-{number}", f"m-{number}") for number in range(1, 4))


def lead(peers: Peers) -> None:
    peers.publish(LeadershipChanged(until=1e12))


def theirs(now: float, reason: str = "MemberNotLearner") -> NodeCondition:
    return NodeCondition(
        type="EtcdIsVoter", status="True" if reason == "MemberNotLearner" else "False", reason=reason,
        message="as K3s says", last_heartbeat_time=rfc3339(now), last_transition_time=rfc3339(now),
    )  # fmt: skip


class TestBesideK3s:
    async def test_it_only_observes_says_so_once_and_takes_over_after_ten_minutes(
        self, world: World, cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.WARNING, logger="beehive.etcdmanager")
        cluster.add(4, learner=True)
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = ApiSide(*(node(f"server-{n}", f"m-{n}", theirs(START)) for n in range(1, 5)))
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(590)
            assert peers.all_of(PatchNodeCondition) == []
            assert cluster.orders == []
            assert len(peers.all_of(MembershipJudged)) == 40
            said = [one.message for one in caplog.records if "only observing" in one.message]
            assert said == ["another manager (K3s?) writes the condition of server-1: only observing"]
            assert side.report is not None
            assert side.report.troubles == tuple(said)
            await asyncio.sleep(30)
            assert len(peers.all_of(PatchNodeCondition)) == 4
            assert cluster.orders == [Promote(4, "m-4")]

    async def test_one_that_begins_to_write_beside_us_is_left_alone(
        self, world: World, cluster: ScriptedCluster
    ) -> None:
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = ApiSide(*THREE)
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(20)
            assert len(peers.all_of(PatchNodeCondition)) == 3
            side.write("server-2", theirs(world.now(), "MemberIsLearner"))
            await asyncio.sleep(15)
            assert side.condition("server-2").reason == "MemberIsLearner"
            assert all(MARK not in side.annotations(name) for name in side.nodes)
            await asyncio.sleep(500)
            assert len(peers.all_of(PatchNodeCondition)) == 3

    async def test_a_second_process_of_ours_goes_on_at_once(self, world: World, cluster: ScriptedCluster) -> None:
        side, last = ApiSide(*THREE), [theirs(START)]
        for _ in range(2):
            async with alone(EtcdManager(CONFIG, world), world=world) as peers:
                side.behind(peers)
                lead(peers)
                await asyncio.sleep(1)
                last = [one.condition for one in peers.all_of(PatchNodeCondition)]
        assert last == []
        cluster.leader = 0
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(1)
        assert set(side.reasons().values()) == {"LeaderMissing"}

    async def test_who_leads_again_does_not_take_its_successor_for_a_stranger(
        self, world: World, cluster: ScriptedCluster
    ) -> None:
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = ApiSide(*THREE)
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(16)
            peers.publish(LeadershipChanged(until=0.0))
            await asyncio.sleep(1)
            side.write("server-2", theirs(world.now(), "MemberIsLearner"))
            lead(peers)
            await asyncio.sleep(15)
            assert side.condition("server-2").reason == "MemberNotLearner"
            assert MARK in side.annotations("server-2")

    async def test_observe_only_by_configuration(self, world: World, cluster: ScriptedCluster) -> None:
        cluster.add(4, learner=True)
        config = Config(endpoints=CONFIG.endpoints, observe_only=True)
        async with alone(EtcdManager(config, world), world=world) as peers:
            side = ApiSide(*THREE)
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(100)
            cluster.trouble = "gone"
            await asyncio.sleep(100)
            assert (peers.all_of(PatchNodeCondition), cluster.orders) == ([], [])
            assert side.report is not None


class TestOnePerServer:
    async def test_beside_the_leader_it_acts(self, world: World, cluster: ScriptedCluster) -> None:
        cluster.add(4, learner=True)
        async with alone(EtcdManager(LOCAL, world), world=world) as peers:
            side = ApiSide(*THREE)
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(1)
            assert cluster.orders == [Promote(4, "m-4")]
            assert set(side.reasons().values()) == {"MemberNotLearner"}
            assert side.report is not None
            assert side.report.observer == "https://127.0.0.1:1"

    @pytest.mark.parametrize("local", [2, 0])
    async def test_beside_another_member_it_observes_and_tells_the_house(
        self, world: World, cluster: ScriptedCluster, local: int
    ) -> None:
        cluster.local = local
        cluster.add(4, learner=True)
        async with alone(EtcdManager(LOCAL, world), world=world) as peers:
            side = ApiSide(*THREE)
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(1_000)
            assert (cluster.orders, peers.all_of(PatchNodeCondition), side.reports) == ([], [], 0)
            assert len(peers.all_of(MembershipJudged)) == 67

    async def test_beside_another_member_it_says_when_nobody_leads_for_three_passes(
        self, world: World, cluster: ScriptedCluster
    ) -> None:
        cluster.local = 2
        async with alone(EtcdManager(LOCAL, world), world=world) as peers:
            side = ApiSide(*THREE)
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(1)
            cluster.leader = 0
            await asyncio.sleep(30)
            assert peers.all_of(PatchNodeCondition) == []
            await asyncio.sleep(15)
            assert set(side.reasons().values()) == {"LeaderMissing"}

    async def test_beside_another_member_it_says_when_the_acting_one_fell_silent(
        self, world: World, cluster: ScriptedCluster
    ) -> None:
        cluster.local = 2
        async with alone(EtcdManager(LOCAL, world), world=world) as peers:
            side = ApiSide(*(node(f"server-{n}", f"m-{n}", theirs(START)) for n in range(1, 4)))
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(900)
            assert set(side.reasons().values()) == {"ObserverStale"}

    async def test_whose_member_begins_to_lead_acts_from_the_next_pass(
        self, world: World, cluster: ScriptedCluster
    ) -> None:
        cluster.local = 2
        cluster.add(4, learner=True)
        async with alone(EtcdManager(LOCAL, world), world=world) as peers:
            side = ApiSide(*THREE)
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(10)
            cluster.leader, cluster.term = 2, 3
            await asyncio.sleep(10)
            assert cluster.orders == [Promote(4, "m-4")]
            assert set(side.reasons().values()) == {"MemberNotLearner"}


class TestNames:
    @pytest.mark.parametrize(
        ("config", "annotation"),
        [
            (Config(endpoints=("https://x:1",), annotations="etcd.rke2.cattle.io"), "etcd.rke2.cattle.io/node-name"),
            (Config(endpoints=("https://x:1",), name_annotation="example.org/member"), "example.org/member"),
            (Config(endpoints=("https://x:1",), name_annotation=OWN_NAME), ""),
        ],
    )
    async def test_rke2_and_kubeadm_by_configuration(
        self, world: World, cluster: ScriptedCluster, config: Config, annotation: str
    ) -> None:
        made = node("m-1", "")
        if annotation:
            assert made.metadata.annotations is not None
            made.metadata.annotations[annotation] = "m-1"
        async with alone(EtcdManager(config, world), world=world) as peers:
            side = ApiSide(made)
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(1)
            assert side.reasons() == {"m-1": "MemberNotLearner"}


class TestReport:
    async def test_it_is_written_when_it_says_something_new(self, world: World, cluster: ScriptedCluster) -> None:
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = ApiSide(*THREE)
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(100)
            assert side.reports == 1
            assert side.report is not None
            first = side.report
            assert first.healthy
            cluster.probes[3] = DEAD
            await asyncio.sleep(15)
            assert side.reports == 2
            assert side.report.healthy != first.healthy
            assert side.report.may_go_down.startswith("No: 2 of 3 voters answer")
            assert [one.why for one in side.report.members] == ["", "", "it is dead"]

    async def test_a_missing_config_map_is_named_and_stops_nothing(
        self, world: World, cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.WARNING, logger="beehive.etcdmanager")
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = ApiSide(*THREE)
            side.no_config_map = True
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(100)
            text = "there is no ConfigMap kubeedge/beehive-etcd; kubectl apply -f configs/rbac.yaml makes it"
            assert [one.message for one in caplog.records] == [text]
            assert set(side.reasons().values()) == {"MemberNotLearner"}
            side.no_config_map = False
            await asyncio.sleep(15)
            assert side.report is not None

    async def test_numbers_for_the_metrics(self, world: World, cluster: ScriptedCluster) -> None:
        cluster.add(4, learner=True)
        cluster.probes[4] = cluster.probes[3] = DEAD
        module = EtcdManager(CONFIG, world)
        async with alone(module, world=world) as peers:
            ApiSide(*THREE).behind(peers)
            lead(peers)
            await asyncio.sleep(16)
            assert module.gauges == {
                "etcd_voters": 3, "etcd_voters_living": 2, "etcd_voters_needed": 2, "etcd_learners": 1,
                "etcd_members_unhealthy": 2,
                "etcd_learner_lag_entries": 0, "etcd_learner_idle_seconds": 15.0, "etcd_ghosts": 1, "etcd_alarms": 0,
                "etcd_has_quorum": 1.0, "etcd_may_add_member": 0.0, "etcd_critical_nodes": 2, "etcd_term": 2,
                "etcd_last_success_timestamp_seconds": START + 15,
            }  # fmt: skip
            peers.publish(LeadershipChanged(until=0.0))
            await asyncio.sleep(15)
            assert module.gauges == {}

    async def test_each_bad_endpoint_is_named_in_one_log_line_and_in_the_report(
        self, world: World, cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.WARNING, logger="beehive.etcdmanager")
        cluster.endpoint_troubles = {"nonsense": "nonsense is not a client URL of etcd"}
        async with alone(EtcdManager(CONFIG, world), world=world) as peers:
            side = ApiSide(*THREE)
            side.behind(peers)
            lead(peers)
            await asyncio.sleep(100)
            text = "nonsense: nonsense is not a client URL of etcd"
            assert [one.message for one in caplog.records] == [text]
            assert side.report is not None
            assert side.report.troubles == (text,)
