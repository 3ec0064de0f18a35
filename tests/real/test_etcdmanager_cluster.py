"""Real members, mutual TLS, and everything that can happen to them: what is said, and what is ordered, pass by pass."""

import time

import pytest
from aetcd import rpc

from modules.etcdmanager.channels import Channels
from modules.etcdmanager.members import NOT_A_MEMBER
from modules.etcdmanager.orders import Evict, Promote
from modules.etcdmanager.quorum import ghosts
from tests.real.running.etcd import EtcdCluster
from tests.real.running.processes import free_ports
from tests.real.watching import config, follower, id_of, reasons, standing, watching

VOTES, LEARNS = "MemberNotLearner", "MemberIsLearner"
THREE = ("server-1", "server-2", "server-3")


async def alarm(cluster: EtcdCluster, kind: int, member_id: int) -> None:
    """Raise it, as a member whose disk is full would."""
    channels = Channels(config(cluster))
    request = rpc.AlarmRequest(action=rpc.AlarmRequest.ACTIVATE, memberID=member_id, alarm=kind)
    leader = cluster.leader()
    assert leader is not None
    await channels.call(leader.client_url, rpc.MaintenanceStub, "Alarm", request, 5)
    await channels.close()


async def test_a_learner_that_caught_up_votes_in_the_same_pass(etcd_cluster: EtcdCluster) -> None:
    async with watching(etcd_cluster) as watch:
        first = await watch.one_pass()
        assert reasons(first, *THREE) == [VOTES] * 3
        assert standing(first, "server-4") == NOT_A_MEMBER
        learner = etcd_cluster.add_learner("server-4")
        done = await watch.until(lambda result: result.order)
        assert isinstance(done.order, Promote)
        assert reasons(done, "server-4") == [VOTES]
        etcd_cluster.wait_healthy(learner)
        later = await watch.one_pass()
        assert reasons(later, *THREE, "server-4") == [VOTES] * 4
        assert [kind for _, kind in watch.orders] == ["done"]
        assert etcd_cluster.ctl("get", "--prefix", "beehive/") == ""
        assert '"name":"server-4"' in etcd_cluster.ctl("get", "k3s/etcd/learnerProgress")


async def test_a_learner_that_hangs_is_evicted_after_five_minutes_but_never_without_a_live_majority(
    etcd_cluster: EtcdCluster,
) -> None:
    learner = etcd_cluster.add_learner("server-4")
    etcd_cluster.wait_healthy(learner)
    learner.process.pause()
    async with watching(etcd_cluster) as watch:
        first = await watch.one_pass()
        assert first.order is None
        assert reasons(first, "server-4") == [LEARNS]
        assert "stays silent" in standing(first, "server-4").message
        voters = etcd_cluster.members[:3]
        for one in voters[1:]:
            one.process.pause()
        without = await watch.one_pass(400)
        assert without.order is None
        for one in voters[1:]:
            one.process.resume()
        evicted = await watch.until(lambda result: result.order, 30)
        assert isinstance(evicted.order, Evict)
        assert evicted.outcome is not None
        assert evicted.outcome.kind == "done"
        assert standing(evicted, "server-4") == NOT_A_MEMBER
        learner.process.resume()
        after = await watch.one_pass()
        assert reasons(after, *THREE) == [VOTES] * 3
        assert len(watch.orders) == 1
        assert "panic" not in learner.process.tail(20_000)


async def test_the_leader_dies_and_another_one_is_found(etcd_cluster: EtcdCluster) -> None:
    async with watching(etcd_cluster) as watch:
        first = await watch.one_pass()
        leader = etcd_cluster.leader()
        assert leader is not None
        leader.process.kill()
        now = await watch.one_pass()
        # The others name the dead one until their election: that is no quorum to act by either.
        assert not now.verdict.facts.has_quorum or now.verdict.facts.leader != first.verdict.facts.leader
        later = await watch.until(lambda result: result.verdict.facts.has_quorum)
        assert later.verdict.facts.term > first.verdict.facts.term
        dead = await watch.one_pass()
        assert standing(dead, leader.name).reason == "Unhealthy"
        assert standing(dead, leader.name).message.endswith(f"{leader.client_url} connection refused")
        assert len(dead.verdict.quorum.critical) == 2
        etcd_cluster.start(leader)
        assert reasons(await watch.until(lambda result: not result.verdict.memory.silent), *THREE) == [VOTES] * 3


async def test_a_hung_member_costs_the_time_of_one_probe_and_only_its_own_standing(etcd_cluster: EtcdCluster) -> None:
    hung = follower(etcd_cluster)
    async with watching(etcd_cluster) as watch:
        await watch.one_pass()
        hung.process.pause()
        begin = time.monotonic()
        await watch.one_pass()
        assert time.monotonic() - begin < 1.3
        second = await watch.one_pass()
        assert standing(second, hung.name).reason == "Unhealthy"
        others = [name for name in THREE if name != hung.name]
        assert reasons(second, *others) == [VOTES] * 2
        assert second.seen.endpoint_troubles == {hung.client_url: "did not answer in 1 s"}
        hung.process.resume()
        assert reasons(await watch.until(lambda result: not result.verdict.memory.silent), *THREE) == [VOTES] * 3


async def test_the_quorum_is_lost_and_regained(etcd_cluster: EtcdCluster) -> None:
    async with watching(etcd_cluster) as watch:
        await watch.one_pass()
        for member in etcd_cluster.members[1:]:
            member.process.kill()
        lost = await watch.until(lambda result: not result.verdict.facts.leader)
        assert reasons(lost, *THREE) == ["LeaderMissing"] * 3
        assert not lost.seen.fenced
        assert set(lost.seen.endpoint_troubles) == {one.client_url for one in etcd_cluster.members[1:]}
        assert lost.verdict.quorum.critical == tuple(f"node-of-{name}" for name in THREE)
        for member in etcd_cluster.members[1:]:
            member.process.start()
        found = await watch.until(lambda result: len(result.verdict.facts.alive) == 3 and result.seen.fenced)
        assert reasons(found, *THREE) == [VOTES] * 3
        assert watch.orders == []


async def test_alarms_belong_to_the_member_that_they_name(etcd_cluster: EtcdCluster) -> None:
    await alarm(etcd_cluster, rpc.NOSPACE, id_of(etcd_cluster, "server-2"))
    await alarm(etcd_cluster, rpc.CORRUPT, id_of(etcd_cluster, "server-3"))
    await alarm(etcd_cluster, rpc.NOSPACE, 77)
    async with watching(etcd_cluster) as watch:
        result = await watch.one_pass()
        assert standing(result, "server-1").reason == VOTES
        assert standing(result, "server-2").message == "etcd member has status errors: alarm NOSPACE"
        assert standing(result, "server-3").message == "etcd member has status errors: alarm CORRUPT"
        assert result.verdict.quorum.why_not_add.startswith("alarm ")
        index = result.verdict.facts.index
        assert (await watch.one_pass()).verdict.facts.index == index  # no Alarm GET: that would be a raft write


async def test_a_wrong_place_to_ask_the_leader_is_named_while_somebody_would_be_told(etcd_cluster: EtcdCluster) -> None:
    hung = follower(etcd_cluster)
    closed = f"https://127.0.0.1:{free_ports(1)[0]}"
    async with watching(etcd_cluster, http_url=closed) as watch:
        assert (await watch.one_pass()).seen.endpoint_troubles == {}
        hung.process.pause()
        told = (await watch.one_pass()).seen.endpoint_troubles["etcdmanager.httpUrl"]
        assert closed in told or "127.0.0.1" in told
        assert "onnect" in told
        hung.process.resume()


async def test_ghosts_strangers_and_namesakes(etcd_cluster: EtcdCluster) -> None:
    async with watching(etcd_cluster) as watch:
        watch.named = ["server-1", "nobody"]
        result = await watch.one_pass()
        assert reasons(result, "server-1", "nobody") == [VOTES, "NotAMember"]
        assert sorted(one.name for one in ghosts(result.seen)) == ["server-2", "server-3"]
        renamed = etcd_cluster.rename(etcd_cluster.members[2], "server-1")
        etcd_cluster.wait_healthy(renamed)
        twice = await watch.until(lambda result: len(result.verdict.facts.alive) == 3)
        assert standing(twice, "server-1").reason == "MembershipMismatch"
        assert standing(twice, "server-1").message == "2 members are named server-1"
        watch.named = ["server-3"]
        assert reasons(await watch.one_pass(), "server-3") == ["NotAMember"]


@pytest.mark.usefixtures("_programs")
async def test_a_pass_over_five_members_is_cheap(tmp_path_factory: pytest.TempPathFactory) -> None:
    cluster = EtcdCluster.started(tmp_path_factory.mktemp("etcd") / "five", 5)
    try:
        async with watching(cluster) as watch:
            await watch.until(lambda result: len(result.verdict.facts.alive) == 5)
            begin, passes = time.process_time(), 10
            for _ in range(passes):
                await watch.one_pass()
            assert (time.process_time() - begin) / passes < 0.1
            assert watch.orders == []
    finally:
        cluster.remove()
