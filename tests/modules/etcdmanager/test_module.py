"""The shell of etcdmanager: when it looks, what it writes, what it says when etcd is away."""

import asyncio

import pytest

from beehive.api.meta import ObjectMeta
from beehive.api.node import ETCD_LABEL, Node, NodeCondition, NodeStatus
from beehive.config import Duration
from beehive.errors import Unavailable
from beehive.messages.etcd import MembershipJudged
from beehive.messages.objects import Away, LeadershipChanged, ListNodes, Nodes, Patched, PatchNodeCondition
from beehive.world import World
from modules.etcdmanager import module as module_under_test
from modules.etcdmanager.config import Config
from modules.etcdmanager.members import NOT_A_MEMBER, VOTER, Member, Probe
from modules.etcdmanager.module import EtcdManager, due
from tests.fakes.alone import Peers, alone

pytestmark = pytest.mark.virtual_time

CONFIG = Config(endpoints=("https://127.0.0.1:1",))


class Scripted:
    """In place of etcd: one voter, as long as `trouble` is empty. The real one: tests/real/test_etcdmanager.py."""

    trouble = ""

    def __init__(self, _: Config) -> None:
        """As Etcd."""

    async def members(self) -> tuple[Member, ...]:
        if self.trouble:
            raise Unavailable(self.trouble)
        return (Member(1, "m-1", ("https://x:1",)),)

    async def probe(self, member: Member) -> Probe:
        return Probe(member_id=member.id, leader=1, term=2)

    async def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_under_test, "Etcd", Scripted)
    monkeypatch.setattr(Scripted, "trouble", "")


def node(name: str, member: str, *conditions: NodeCondition, role: str = "true") -> Node:
    metadata = ObjectMeta(name=name, labels={ETCD_LABEL: role}, annotations={"etcd.k3s.cattle.io/node-name": member})
    return Node(metadata=metadata, status=NodeStatus(conditions=conditions))


def everything_is_written(peers: Peers, *nodes: Node) -> None:
    peers.answer(ListNodes, lambda _: Nodes(nodes))
    peers.answer(PatchNodeCondition, lambda _: Patched())


def written(peers: Peers) -> list[tuple[str, str, str]]:
    return [(one.name, one.condition.status, one.condition.reason) for one in peers.all_of(PatchNodeCondition)]


async def test_only_the_holder_of_the_lease_looks(world: World) -> None:
    async with alone(EtcdManager(CONFIG, world), world=world) as peers:
        everything_is_written(peers, node("server-1", "m-1"))
        await asyncio.sleep(60)
        assert peers.said == []
        peers.publish(LeadershipChanged(until=asyncio.get_running_loop().time() + 20))
        await peers.heard(MembershipJudged)
        await asyncio.sleep(100)
        assert len(peers.all_of(MembershipJudged)) <= 2


async def test_conditions_are_written_once_and_again_only_as_a_heartbeat(world: World) -> None:
    async with alone(EtcdManager(CONFIG, world), world=world) as peers:
        everything_is_written(peers, node("server-1", "m-1"), node("gone", "m-9"), node("worker", "m-1", role="false"))
        peers.publish(LeadershipChanged(until=1e9))
        await asyncio.sleep(290)
        assert written(peers) == [("server-1", "True", "MemberNotLearner"), ("gone", "False", "NotAMember")]
        await asyncio.sleep(30)
        assert len(written(peers)) == 4
        first, _, again, _ = peers.all_of(PatchNodeCondition)
        assert first.condition.last_transition_time == again.condition.last_transition_time
        assert first.condition.last_heartbeat_time != again.condition.last_heartbeat_time


async def test_a_write_that_failed_is_tried_in_the_next_pass(world: World) -> None:
    async with alone(EtcdManager(CONFIG, world), world=world) as peers:
        everything_is_written(peers, node("server-1", "m-1"))
        peers.answer(PatchNodeCondition, lambda _: Away("503"))
        peers.publish(LeadershipChanged(until=1e9))
        await asyncio.sleep(40)
        assert len(written(peers)) == 3


async def test_an_etcd_that_is_away_is_waited_for_visibly_and_writes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scripted, "trouble", "https://127.0.0.1:1 did not answer in 2 s")
    async with alone(EtcdManager(CONFIG, world), world=world) as peers:
        everything_is_written(peers, node("server-1", "m-1"))
        peers.publish(LeadershipChanged(until=1e9))
        await asyncio.sleep(20)
        assert peers.module.waits_for == "etcd: https://127.0.0.1:1 did not answer in 2 s"
        assert written(peers) == []
        monkeypatch.setattr(Scripted, "trouble", "")
        await peers.heard(MembershipJudged)
        assert peers.module.waits_for == ""


async def test_without_endpoints_it_does_nothing(world: World) -> None:
    async with alone(EtcdManager(Config(), world), world=world) as peers:
        peers.publish(LeadershipChanged(until=1e9))
        await asyncio.sleep(1000)
        assert peers.said == []


class TestDue:
    """When a condition is written."""

    OLD = NodeCondition(
        type="EtcdIsVoter", status="True", reason=VOTER.reason, message=VOTER.message,
        last_heartbeat_time="2026-01-01T00:00:00Z", last_transition_time="2025-01-01T00:00:00Z",
    )  # fmt: skip
    START = 1_767_225_600.0

    def test_not_while_nothing_changed_and_the_heartbeat_is_young(self) -> None:
        assert due(VOTER, self.OLD, self.START + 299, 300) is None

    def test_as_a_heartbeat_it_keeps_the_transition_time(self) -> None:
        new = due(VOTER, self.OLD, self.START + 300, 300)
        assert new is not None
        assert (new.last_heartbeat_time, new.last_transition_time) == ("2026-01-01T00:05:00Z", "2025-01-01T00:00:00Z")

    def test_a_flip_moves_the_transition_time(self) -> None:
        new = due(NOT_A_MEMBER, self.OLD, self.START + 60, 300)
        assert new is not None
        assert (new.status, new.last_transition_time) == ("False", "2026-01-01T00:01:00Z")

    def test_the_first_one_has_both_times(self) -> None:
        new = due(VOTER, None, self.START, 300)
        assert new is not None
        assert new.last_heartbeat_time == new.last_transition_time == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("seconds", [1, 3600 * 24])
async def test_a_thousand_passes_without_a_change_write_nothing_but_heartbeats(world: World, seconds: int) -> None:
    config = Config(endpoints=("https://x:1",), period=Duration(15), heartbeat=Duration(300))
    async with alone(EtcdManager(config, world), world=world) as peers:
        everything_is_written(peers, node("server-1", "m-1"))
        peers.publish(LeadershipChanged(until=1e9))
        await asyncio.sleep(seconds)
        assert len(written(peers)) == 1 + (seconds - 1) // 300
