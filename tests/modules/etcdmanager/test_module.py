"""The shell of etcdmanager: when it looks, what it writes, what it says when etcd is away."""

import asyncio

import pytest

from beehive.config import Duration
from beehive.errors import ConfigError
from beehive.messages.etcd import MembershipJudged
from beehive.messages.objects import Away, LeadershipChanged, PatchNode, PatchNodeCondition
from beehive.world import World
from modules.etcdmanager.config import Config, checked
from modules.etcdmanager.module import EtcdManager
from tests.fakes.alone import Peers, alone
from tests.modules.etcdmanager.cluster import ScriptedCluster, cluster
from tests.modules.etcdmanager.nodes import ApiSide, node

__all__ = ["cluster"]

pytestmark = pytest.mark.virtual_time

CONFIG = Config(endpoints=("https://127.0.0.1:1",))
NODES = (node("server-1", "m-1"), node("server-2", "m-2"), node("server-3", "m-3"))


def lead(peers: Peers, until: float = 1e12) -> None:
    peers.publish(LeadershipChanged(until=until))


def written(peers: Peers) -> list[tuple[str, str, str]]:
    return [(one.name, one.condition.status, one.condition.reason) for one in peers.all_of(PatchNodeCondition)]


async def test_only_the_holder_of_the_lease_looks(world: World, cluster: ScriptedCluster) -> None:
    async with alone(EtcdManager(CONFIG, world), world=world) as peers:
        ApiSide(*NODES).behind(peers)
        await asyncio.sleep(60)
        assert (peers.said, cluster.looks) == ([], 0)
        lead(peers, asyncio.get_running_loop().time() + 20)
        await peers.heard(MembershipJudged)
        await asyncio.sleep(100)
        assert len(peers.all_of(MembershipJudged)) <= 2


async def test_conditions_are_written_once_and_again_only_as_a_heartbeat(
    world: World, cluster: ScriptedCluster
) -> None:
    async with alone(EtcdManager(CONFIG, world), world=world) as peers:
        side = ApiSide(node("server-1", "m-1"), node("gone", "m-9"), node("worker", "m-1", role="false"))
        side.behind(peers)
        lead(peers)
        await asyncio.sleep(290)
        assert written(peers) == [("server-1", "True", "MemberNotLearner"), ("gone", "False", "NotAMember")]
        assert len(peers.all_of(PatchNode)) == 2
        await asyncio.sleep(30)
        assert len(written(peers)) == 4
        assert len(peers.all_of(PatchNode)) == 2
        first, _, again, _ = peers.all_of(PatchNodeCondition)
        assert first.condition.last_transition_time == again.condition.last_transition_time
        assert first.condition.last_heartbeat_time != again.condition.last_heartbeat_time


async def test_a_write_that_failed_is_tried_in_the_next_pass(world: World, cluster: ScriptedCluster) -> None:
    async with alone(EtcdManager(CONFIG, world), world=world) as peers:
        side = ApiSide(NODES[0])
        side.refuses = lambda _: Away("503")
        side.behind(peers)
        lead(peers)
        await asyncio.sleep(40)
        assert len(written(peers)) == 3


async def test_an_etcd_that_is_away_is_waited_for_visibly_and_after_three_periods_nobody_believes_the_old_conditions(
    world: World, cluster: ScriptedCluster
) -> None:
    async with alone(EtcdManager(CONFIG, world), world=world) as peers:
        side = ApiSide(*NODES)
        side.behind(peers)
        lead(peers)
        await peers.heard(MembershipJudged)
        await asyncio.sleep(1)
        cluster.trouble = "https://127.0.0.1:1: did not answer in 2 s"
        await asyncio.sleep(40)
        assert peers.module.waits_for == "etcd: https://127.0.0.1:1: did not answer in 2 s"
        assert set(side.reasons().values()) == {"MemberNotLearner"}
        await asyncio.sleep(16)
        assert set(side.reasons().values()) == {"ObserverStale"}
        assert {side.condition(name).status for name in side.nodes} == {"Unknown"}
        verdict = peers.all_of(MembershipJudged)[-1]
        assert verdict.critical_nodes == ("server-1", "server-2", "server-3")
        cluster.trouble = ""
        await asyncio.sleep(15)
        assert set(side.reasons().values()) == {"MemberNotLearner"}
        assert peers.module.waits_for == ""


async def test_without_endpoints_it_does_nothing(world: World) -> None:
    async with alone(EtcdManager(Config(), world), world=world) as peers:
        lead(peers)
        await asyncio.sleep(1000)
        assert peers.said == []


async def test_a_leader_lost_is_unknown_in_the_first_pass_that_sees_it(world: World, cluster: ScriptedCluster) -> None:
    async with alone(EtcdManager(CONFIG, world), world=world) as peers:
        side = ApiSide(*NODES)
        side.behind(peers)
        lead(peers)
        await asyncio.sleep(1)
        cluster.leader = 0
        await asyncio.sleep(15)
        assert set(side.reasons().values()) == {"LeaderMissing"}
        assert peers.all_of(MembershipJudged)[-1].critical_nodes == ("server-1", "server-2", "server-3")
        cluster.leader = 2
        await asyncio.sleep(15)
        assert set(side.reasons().values()) == {"MemberNotLearner"}
        assert len(written(peers)) == 9


@pytest.mark.parametrize("seconds", [1, 3600 * 24])
async def test_a_day_of_passes_without_a_change_writes_nothing_but_heartbeats(
    world: World, cluster: ScriptedCluster, seconds: int
) -> None:
    config = Config(endpoints=("https://x:1",), period=Duration(15), heartbeat=Duration(300))
    module = EtcdManager(config, world)
    async with alone(module, world=world) as peers:
        side = ApiSide(NODES[0])
        side.behind(peers)
        lead(peers)
        await asyncio.sleep(seconds)
        beats = 1 + (seconds - 1) // 300
        assert module.counters["passes"] == 1 + (seconds - 1) // 15
        assert (len(written(peers)), side.reports, len(peers.all_of(PatchNode))) == (beats, beats, 1)
        assert cluster.orders == []


async def test_a_heartbeat_of_the_lease_that_fails_stops_the_writing(world: World, cluster: ScriptedCluster) -> None:
    async with alone(EtcdManager(CONFIG, world), world=world) as peers:
        ApiSide(*NODES).behind(peers)
        lead(peers, asyncio.get_running_loop().time() + 20)
        await asyncio.sleep(1000)
        assert len(written(peers)) == 3


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"cert_file": "a"}, "certFile"), ({"cert_file": "a", "key_file": "b"}, "caFile"),
        ({"local_endpoint": "https://x:1"}, "localEndpoint"), ({"probe_timeout": Duration(6)}, "probeTimeout"),
        ({"period": Duration(0)}, "period"), ({"heartbeat": Duration(1)}, "heartbeat"),
        ({"stall": Duration(1)}, "stall"), ({"promotion_lag": 0}, "promotionLag"), ({"report": "x"}, "report"),
        ({"http_url": "https://{foo}:1"}, "httpUrl"), ({"http_url": "https://h:99999"}, "httpUrl"),
        ({"http_url": "127.0.0.1:2382"}, "httpUrl"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_each_other_are_named(world: World, settings: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        EtcdManager(Config(**settings), world)  # type: ignore[arg-type]
    assert f"etcdmanager.{field}" in [problem.path for problem in wrong.value.problems]


def test_the_defaults_fit() -> None:
    assert checked(Config()) == Config()


@pytest.mark.parametrize("url", ["https://127.0.0.1:2382", "https://{host}:2382", "http://[::1]:2382"])
def test_where_the_leader_tells_may_be_set(url: str) -> None:
    assert checked(Config(http_url=url)).http_url == url
