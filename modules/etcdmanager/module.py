"""The shell of etcdmanager: a pass every period, and only what changed is written."""

import asyncio
import functools
import logging
from collections.abc import Mapping

from beehive.api.node import ETCD_LABEL, Node
from beehive.errors import NoAnswer, PeerFailed, Unavailable
from beehive.figures import Figures, Values
from beehive.messages.etcd import MembershipJudged
from beehive.messages.objects import (
    LeadershipChanged,
    ListNodes,
)
from beehive.module import Endpoint
from beehive.world import World
from modules.etcdmanager.acting import Actor, Result
from modules.etcdmanager.conditions import MARK, PERIODS_UNTIL_STALE, Found, foreigner, found, is_stale, standings
from modules.etcdmanager.config import OWN_NAME, Config, checked
from modules.etcdmanager.etcd import Etcd
from modules.etcdmanager.figures import METRICS, figures
from modules.etcdmanager.members import LEADER_MISSING, OBSERVER_STALE, Standing, Verdict, recall
from modules.etcdmanager.report import Remarks, report
from modules.etcdmanager.resting import ACCEPTS, ASKS, SENDS
from modules.etcdmanager.writing import Writer

_log = logging.getLogger("beehive.etcdmanager")


class EtcdManager:
    """Probes members, judges, orders, writes conditions."""

    accepts = ACCEPTS
    sends = SENDS
    asks = ASKS

    def __init__(self, config: Config, world: World) -> None:
        self.config = checked(config)
        self.counters: dict[str, int] = dict.fromkeys(("passes", "passes_failed", "conditions_written",
                                                       "reports_written"), 0)  # fmt: skip
        self.gauges: dict[str, float] = {}
        """What the last pass came to, by the names of `figures`; empty while this process does not look."""
        self.figures = Figures(*METRICS.values())
        for name, metric in METRICS.items():
            self.figures.derived(metric, functools.partial(self._gauge, name))
        self._world = world
        self._etcd = Etcd(config)
        self._actor = Actor(config, world, self._etcd)
        self._writer = Writer(config, world, self.counters)
        self._next = world.now()
        self._leads_until = 0.0
        self._seen_at: float | None = None
        """When we last saw the cluster, or began to look, on the loop's clock; None while we do not lead."""
        self._leaderless = 0
        self._said: frozenset[str] = frozenset()

    def _gauge(self, name: str) -> Values:
        found = self.gauges.get(name)
        return {} if found is None else {(): found}

    async def run(self, endpoint: Endpoint) -> None:
        """Until the messages end."""
        endpoint.ready()
        try:
            async for envelope in endpoint.messages(until=self._alarm):
                if envelope is None:
                    self._next = self._world.now() + float(self.config.period)
                    await self._pass(endpoint)
                elif isinstance(envelope.body, LeadershipChanged):
                    if not self._leads():
                        self._writer.forget()  # meanwhile another process of ours may have written
                    self._leads_until = envelope.body.until
        finally:
            await self._etcd.close()

    def _alarm(self) -> float | None:
        return self._next if self.config.endpoints else None

    def _leads(self) -> bool:
        return asyncio.get_running_loop().time() < self._leads_until

    async def _pass(self, endpoint: Endpoint) -> None:
        if not self._leads():
            self._seen_at, self.gauges = None, {}
            self._writer.forget()
            return
        now = asyncio.get_running_loop().time()
        if self._seen_at is None:
            self._seen_at = now
        self.counters["passes"] += 1
        try:
            nodes = {one.metadata.name: one for one in (await endpoint.ask(ListNodes())).items if _has_role(one)}
            try:
                result = await self._look(endpoint, nodes)
            except Unavailable as error:
                await self._blind(endpoint, nodes, error)
                return
            self._seen_at = now
            await self._tell(endpoint, nodes, result)
        except (NoAnswer, PeerFailed) as error:
            self._failed(endpoint, f"the API server's side: {error}")

    def _failed(self, endpoint: Endpoint, why: str) -> None:
        self.counters["passes_failed"] += 1
        endpoint.waiting_for(f"etcd: {why}")
        self._say((f"pass failed: {why}",))

    async def _blind(self, endpoint: Endpoint, nodes: Mapping[str, Node], error: Unavailable) -> None:
        """No endpoint answers. That may be us; after three periods nobody should believe the old conditions."""
        self._failed(endpoint, str(error))
        assert self._seen_at is not None
        age = asyncio.get_running_loop().time() - self._seen_at
        if age < PERIODS_UNTIL_STALE * float(self.config.period):
            return
        seen = {name: found(node) for name, node in nodes.items()}
        if self._may_write(seen) and (not self.config.local_endpoint or self._is_old(seen)):
            await self._writer.conditions(endpoint, nodes.values(), dict.fromkeys(nodes, OBSERVER_STALE))
        sentence = f"nobody has seen the etcd cluster for {age:.0f} s: {error}"
        endpoint.publish(MembershipJudged(critical_nodes=tuple(sorted(nodes)), reason=sentence))

    # ---- one pass ----------------------------------------------------------------------------------------------

    async def _look(self, endpoint: Endpoint, nodes: Mapping[str, Node]) -> Result:
        on_nodes = {name: found(node) for name, node in nodes.items()}
        self._actor.memory = recall(self._actor.memory, standings(on_nodes))
        names = {name: self._member_of(node) for name, node in nodes.items()}
        look, verdict, troubles = await self._actor.look(names, frozenset(filter(
            lambda name: self._asks_removal(nodes[name]), nodes,
        )))  # fmt: skip
        acts = await self._acts(verdict)
        foreign = foreigner(on_nodes, self._writer.written, self._world.now())
        if foreign:
            text = f"another manager (K3s?) writes the condition of {foreign}: only observing"
            troubles = (*troubles, text)
            await self._unmark(endpoint, nodes)
        if not acts or foreign or self.config.observe_only:
            result = await self._actor.observe(look, verdict, troubles)
        else:
            result = await self._actor.act(look, verdict, troubles, self._leads)
            await self._writer.removals(endpoint, nodes, result.verdict.wishes)
        if not foreign and not self.config.observe_only:
            await self._write(endpoint, nodes, on_nodes, result.verdict, acts)
        return result

    async def _acts(self, verdict: Verdict) -> bool:
        """In the cluster the holder of the Lease; one per server the one whose own member leads."""
        if not self.config.local_endpoint:
            return True
        return bool(verdict.facts.leader) and await self._etcd.local_member() == verdict.facts.leader

    async def _write(
        self, endpoint: Endpoint, nodes: Mapping[str, Node], on_nodes: Mapping[str, Found], verdict: Verdict, acts: bool
    ) -> None:  # fmt: skip
        self._leaderless = 0 if verdict.facts.leader else self._leaderless + 1
        standing: dict[str, Standing] | None = dict(verdict.standings) if acts else None
        if not acts:
            # Beside another server's member: speak only where nobody else does.
            self._writer.forget()
            if self._leaderless >= PERIODS_UNTIL_STALE:
                standing = dict.fromkeys(nodes, LEADER_MISSING)
            elif verdict.facts.leader and self._is_old(on_nodes):
                standing = dict.fromkeys(nodes, OBSERVER_STALE)
        if standing is not None:
            await self._writer.conditions(endpoint, nodes.values(), standing)

    def _may_write(self, on_nodes: Mapping[str, Found]) -> bool:
        return not self.config.observe_only and not foreigner(on_nodes, self._writer.written, self._world.now())

    def _is_old(self, on_nodes: Mapping[str, Found]) -> bool:
        heartbeat, period = float(self.config.heartbeat), float(self.config.period)
        return is_stale(on_nodes.values(), self._world.now(), heartbeat, period)

    async def _unmark(self, endpoint: Endpoint, nodes: Mapping[str, Node]) -> None:
        self._writer.written.clear()
        for node in nodes.values():
            await self._writer.annotate(endpoint, node, {MARK: None})

    async def _tell(self, endpoint: Endpoint, nodes: Mapping[str, Node], result: Result) -> None:
        endpoint.ready()
        quorum = result.verdict.quorum
        endpoint.publish(MembershipJudged(critical_nodes=quorum.critical, reason=quorum.reason))
        now, config = self._world.now(), self.config
        troubles = (*result.troubles, *((self._writer.trouble,) if self._writer.trouble else ()))
        remarks = Remarks(
            now, config.local_endpoint or "the holder of the Lease", troubles, float(config.heartbeat),
            float(config.period), self._actor.patience,
        )  # fmt: skip
        told = report(result.seen, result.verdict, remarks)
        if not config.local_endpoint or await self._acts(result.verdict):
            await self._writer.report(endpoint, told)
        self.gauges = figures(result.seen, result.verdict, now)
        self._count(result)
        self._say((*told.troubles, *told.alarms, *([self._writer.trouble] if self._writer.trouble else [])))

    def _count(self, result: Result) -> None:
        if result.order and result.outcome:
            name = f"{type(result.order).__name__.lower()}_{result.outcome.kind}"
            self.counters[name] = self.counters.get(name, 0) + 1

    def _say(self, troubles: tuple[str, ...]) -> None:
        """Each trouble once, when it is new."""
        for text in sorted(frozenset(troubles) - self._said):
            _log.warning(text)
        self._said = frozenset(troubles)

    # ---- annotations -------------------------------------------------------------------------------------------

    def _member_of(self, node: Node) -> str:
        if self.config.name_annotation == OWN_NAME:
            return node.metadata.name
        return (node.metadata.annotations or {}).get(self.config.member_annotation, "")

    def _asks_removal(self, node: Node) -> bool:
        """By annotation, unless it is done already: the removed name is the current one (spec/k3s-etcd.md 7.1)."""
        values, prefix = node.metadata.annotations or {}, self.config.annotations
        done = values.get(f"{prefix}/removed-node-name", "")
        return values.get(f"{prefix}/remove", "").lower() == "true" and (not done or done != self._member_of(node))


def _has_role(node: Node) -> bool:
    return (node.metadata.labels or {}).get(ETCD_LABEL) == "true"
