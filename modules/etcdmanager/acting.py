"""Beside the leader: look, judge, look again, order once, look again.

The second look is the fresh probe, and its member list, which a majority confirmed, is the fence: what is not wanted
any more by then is not done. The third shows what came of it in the same pass, also when the order got no answer.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from beehive.world import World
from modules.etcdmanager.changes import DONE, Changes, Outcome
from modules.etcdmanager.config import Config
from modules.etcdmanager.etcd import Etcd, Look
from modules.etcdmanager.learners import Patience
from modules.etcdmanager.members import Memory, Verdict, judge
from modules.etcdmanager.orders import Evict, MoveLeader, Order, Promote, Remove
from modules.etcdmanager.records import merged, read_k3s, read_own
from modules.etcdmanager.sight import Seen, trouble_of

_LOOKS_AFTER_A_PROMOTION = 10

_log = logging.getLogger("beehive.etcdmanager")


class Result(Struct, frozen=True):
    """What a pass saw, judged, and did."""

    seen: Seen
    verdict: Verdict
    order: Order | None = None
    outcome: Outcome | None = None
    troubles: tuple[str, ...] = ()


class Actor:
    """One cluster, seen pass by pass."""

    def __init__(self, config: Config, world: World, etcd: Etcd) -> None:
        self._config = config
        self._world = world
        self._etcd = etcd
        self._changes = Changes(config, etcd.channels)
        self.patience = Patience(float(config.stall), config.promotion_lag)
        self.memory = Memory()

    async def look(self, nodes: Mapping[str, str], wishes: frozenset[str]) -> tuple[Look, Verdict, tuple[str, ...]]:
        """Look and judge. Nothing is remembered yet. Raises Unavailable."""
        look = await self._etcd.look(nodes, wishes, self.memory.leaving)
        now, listing = self._world.now(), look.listing
        k3s, damaged = read_k3s(listing.k3s, now) if listing.k3s is not None else ({}, "")
        own, damaged_own = read_own(listing.own, now)
        known = msgspec.structs.replace(self.memory, clocks=merged(self.memory.clocks, k3s, own))
        return (
            look, judge(look.seen, known, now, self.patience), tuple(one for one in (damaged, damaged_own) if one)
        )  # fmt: skip

    async def observe(self, look: Look, verdict: Verdict, troubles: tuple[str, ...]) -> Result:
        """Only remember."""
        self.memory = verdict.memory
        return Result(look.seen, verdict, troubles=troubles)

    async def act(self, look: Look, verdict: Verdict, troubles: tuple[str, ...], may: Callable[[], bool]) -> Result:
        """Keep the records, and carry out at most one order. `may` is asked just before."""
        if kept := await self._keep(look, verdict):
            troubles = (*troubles, f"progress record not written: {kept}")
        if verdict.order is None:
            return await self.observe(look, verdict, troubles)
        again, fresh, _ = await self.look(look.seen.nodes, look.seen.wishes)
        leader = next((one for one in again.seen.members if one.id == fresh.facts.leader), None)
        if fresh.order != verdict.order or leader is None or not again.seen.fenced or not may():
            return await self.observe(again, fresh, troubles)
        outcome = await self._changes.carry_out(verdict.order, leader)
        self._tell(verdict.order, outcome)
        if isinstance(verdict.order, Evict | Remove) and outcome.kind in (DONE, "unknown"):
            self.memory = msgspec.structs.replace(self.memory, leaving=self.memory.leaving | {verdict.order.id})
        return await self._afterwards(look, verdict.order, outcome, troubles)

    async def _afterwards(self, look: Look, order: Order, outcome: Outcome, troubles: tuple[str, ...]) -> Result:
        last, verdict, _ = await self.look(look.seen.nodes, look.seen.wishes)
        promoted = outcome.kind == DONE and isinstance(order, Promote)
        for _ in range(_LOOKS_AFTER_A_PROMOTION):
            if not promoted or _votes(order.id, last.seen):
                break
            await asyncio.sleep(0.1)
            last, verdict, _ = await self.look(look.seen.nodes, look.seen.wishes)
        self.memory = verdict.memory
        if outcome.kind not in (DONE, "wait"):
            troubles = (*troubles, f"{spoken(order)}: {outcome.kind}: {outcome.text}")
        return Result(last.seen, verdict, order, outcome, troubles)

    async def _keep(self, look: Look, verdict: Verdict) -> str:
        leader = next((one for one in look.seen.members if one.id == verdict.facts.leader), None)
        if leader is None or not leader.client_urls or not look.listing.fenced or not verdict.facts.has_quorum:
            return ""
        return await self._changes.keep(verdict.memory.clocks, look.listing, leader)

    @staticmethod
    def _tell(order: Order, outcome: Outcome) -> None:
        level = logging.INFO if outcome.kind in (DONE, "wait") else logging.WARNING
        _log.log(level, spoken(order), extra={"outcome": outcome.kind, "reason": outcome.text})


def _votes(member_id: int, seen: Seen) -> bool:
    """List and member agree that it is a voter."""
    member = next((one for one in seen.members if one.id == member_id), None)
    return member is None or (
        not member.is_learner and not trouble_of(member, seen) and not seen.probes[member_id].is_learner
    )


def spoken(order: Order) -> str:
    """For people."""
    match order:
        case Promote(name=name):
            return f"promote learner {name} to voter"
        case Evict(name=name):
            return f"remove learner {name}, which made no progress"
        case Remove(name=name):
            return f"remove member {name}, as its Node asks"
        case MoveLeader(name=name):
            return f"let {name} lead, for the leader is to be removed"
