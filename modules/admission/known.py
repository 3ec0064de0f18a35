"""What warnings are made from: the Nodes, and which of them open jobs hold. Asked of the informer, now and then.

A warning is a courtesy: when the informer does not answer at once there is none, and nobody waits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from beehive.api.node import Node
from beehive.api.nodeupgradejob import COMPLETED, FAILURE, IN_PROGRESS, PENDING, NodeUpgradeJob
from beehive.api.selection import selected
from beehive.errors import NoAnswer, PeerFailed, Undeliverable
from beehive.message import Request
from beehive.messages.objects import ListJobs, ListNodes

Ask = Callable[[Request[Any], float], Awaitable[Any]]
_FRESH = 3.0
"""Seconds for which an answer is good enough; a burst of reviews shares one."""
_PATIENCE = 0.3


class Known(Struct, frozen=True):
    """A look at the cluster."""

    nodes: Mapping[str, Node] | None = None
    """By name; None where nothing is known."""
    held: Mapping[str, str] = {}
    """Node -> the open job that means to upgrade it."""


NOTHING = Known()


def look(nodes: tuple[Node, ...], jobs: tuple[NodeUpgradeJob, ...]) -> Known:
    """What follows from these objects."""
    by_name = {node.metadata.name: node for node in nodes}
    held: dict[str, str] = {}
    for job in jobs:
        if job.status.phase in (COMPLETED, FAILURE) or job.metadata.deletion_timestamp:
            continue
        for name in _open_nodes(job, by_name):
            held.setdefault(name, job.metadata.name)
    return Known(by_name, held)


def _open_nodes(job: NodeUpgradeJob, nodes: Mapping[str, Node]) -> tuple[str, ...]:
    if job.status.node_status is None:
        return selected(job.spec, nodes)
    return tuple(one.node_name for one in job.status.node_status if one.phase in (PENDING, IN_PROGRESS))


class Looker:
    """Keeps the last look for some seconds; all who want one meanwhile share it."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._last, self._until = NOTHING, 0.0
        self._asking: asyncio.Future[None] | None = None

    async def known(self) -> Known:
        """A look that is not older than some seconds, or NOTHING."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._until and self._asking is None:
            self._asking = loop.create_future()
            try:
                self._last = await self._looked()
            finally:
                self._until = loop.time() + _FRESH
                self._asking.set_result(None)
                self._asking = None
        elif self._asking is not None:
            await asyncio.shield(self._asking)
        return self._last

    async def _looked(self) -> Known:
        try:
            nodes = await self._ask(ListNodes(), _PATIENCE)
            jobs = await self._ask(ListJobs(), _PATIENCE)
        except (NoAnswer, PeerFailed, Undeliverable):
            return NOTHING
        return look(nodes.items, jobs.items)
