"""The shell of etcdmanager: a pass every period, and only what changed is written."""

import asyncio
import logging
from collections.abc import Mapping

from beehive.api.node import ETCD_LABEL, Node, NodeCondition
from beehive.errors import NoAnswer, PeerFailed, Refused, Unavailable
from beehive.message import Lagged
from beehive.messages.etcd import MembershipJudged
from beehive.messages.objects import LeadershipChanged, ListNodes, Nodes, Patched, PatchNodeCondition
from beehive.module import Endpoint
from beehive.world import World, from_rfc3339, rfc3339
from modules.etcdmanager.config import Config
from modules.etcdmanager.etcd import Etcd
from modules.etcdmanager.members import Seen, Standing, Verdict, judge

CONDITION = "EtcdIsVoter"

_log = logging.getLogger("beehive.etcdmanager")


class EtcdManager:
    """Probes members, judges, writes conditions."""

    accepts = (LeadershipChanged, Lagged)
    sends = (MembershipJudged,)
    asks = (ListNodes, PatchNodeCondition)

    def __init__(self, config: Config, world: World) -> None:
        self.config = config
        self.counters: dict[str, int] = {"passes": 0, "passes_failed": 0, "conditions_written": 0}
        self._world = world
        self._next = world.now()
        self._leads_until = 0.0
        self._silent: frozenset[int] = frozenset()
        self._written: dict[str, NodeCondition] = {}

    async def run(self, endpoint: Endpoint) -> None:
        """Until the messages end."""
        endpoint.ready()
        etcd = Etcd(self.config)
        try:
            async for envelope in endpoint.messages(until=self._alarm):
                if envelope is None:
                    self._next = self._world.now() + float(self.config.period)
                    await self._pass(endpoint, etcd)
                elif isinstance(envelope.body, LeadershipChanged):
                    self._leads_until = envelope.body.until
        finally:
            await etcd.close()

    def _alarm(self) -> float | None:
        return self._next if self.config.endpoints else None

    async def _pass(self, endpoint: Endpoint, etcd: Etcd) -> None:
        if asyncio.get_running_loop().time() >= self._leads_until:
            return
        self.counters["passes"] += 1
        try:
            nodes = await endpoint.ask(ListNodes())
            seen = await self._look(etcd, nodes)
            verdict = judge(seen, self._silent, _standings(self._written))
            self._silent = verdict.silent
            await self._write(endpoint, nodes, verdict)
        except (Unavailable, Refused, NoAnswer, PeerFailed) as error:
            self.counters["passes_failed"] += 1
            endpoint.waiting_for(f"etcd: {error}")
            _log.warning("pass failed", extra={"reason": str(error)})
            return
        endpoint.ready()
        endpoint.publish(MembershipJudged(critical_nodes=verdict.critical_nodes, reason=verdict.reason))

    async def _look(self, etcd: Etcd, nodes: Nodes) -> Seen:
        members = await etcd.members()
        asked = [member for member in members if member.client_urls]
        answers = await asyncio.gather(*(etcd.probe(member) for member in asked))
        names = {
            node.metadata.name: (node.metadata.annotations or {}).get(self.config.name_annotation, "")
            for node in nodes.items
            if (node.metadata.labels or {}).get(ETCD_LABEL) == "true"
        }
        return Seen(members, {member.id: answer for member, answer in zip(asked, answers, strict=True)}, names)

    async def _write(self, endpoint: Endpoint, nodes: Nodes, verdict: Verdict) -> None:
        for node in nodes.items:
            name = node.metadata.name
            standing = verdict.standings.get(name)
            if standing is None:
                self._written.pop(name, None)
                continue
            new = due(
                standing, self._written.get(name) or _found(node), self._world.now(), float(self.config.heartbeat)
            )
            if new is None:
                continue
            answer = await endpoint.ask(PatchNodeCondition(name=name, condition=new))
            if isinstance(answer, Patched):
                self._written[name] = new
                self.counters["conditions_written"] += 1
            else:
                _log.warning("condition not written", extra={"node": name, "reason": str(answer)})


def due(standing: Standing, old: NodeCondition | None, now: float, heartbeat: float) -> NodeCondition | None:
    """The condition to write, or None: only on a change or when the last writing is `heartbeat` seconds old.

    The transition time moves only when the status flips (spec/k3s-etcd.md 14).
    """
    moment = rfc3339(now)
    if old is not None and (old.status, old.reason, old.message) == (
        standing.status,
        standing.reason,
        standing.message,
    ):
        written = old.last_heartbeat_time
        if written and now - from_rfc3339(written) < heartbeat:
            return None
    flipped = old is None or old.status != standing.status
    return NodeCondition(
        type=CONDITION, status=standing.status, reason=standing.reason, message=standing.message,
        last_heartbeat_time=moment,
        last_transition_time=moment if flipped or old is None else old.last_transition_time,
    )  # fmt: skip


def _found(node: Node) -> NodeCondition | None:
    """The condition that stands on the Node."""
    return next((one for one in node.status.conditions or () if one.type == CONDITION), None)


def _standings(written: Mapping[str, NodeCondition]) -> dict[str, Standing]:
    return {name: Standing(one.status, one.reason, one.message) for name, one in written.items()}
