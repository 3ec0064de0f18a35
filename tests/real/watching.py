"""etcdmanager's passes on a real cluster, one by one, with a clock that the test owns."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from beehive.config import Duration
from beehive.world import World
from modules.etcdmanager.acting import Actor, Result
from modules.etcdmanager.config import Config
from modules.etcdmanager.etcd import Etcd
from modules.etcdmanager.members import Standing
from modules.etcdmanager.orders import Order
from tests.real.running.etcd import EtcdCluster, Identity, Member


def config(cluster: EtcdCluster, identity: Identity | None = None, **settings: Any) -> Config:
    """The cluster's own, with one second for a probe."""
    who = identity or cluster.client
    given: dict[str, Any] = {
        "endpoints": tuple(member.client_url for member in cluster.members), "ca_file": str(who.ca),
        "cert_file": str(who.certificate), "key_file": str(who.key), "period": Duration(1),
        "probe_timeout": Duration(1), **settings,
    }  # fmt: skip
    return Config(**given)


class Watch:
    """One observer beside the leader. A Node `node-of-X` for each name of `named`."""

    def __init__(self, cluster: EtcdCluster, made: Config) -> None:
        self.cluster = cluster
        self.now = 1_800_000_000.0
        self.etcd = Etcd(made)
        self.actor = Actor(made, World(now=lambda: self.now), self.etcd)
        self.named = [f"server-{number}" for number in range(1, 6)]
        self.wishes: frozenset[str] = frozenset()
        self.orders: list[tuple[Order, str]] = []
        """With what became of each."""

    async def one_pass(self, seconds: float = 15) -> Result:
        """After so many seconds by the clock."""
        self.now += seconds
        look, verdict, troubles = await self.actor.look({f"node-of-{name}": name for name in self.named}, self.wishes)
        result = await self.actor.act(look, verdict, troubles, lambda: True)
        if result.order and result.outcome:
            self.orders.append((result.order, result.outcome.kind))
        return result

    async def until(self, holds: Callable[[Result], object], seconds: float = 20) -> Result:
        """Passes until it holds; the clock stands still meanwhile, so that no patience runs out."""
        result: Result | None = None
        try:
            async with asyncio.timeout(seconds):
                while result is None or not holds(result):
                    await asyncio.sleep(0 if result is None else 0.1)
                    result = await self.one_pass(0)
                return result
        except TimeoutError:
            told = result and (result.verdict.standings, result.seen.endpoint_troubles, self.orders)
            raise AssertionError(f"it did not hold within {seconds:g} s; last: {told}") from None


def standing(result: Result, member: str) -> Standing:
    """Of the Node of this member."""
    return result.verdict.standings[f"node-of-{member}"]


def reasons(result: Result, *members: str) -> list[str]:
    """Of the Nodes of these members."""
    return [standing(result, member).reason for member in members]


def id_of(cluster: EtcdCluster, name: str) -> int:
    """A member's id, as etcdctl says."""
    lines = cluster.ctl("member", "list", through=cluster.leader()).splitlines()
    return int(next(line for line in lines if f", {name}," in line).split(",")[0], 16)


def follower(cluster: EtcdCluster) -> Member:
    """A voter that does not lead."""
    leader = cluster.leader()
    return next(one for one in cluster.members if one is not leader)


@asynccontextmanager
async def watching(cluster: EtcdCluster, identity: Identity | None = None, **settings: Any) -> AsyncIterator[Watch]:
    """An observer of the members that the cluster has now."""
    watch = Watch(cluster, config(cluster, identity, **settings))
    try:
        yield watch
    finally:
        await watch.etcd.close()
