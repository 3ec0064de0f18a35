"""Looks at the cluster for warnings: asks the informer, now and then.

A warning is a courtesy: when the informer does not answer at once there is none, and nobody waits.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from beehive.errors import NoAnswer, PeerFailed, Undeliverable
from beehive.message import Request
from beehive.messages.objects import ListJobs, ListNodes
from modules.admission.known import NOTHING, Known, look

Ask = Callable[[Request[Any], float], Awaitable[Any]]
_FRESH = 3.0
"""Seconds for which an answer is good enough; a burst of reviews shares one."""
_PATIENCE = 0.3


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
