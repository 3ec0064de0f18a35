"""etcdmanager on a real cluster with mutual TLS: what it sees, and what it says of what it cannot see."""

import pytest

from beehive.api.meta import ObjectMeta
from beehive.api.node import ETCD_LABEL, Node
from beehive.config import Duration
from beehive.errors import Unavailable
from beehive.messages.etcd import MembershipJudged
from beehive.messages.objects import LeadershipChanged, ListNodes, Nodes, Patched, PatchNodeCondition
from beehive.world import World
from modules.etcdmanager.config import Config
from modules.etcdmanager.etcd import Etcd
from modules.etcdmanager.module import EtcdManager
from tests.fakes.alone import Peers, alone
from tests.real.running.etcd import EtcdCluster


def config(cluster: EtcdCluster, *, stranger: bool = False) -> Config:
    identity = cluster.stranger if stranger else cluster.client
    return Config(
        endpoints=tuple(member.client_url for member in cluster.members),
        ca_file=str(identity.ca), cert_file=str(identity.certificate), key_file=str(identity.key),
        period=Duration(1), probe_timeout=Duration(1),
    )  # fmt: skip


def nodes(*names: str) -> Nodes:
    """A Node `node-of-X` for each member name X."""
    return Nodes(
        tuple(
            Node(metadata=ObjectMeta(
                name=f"node-of-{name}", labels={ETCD_LABEL: "true"}, annotations={"etcd.k3s.cattle.io/node-name": name},
            ))
            for name in names
        )
    )  # fmt: skip


async def judged(peers: Peers, node: str, reason: str) -> str:
    """Wait until this reason was written for the Node; the message."""
    while True:
        said = await peers.heard(PatchNodeCondition)
        if (said.name, said.condition.reason) == (f"node-of-{node}", reason):
            return said.condition.message


async def test_voters_learners_and_strangers_are_told_apart(etcd_cluster: EtcdCluster) -> None:
    learner = etcd_cluster.add_learner("server-4")
    etcd_cluster.wait_healthy(learner)
    async with alone(EtcdManager(config(etcd_cluster), World())) as peers:
        peers.answer(ListNodes, lambda _: nodes("server-1", "server-2", "server-3", "server-4", "nobody"))
        peers.answer(PatchNodeCondition, lambda _: Patched())
        peers.publish(LeadershipChanged(until=1e12))
        verdict = await peers.heard(MembershipJudged)
        said = {one.name: (one.condition.status, one.condition.reason) for one in peers.all_of(PatchNodeCondition)}
    assert said == {
        "node-of-server-1": ("True", "MemberNotLearner"),
        "node-of-server-2": ("True", "MemberNotLearner"),
        "node-of-server-3": ("True", "MemberNotLearner"),
        "node-of-server-4": ("False", "MemberIsLearner"),
        "node-of-nobody": ("False", "NotAMember"),
    }
    assert verdict.critical_nodes == ()


async def test_a_hung_member_spoils_only_its_own_verdict_and_is_healthy_again_afterwards(
    etcd_cluster: EtcdCluster,
) -> None:
    async with alone(EtcdManager(config(etcd_cluster), World())) as peers:
        peers.answer(ListNodes, lambda _: nodes("server-1", "server-2", "server-3"))
        peers.answer(PatchNodeCondition, lambda _: Patched())
        peers.publish(LeadershipChanged(until=1e12))
        await judged(peers, "server-3", "MemberNotLearner")
        hung = etcd_cluster.members[2]
        hung.process.pause()
        message = await judged(peers, "server-3", "Unhealthy")
        assert message == f"failed to check etcd member status: {hung.client_url} did not answer in 1 s"
        await peers.heard(MembershipJudged)
        reasons = {one.name: one.condition.reason for one in peers.all_of(PatchNodeCondition)}
        assert reasons["node-of-server-1"] == reasons["node-of-server-2"] == "MemberNotLearner"
        while (await peers.heard(MembershipJudged)).critical_nodes != ("node-of-server-1", "node-of-server-2"):
            pass
        hung.process.resume()
        await judged(peers, "server-3", "MemberNotLearner")


async def test_without_a_quorum_nobody_is_called_a_voter(etcd_cluster: EtcdCluster) -> None:
    async with alone(EtcdManager(config(etcd_cluster), World())) as peers:
        peers.answer(ListNodes, lambda _: nodes("server-1"))
        peers.answer(PatchNodeCondition, lambda _: Patched())
        peers.publish(LeadershipChanged(until=1e12))
        await judged(peers, "server-1", "MemberNotLearner")
        for member in etcd_cluster.members[1:]:
            member.process.kill()
        assert await judged(peers, "server-1", "LeaderMissing") == "no majority of the etcd voters names one leader"


async def test_the_list_comes_from_the_first_endpoint_that_answers(etcd_cluster: EtcdCluster) -> None:
    etcd_cluster.members[0].process.kill()
    etcd = Etcd(config(etcd_cluster))
    try:
        members = await etcd.members()
        assert sorted(member.name for member in members) == ["server-1", "server-2", "server-3"]
    finally:
        await etcd.close()


async def test_a_certificate_of_another_ca_gets_no_answer_and_a_sentence(etcd_cluster: EtcdCluster) -> None:
    etcd = Etcd(config(etcd_cluster, stranger=True))
    try:
        with pytest.raises(Unavailable, match=r"https://127\.0\.0\.1:[0-9]+: unavailable: "):
            await etcd.members()
    finally:
        await etcd.close()


async def test_a_probe_names_itself_and_the_leader(etcd_cluster: EtcdCluster) -> None:
    etcd = Etcd(config(etcd_cluster))
    try:
        members = await etcd.members()
        probes = [await etcd.probe(member) for member in members]
    finally:
        await etcd.close()
    assert [probe.member_id for probe in probes] == [member.id for member in members]
    assert len({probe.leader for probe in probes}) == 1
