"""What happens to members, one thing after the other: the conditions that kube-apiserver then holds, how many writes
of conditions that cost (as kube-apiserver counts them), and how many orders to etcd."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from aetcd import rpc

from modules.etcdmanager.channels import Channels
from tests.real.etcd_place import EtcdPlace, counted
from tests.real.running.apiserver import ApiServer
from tests.real.running.etcd import EtcdCluster, Identity, Member
from tests.real.watching import config, id_of

VOTES, SICK, NOBODY, MISSING = "MemberNotLearner", "Unhealthy", "NotAMember", "LeaderMissing"
THREE = ("server-1", "server-2", "server-3")


@pytest.fixture
def place(own_apiserver: ApiServer, etcd_cluster: EtcdCluster, tmp_path: Path) -> Iterator[EtcdPlace]:
    made = EtcdPlace(own_apiserver, etcd_cluster, tmp_path)
    try:
        yield made
    finally:
        made.end()


class Walk:
    """Rows: what is done, what is then seen, and what it cost."""

    def __init__(self, place: EtcdPlace) -> None:
        self.place = place
        self.table: list[tuple[str, int, int]] = []

    def row(
        self, what: str, act: Callable[[], object], wanted: dict[str, str], writes: range, orders: int = 0
    ) -> None:  # fmt: skip
        """Do it; `wanted` must come about and last, within so many writes and exactly so many orders."""
        before, ordered = self.place.writes(), self.place.orders()
        act()
        self.place.wait({f"node-of-{name}": reason for name, reason in wanted.items()}, 60)
        self.place.settle()
        self.place.wait({f"node-of-{name}": reason for name, reason in wanted.items()}, 1)
        cost = (what, self.place.writes() - before, self.place.orders() - ordered)
        self.table.append(cost)
        assert cost[1] in writes, cost
        assert cost[2] == orders, cost


def exactly(number: int) -> range:
    return range(number, number + 1)


def all_vote(*others: str) -> dict[str, str]:
    return dict.fromkeys((*THREE, *others), VOTES)


def test_what_happens_to_members_is_seen_through_kube_apiserver_at_its_price(place: EtcdPlace) -> None:
    cluster, walk = place.cluster, Walk(place)
    for name in (*THREE, "nobody"):
        place.add_node(f"node-of-{name}", name)
    follower, own = _follower(cluster), cluster.issue("cloud")
    walk.row("begin", lambda: place.start(place.cloud(identity=own)), {**all_vote(), "nobody": NOBODY}, exactly(4))
    walk.row(
        "a Node whose member is gone goes NotAMember once", lambda: place.settle(6), {**all_vote(), "nobody": NOBODY},
        exactly(0),
    )  # fmt: skip
    place.server.kubectl("delete", "node", "node-of-nobody")
    walk.row("a voter hangs", follower.process.pause, {**all_vote(), follower.name: SICK}, exactly(1))
    walk.row("it goes on", follower.process.resume, all_vote(), exactly(1))
    walk.row("a voter dies", follower.process.kill, {**all_vote(), follower.name: SICK}, range(1, 3))
    walk.row("it starts again", lambda: cluster.start(follower), all_vote(), range(1, 4))
    place.add_node("node-of-server-4", "server-4")
    learner: list[Member] = []
    walk.row(
        "a learner joins and is promoted", lambda: learner.append(cluster.add_learner("server-4")),
        all_vote("server-4"), range(1, 4), orders=1,
    )  # fmt: skip
    leader = cluster.leader()
    assert leader is not None
    late = {**all_vote(), "server-4": NOBODY}
    # At most: all Unknown until the election, all True again, the dead one Unhealthy.
    walk.row("the leader dies", leader.process.kill, {**all_vote("server-4"), leader.name: SICK}, range(1, 10))
    walk.row("it starts again", lambda: cluster.start(leader), all_vote("server-4"), range(1, 4))
    walk.row(
        "a member is removed by annotation", lambda: _ask_removal(place, "server-4"),
        late, exactly(1), orders=1 + (cluster.leader() is learner[0]),
    )  # fmt: skip
    number = id_of(cluster, "server-2")
    walk.row("an alarm is raised", lambda: _alarm(cluster, "ACTIVATE", number), {**late, "server-2": SICK}, exactly(1))
    walk.row("it is disarmed", lambda: _alarm(cluster, "DEACTIVATE", number), late, exactly(1))
    keys = _Keys(own, cluster.stranger)
    walk.row("our certificate is another CA's", keys.wrong, dict.fromkeys(late, "ObserverStale"), exactly(4))
    walk.row("it is replaced in place", keys.right, late, exactly(4))
    others = [one for one in cluster.members[:3] if one is not cluster.leader()]
    walk.row(
        "the quorum is lost", lambda: _each(one.process.kill for one in others),
        {**dict.fromkeys(THREE, MISSING), "server-4": MISSING}, range(4, 7),
    )  # fmt: skip
    walk.row(
        "it is regained", lambda: _each(one.process.start for one in others), late, range(4, 10),
    )  # fmt: skip


def _ask_removal(place: EtcdPlace, name: str) -> None:
    place.server.kubectl("annotate", "node", f"node-of-{name}", "etcd.k3s.cattle.io/remove=true")


def _alarm(cluster: EtcdCluster, action: str, member_id: int) -> None:
    """As a member whose disk is full would."""

    async def ask() -> None:
        channels = Channels(config(cluster))
        request = rpc.AlarmRequest(action=getattr(rpc.AlarmRequest, action), memberID=member_id, alarm=rpc.NOSPACE)
        leader = cluster.leader()
        assert leader is not None
        await channels.call(leader.client_url, rpc.MaintenanceStub, "Alarm", request, 5)
        await channels.close()

    asyncio.run(ask())


class _Keys:
    """The files of the cloud's own certificate, replaced in place."""

    def __init__(self, own: Identity, stranger: Identity) -> None:
        self._files = (own.certificate, own.key)
        self._good = [one.read_bytes() for one in self._files]
        self._bad = [one.read_bytes() for one in (stranger.certificate, stranger.key)]

    def wrong(self) -> None:
        self._write(self._bad)

    def right(self) -> None:
        self._write(self._good)

    def _write(self, contents: list[bytes]) -> None:
        for file, content in zip(self._files, contents, strict=True):
            file.write_bytes(content)


def _each(acts: Iterable[Callable[[], object]]) -> None:
    for act in acts:
        act()


def _follower(cluster: EtcdCluster) -> Member:
    leader = cluster.leader()
    return next(one for one in cluster.members if one is not leader)


def test_one_process_per_server_acts_where_its_own_member_leads(place: EtcdPlace) -> None:
    cluster = place.cluster
    for name in THREE:
        place.add_node(f"node-of-{name}", name)
    for member in cluster.members:
        _begin_beside(place, member)
    voters = {f"node-of-{name}": VOTES for name in THREE}
    place.wait(voters)
    place.settle()
    leader = cluster.leader()
    assert leader is not None
    written = {one.directory.name: counted(one)["conditions_written"] for one in place.clouds}
    assert {name for name, number in written.items() if number} == {leader.name}
    place.add_node("node-of-server-4", "server-4")
    learner = cluster.add_learner("server-4")
    voters["node-of-server-4"] = VOTES
    place.wait(voters)
    place.settle()
    assert place.orders() == 1, "three processes look, one promotes"
    cluster.wait_healthy(learner)
    _begin_beside(place, learner)
    leader.process.kill()
    place.wait({**voters, f"node-of-{leader.name}": SICK}, 60)
    assert cluster.leader() is not leader
    cluster.start(leader)
    place.wait(voters, 60)
    place.settle()
    assert place.orders() == 1


def _begin_beside(place: EtcdPlace, member: Member) -> None:
    place.start(place.cloud(member.name, election=False, localEndpoint=member.client_url, heartbeat="2s"))
