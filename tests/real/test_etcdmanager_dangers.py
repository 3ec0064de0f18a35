"""What crashes members or clusters (spec/k3s-etcd.md 12b.3), tried on real etcd: none of it happens through us."""

import shutil
from collections.abc import Iterator

import pytest
from aetcd import rpc

from modules.etcdmanager import changes as changes_under_test
from modules.etcdmanager.acting import Result
from modules.etcdmanager.changes import Changes, Outcome
from modules.etcdmanager.channels import Channels
from modules.etcdmanager.learners import LONGEST_SNAPSHOT
from modules.etcdmanager.members import NOT_A_MEMBER
from modules.etcdmanager.orders import Evict, MoveLeader, Order, Promote, Remove
from modules.etcdmanager.sight import Member
from tests.real.running.etcd import EtcdCluster
from tests.real.running.processes import wait_until
from tests.real.throttle import Throttle
from tests.real.watching import Watch, config, follower, id_of, reasons, standing, watching

SNAPSHOTS = ("--snapshot-count=20", "--snapshot-catchup-entries=5")
"""So that a new learner gets a snapshot instead of the log."""
VOTES = "MemberNotLearner"


@pytest.fixture
def one_voter(_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """A cluster of one, that sends snapshots early."""
    cluster = EtcdCluster.started(tmp_path_factory.mktemp("etcd") / "one", 1, flags=SNAPSHOTS)
    yield cluster
    cluster.remove()


async def put(cluster: EtcdCluster, times: int, size: int) -> None:
    """So many entries of so many bytes."""
    channels = Channels(config(cluster))
    for number in range(times):
        request = rpc.PutRequest(key=b"filler-%d" % number, value=b"x" * size)
        await channels.call(cluster.members[0].client_url, rpc.KVStub, "Put", request, 5)
    await channels.close()


def removed(result: Result) -> bool:
    """etcd itself refuses (`unhealthy cluster`) until its peers were connected for 5 s."""
    return isinstance(result.order, Remove) and result.outcome == Outcome("done")


async def test_nobody_asks_a_removed_member_for_its_status_also_not_the_leader(etcd_cluster: EtcdCluster) -> None:
    leader = etcd_cluster.leader()
    assert leader is not None
    async with watching(etcd_cluster) as watch:
        await watch.one_pass()
        watch.wishes = frozenset({f"node-of-{leader.name}"})
        first = await watch.one_pass()
        assert isinstance(first.order, MoveLeader)
        done = await watch.until(removed)
        assert reasons(done, leader.name) == ["NotAMember"]
        for _ in range(3):
            await watch.one_pass()
        later = await watch.one_pass()
        assert later.verdict.wishes.fulfilled == {f"node-of-{leader.name}": leader.name}
        done_orders = [(type(order), kind) for order, kind in watch.orders if kind != "refused"]
        assert done_orders == [(MoveLeader, "done"), (Remove, "done")]
        wait_until(lambda: not leader.process.running, 10, "the removed member ended")
        assert "panic" not in leader.process.tail(50_000)
        assert "failed to find local ID" not in leader.process.tail(50_000)


async def test_a_healthy_voter_is_not_removed_beside_a_hung_one(etcd_cluster: EtcdCluster) -> None:
    """etcd 3.6 itself would do it: it takes a hung peer for an active one."""
    hung = follower(etcd_cluster)
    healthy = next(one for one in etcd_cluster.members if one not in (hung, etcd_cluster.leader()))
    hung.process.pause()
    async with watching(etcd_cluster) as watch:
        watch.wishes = frozenset({f"node-of-{healthy.name}"})
        await watch.one_pass()
        result = await watch.one_pass()
        why = "of the 2 voters that would stay 1 are healthy, 2 are needed"
        assert result.verdict.wishes.refused == {f"node-of-{healthy.name}": why}
        assert watch.orders == []
        assert result.verdict.facts.has_quorum


@pytest.mark.usefixtures("_programs")
async def test_two_voters_with_one_dead_get_no_order(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The order would hang, and be carried out when the dead one comes back, which would be thrown out."""
    cluster = EtcdCluster.started(tmp_path_factory.mktemp("etcd") / "two", 2)
    try:
        dead = follower(cluster)
        async with watching(cluster) as watch:
            await watch.one_pass()
            dead.process.kill()
            watch.wishes = frozenset({"node-of-server-1", "node-of-server-2"})
            result = await watch.until(lambda result: not result.verdict.facts.leader)
            assert set(result.verdict.wishes.refused) == watch.wishes
            cluster.start(dead)
            watch.wishes = frozenset()
            back = await watch.until(lambda result: len(result.verdict.facts.alive) == 2)
            assert reasons(back, "server-1", "server-2") == [VOTES] * 2
            assert watch.orders == []
    finally:
        cluster.remove()


async def test_an_order_whose_leader_falls_silent_is_listed_again_not_sent_again(
    etcd_cluster: EtcdCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_under_test, "DEADLINE", 1.5)
    victim = follower(etcd_cluster)
    leader = etcd_cluster.leader()
    assert leader is not None
    send = Changes.carry_out

    async def hangs(self: Changes, order: Order, to: Member) -> Outcome:
        leader.process.pause()
        return await send(self, order, to)

    async with watching(etcd_cluster) as watch:
        await watch.one_pass()
        watch.wishes = frozenset({f"node-of-{victim.name}"})
        monkeypatch.setattr(Changes, "carry_out", hangs)
        result = await watch.one_pass()
        monkeypatch.setattr(Changes, "carry_out", send)
        assert isinstance(result.order, Remove)
        assert result.outcome is not None
        assert result.outcome.kind == "unknown"
        # With the leader hung, nothing may be removed any more: of two voters that answer both are needed.
        later = await watch.until(lambda result: result.seen.fenced and result.verdict.facts.has_quorum)
        assert later.verdict.memory.leaving == frozenset()
        assert list(later.verdict.wishes.refused) == [f"node-of-{victim.name}"]
        assert [kind for _, kind in watch.orders] == ["unknown"]
        leader.process.resume()
        watch.wishes = frozenset()
        back = await watch.until(lambda result: len(result.verdict.facts.alive) == len(result.seen.members))
        assert reasons(back, leader.name) == [VOTES]
        assert "panic" not in victim.process.tail(50_000)


async def test_a_learner_that_is_removed_while_it_is_promoted_is_gone_and_nothing_more(
    one_voter: EtcdCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Changes.carry_out
    learner = one_voter.add_learner("server-2")
    one_voter.wait_healthy(learner)

    async def too_late(self: Changes, order: Order, to: Member) -> Outcome:
        one_voter.ctl("member", "remove", f"{order.id:x}")
        return await send(self, order, to)

    monkeypatch.setattr(Changes, "carry_out", too_late)
    async with watching(one_voter) as watch:
        result = await watch.until(lambda result: result.order)
        assert result.outcome == Outcome("refused", "not_found: etcdserver: member not found")
        assert reasons(result, "server-1", "server-2") == [VOTES, "NotAMember"]
        later = await watch.one_pass()
        assert later.order is None
        assert len(watch.orders) == 1


async def test_a_learner_that_joins_an_idle_cluster_by_a_snapshot_is_freed(one_voter: EtcdCluster) -> None:
    """It would hang until something is committed; the record of its progress is what is committed."""
    await put(one_voter, 100, 10)
    learner = one_voter.add_learner("server-2")
    async with watching(one_voter) as watch:
        done = await watch.until(lambda result: result.order)
        assert isinstance(done.order, Promote)
        assert reasons(done, "server-1", "server-2") == [VOTES] * 2
        one_voter.wait_healthy(learner)


async def test_a_long_snapshot_is_not_evicted(one_voter: EtcdCluster) -> None:
    await put(one_voter, 60, 200_000)
    throttle = Throttle(rate=3_000_000)
    try:
        one_voter.add_learner("server-2", throttle.through)
        async with watching(one_voter) as watch:
            in_flight = await watch.until(lambda result: reasons(result, "server-2") == ["MemberIsLearner"])
            assert in_flight.seen.progress is not None
            assert in_flight.seen.progress.snapshot
            assert "a snapshot is on its way to it" in standing(in_flight, "server-2").message
            for _ in range(3):
                again = await watch.one_pass(400)
                if again.seen.progress and again.seen.progress.snapshot:
                    assert again.order is None
            assert watch.now - 1_800_000_000 < LONGEST_SNAPSHOT
            throttle.rate = 1e9
            done = await watch.until(lambda result: result.order)
            assert isinstance(done.order, Promote)
            assert throttle.passed > 10_000_000
    finally:
        throttle.close()


async def test_two_observers_at_once_promote_once(one_voter: EtcdCluster) -> None:
    learner = one_voter.add_learner("server-2")
    one_voter.wait_healthy(learner)
    async with watching(one_voter) as first, watching(one_voter) as second:
        for watch in (first, second, first, second):
            await watch.one_pass()
        assert len(first.orders) + len(second.orders) == 1


async def _evicted(watch: Watch) -> Evict:
    await watch.one_pass()
    await watch.one_pass(300)
    result = await watch.one_pass(1)
    assert isinstance(result.order, Evict)
    return result.order


@pytest.mark.usefixtures("_programs")
async def test_an_old_etcd_is_handled_alike(tmp_path_factory: pytest.TempPathFactory) -> None:
    """etcd 3.4.23 answers a linearizable list locally, and does not say whose a CORRUPT is."""
    program = shutil.which("etcd")
    assert program is not None, "apt-get install etcd-server"
    cluster = EtcdCluster.started(tmp_path_factory.mktemp("etcd") / "old", 1, program)
    try:
        learner = cluster.add_learner("server-2")
        async with watching(cluster) as watch:
            done = await watch.until(lambda result: result.order)
            assert isinstance(done.order, Promote)
            assert reasons(done, "server-1", "server-2") == [VOTES] * 2
            assert done.seen.probes[id_of(cluster, "server-2")].version == "3.4.23"
            learner.process.pause()
            await watch.one_pass()
            hung = await watch.one_pass()
            assert standing(hung, "server-2").reason in ("Unhealthy", "LeaderMissing")
            assert hung.verdict.quorum.critical != ()
            learner.process.resume()
            await watch.until(lambda result: len(result.verdict.facts.alive) == 2 and result.seen.fenced)
            watch.wishes = frozenset({"node-of-server-2"})
            done = await watch.until(removed)
            assert reasons(done, "server-1", "server-2") == [VOTES, "NotAMember"]
            wait_until(lambda: not learner.process.running, 10, "the removed member ended")
            assert "panic" not in learner.process.tail(50_000)
    finally:
        cluster.remove()


async def test_a_dead_learner_of_one_voter_is_evicted_and_never_promoted(one_voter: EtcdCluster) -> None:
    """etcd would promote it, for it had caught up, and lose its leader at once."""
    learner = one_voter.add_learner("server-2")
    one_voter.wait_healthy(learner)
    learner.process.kill()
    async with watching(one_voter) as watch:
        order = await _evicted(watch)
        assert order.name == "server-2"
        assert [type(one) for one, _ in watch.orders] == [Evict]
        assert (await watch.one_pass()).verdict.quorum.why_not_add == ""


async def test_one_that_never_starts_has_no_name_and_is_evicted_too(one_voter: EtcdCluster) -> None:
    learner = one_voter.add_learner("server-2")
    learner.process.kill()
    async with watching(one_voter) as watch:
        first = await watch.one_pass()
        unstarted = [one for one in first.seen.members if one.is_learner]
        if unstarted[0].name == "":
            assert standing(first, "server-2") == NOT_A_MEMBER
        assert first.verdict.quorum.why_not_add.endswith("members join one at a time")
        assert (await watch.one_pass(300)).order is None
        evicted = await watch.one_pass(1)
        assert evicted.order == Evict(unstarted[0].id, unstarted[0].name or f"{unstarted[0].id:x} (never started)")
        assert evicted.verdict.quorum.why_not_add == ""
