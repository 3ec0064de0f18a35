"""etcdmanager on the bus beside a real cluster with mutual TLS: what it writes, and how often."""

from beehive.config import Duration
from beehive.messages.etcd import MembershipJudged
from beehive.messages.objects import LeadershipChanged, PatchNodeCondition
from beehive.world import World
from modules.etcdmanager.module import EtcdManager
from tests.fakes.alone import Peers, alone
from tests.modules.etcdmanager.nodes import ApiSide, node
from tests.real.running.etcd import EtcdCluster
from tests.real.watching import config

ALL = tuple(node(f"node-of-server-{number}", f"server-{number}") for number in range(1, 5))


async def begin(peers: Peers) -> ApiSide:
    side = ApiSide(*ALL, node("node-of-nobody", "nobody"))
    side.behind(peers)
    peers.publish(LeadershipChanged(until=1e12))
    return side


async def judged(peers: Peers, node: str, reason: str) -> str:
    """Wait until this reason was written for the Node; the message."""
    while True:
        said = await peers.heard(PatchNodeCondition)
        if (said.name, said.condition.reason) == (f"node-of-{node}", reason):
            return said.condition.message


async def stale(peers: Peers) -> str:
    """The next verdict that says that nobody sees the cluster."""
    while "nobody" not in (reason := (await peers.heard(MembershipJudged)).reason):
        pass
    return reason


async def test_every_state_is_told_apart_and_written_once(etcd_cluster: EtcdCluster) -> None:
    learner = etcd_cluster.add_learner("server-4")
    etcd_cluster.wait_healthy(learner)
    learner.process.pause()
    module = EtcdManager(config(etcd_cluster, period=Duration(0.5)), World())
    async with alone(module) as peers:
        side = await begin(peers)
        await peers.heard(MembershipJudged)
        assert side.reasons() == {
            "node-of-server-1": "MemberNotLearner", "node-of-server-2": "MemberNotLearner",
            "node-of-server-3": "MemberNotLearner", "node-of-server-4": "MemberIsLearner",
            "node-of-nobody": "NotAMember",
        }  # fmt: skip
        await peers.heard(MembershipJudged)
        verdict = await peers.heard(MembershipJudged)
        assert verdict.critical_nodes == ()
        assert module.counters["conditions_written"] == 5
        learner.process.resume()
        await judged(peers, "server-4", "MemberNotLearner")
        while module.gauges["etcd_voters"] != 4:
            await peers.heard(MembershipJudged)
        assert module.counters["promote_done"] == 1


async def test_a_hung_member_spoils_only_its_own_verdict_and_is_healthy_again_afterwards(
    etcd_cluster: EtcdCluster,
) -> None:
    async with alone(EtcdManager(config(etcd_cluster), World())) as peers:
        side = await begin(peers)
        await judged(peers, "server-3", "MemberNotLearner")
        hung = etcd_cluster.members[2]
        hung.process.pause()
        message = await judged(peers, "server-3", "Unhealthy")
        assert message.startswith(f"failed to check etcd member status: {hung.client_url} did not answer in 1 s")
        await peers.heard(MembershipJudged)
        assert side.reasons()["node-of-server-1"] == side.reasons()["node-of-server-2"] == "MemberNotLearner"
        while (await peers.heard(MembershipJudged)).critical_nodes != ("node-of-server-1", "node-of-server-2"):
            pass
        hung.process.resume()
        await judged(peers, "server-3", "MemberNotLearner")


async def test_without_a_quorum_nobody_is_called_a_voter_and_without_any_member_nobody_is_believed(
    etcd_cluster: EtcdCluster,
) -> None:
    async with alone(EtcdManager(config(etcd_cluster, period=Duration(0.5)), World())) as peers:
        side = await begin(peers)
        await judged(peers, "server-1", "MemberNotLearner")
        for member in etcd_cluster.members[1:]:
            member.process.kill()
        assert await judged(peers, "server-1", "LeaderMissing") == "no majority of the etcd voters names one leader"
        etcd_cluster.members[0].process.kill()
        while set(side.reasons().values()) != {"ObserverStale"}:
            assert "nobody has seen the etcd cluster" in await stale(peers)
        assert "connection refused" in peers.module.waits_for
