"""A scripted etcd cluster in place of the port. What it says is what real etcd said in the same place; the same
scenarios run on real members in tests/real/test_etcdmanager_cluster.py."""

from collections.abc import Mapping
from types import SimpleNamespace

import msgspec
import pytest

from beehive.errors import Unavailable
from modules.etcdmanager import acting
from modules.etcdmanager import module as shell
from modules.etcdmanager.changes import DONE, Outcome
from modules.etcdmanager.config import Config
from modules.etcdmanager.etcd import Listing, Look
from modules.etcdmanager.learners import Clock
from modules.etcdmanager.orders import Evict, Order, Promote, Remove
from modules.etcdmanager.records import key, write_k3s, write_own
from modules.etcdmanager.sight import Member, Probe, Progress, Seen


class ScriptedCluster:
    """Voters `m-1` … `m-n`; the first one leads. Both halves of the port, and the outcome of orders, in one."""

    def __init__(self, size: int = 3) -> None:
        self.members: dict[int, Member] = {}
        self.probes: dict[int, Probe] = {}
        """Instead of a good answer."""
        self.leader = 1
        self.term = 2
        self.index = 100
        self.progress: Progress | None = None
        self.trouble = ""
        """No endpoint answers."""
        self.fenced = True
        self.local = 1
        """The member at `localEndpoint`."""
        self.outcomes: list[Outcome] = []
        """Of the next orders; without: done."""
        self.orders: list[Order] = []
        self.probed: list[frozenset[int]] = []
        self.looks = 0
        self.k3s: bytes | None = None
        self.own: dict[str, bytes] = {}
        self.endpoint_troubles: dict[str, str] = {}
        self.kept = 0
        self.channels = SimpleNamespace(reloads=0)
        for number in range(1, size + 1):
            self.add(number)

    def add(self, number: int, *, learner: bool = False, name: str | None = None) -> None:
        self.members[number] = Member(number, name or f"m-{number}", ("https://x:1",), learner)

    # ---- as Etcd -----------------------------------------------------------------------------------------------

    async def look(self, nodes: Mapping[str, str], wishes: frozenset[str], leaving: frozenset[int]) -> Look:
        self.looks += 1
        if self.trouble:
            raise Unavailable(self.trouble)
        asked = [one for one in self.members.values() if one.client_urls and (self.fenced or one.id not in leaving)]
        self.probed.append(frozenset(one.id for one in asked))
        members = tuple(self.members.values())
        probes = {one.id: self.probes.get(one.id) or self._good(one) for one in asked}
        progress = self.progress if any(one.is_learner for one in members) else None
        seen = Seen(members, probes, nodes, progress, wishes, 0, dict(self.endpoint_troubles), self.fenced)
        return Look(seen, Listing(members, 0, self.fenced, self.k3s, 1, dict(self.own)))

    def _good(self, member: Member) -> Probe:
        return Probe(
            member_id=member.id, leader=self.leader, term=self.term, is_learner=member.is_learner, index=self.index,
            applied=self.index,
        )  # fmt: skip

    async def local_member(self) -> int:
        return self.local

    async def close(self) -> None:
        """Nothing is open."""

    # ---- as Changes --------------------------------------------------------------------------------------------

    async def carry_out(self, order: Order, leader: Member) -> Outcome:
        assert leader.id == self.leader
        self.orders.append(order)
        outcome = self.outcomes.pop(0) if self.outcomes else Outcome(DONE)
        if outcome.kind == DONE:
            self.apply(order)
        return outcome

    def apply(self, order: Order) -> None:
        if isinstance(order, Promote):
            self.members[order.id] = msgspec.structs.replace(self.members[order.id], is_learner=False)
        elif isinstance(order, Evict | Remove):
            del self.members[order.id]
        else:
            self.leader, self.term = order.id, self.term + 1

    async def keep(self, clocks: Mapping[int, Clock], listing: Listing, leader: Member) -> str:
        self.own = {key(one): write_own(clock) for one, clock in clocks.items()}
        for one, clock in clocks.items():
            self.k3s = write_k3s(one, clock)
            self.kept += 1
        return ""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ScriptedCluster:
    """It stands in for the port."""
    made = ScriptedCluster()

    def etcd(_: Config) -> ScriptedCluster:
        return made

    def changes(_: Config, __: object) -> ScriptedCluster:
        return made

    monkeypatch.setattr(shell, "Etcd", etcd)
    monkeypatch.setattr(acting, "Changes", changes)
    return made
