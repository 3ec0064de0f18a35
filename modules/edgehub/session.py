"""One link while it stands: frames become commands, reports go up until they are seen, the other end is watched.

What happens when a frame cannot be used: larger than 1 MiB, or no websocket frame: the connection ends (1009, 1002).
Not JSON, in the wrong shape, about another node, of unknown operation: counted, answered with `error` when the cloud is
one of ours, and the connection stays. KubeEdge's other tasks get a failed report in their own form. While taskmanager
has no room, the socket is not read.
"""

import asyncio
import contextlib
import logging
from collections import Counter

from beehive.errors import InboxFull, Refused, Unavailable, Undeliverable
from beehive.messages import wire
from beehive.messages.tasks import Downstream, ReportSeen, TaskReport, Upstream
from beehive.module import Endpoint
from beehive.world import World
from modules.edgehub import foreign, outbox
from modules.edgehub.config import Config
from modules.edgehub.notes import Notes
from modules.edgehub.outbox import Outbox
from modules.edgehub.uplink import Connection

log = logging.getLogger(__name__)

_BETWEEN_LEGACY_REPORTS = 0.5
"""Seconds: a real CloudCore mixes up the order of reports that come close together (spec/kubeedge.md R7)."""

_IN_DOUBT = 5.0
"""Seconds for an answer when something spoke against the link."""


class Session:
    """Made anew for each connection."""

    def __init__(
        self, node: str, connection: Connection, box: Outbox, notes: Notes, world: World, counters: Counter[str]
    ) -> None:
        self._node = node
        self._connection = connection
        self._outbox = box
        self._notes = notes
        self._world = world
        self._counters = counters
        self._more = asyncio.Event()
        self._handing_on = False
        self._leaving = asyncio.Event()
        self._doubts = asyncio.Event()

    async def run(self, endpoint: Endpoint, config: Config) -> None:
        """Until the link ends."""
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(one) for one in (self._beat(config), self._repeat(config), self._leave())]
            try:
                async for data in self._connection.frames():
                    self._counters["frames_in"] += 1
                    await self._frame(endpoint, data)
            finally:
                for task in beside:
                    task.cancel()

    async def end(self) -> None:
        """This process stops."""
        await self._connection.close()

    def leave(self) -> None:
        """End the link and let another begin."""
        self._leaving.set()

    def doubt(self) -> None:
        """See soon whether the other end still lives."""
        self._doubts.set()

    async def _leave(self) -> None:
        await self._leaving.wait()
        await self._connection.close()

    # ---- up ----------------------------------------------------------------------------------------------------

    async def say(self, body: Upstream) -> None:
        """Now, once; what is kept is said again by `_repeat`. A link that broke is noticed by its reader."""
        if self._connection.legacy:
            self._more.set()
            return
        self._more.set()
        await self._send(wire.to_cloud(body, self._node, self._world.new_id(), self._world.now()))

    async def _send(self, data: bytes) -> bool:
        try:
            await self._connection.send(data)
        except Unavailable:
            return False
        self._counters["frames_out"] += 1
        return True

    async def _repeat(self, config: Config) -> None:
        """Everything unacknowledged at once, and again every `repeat` seconds; asleep while there is nothing."""
        if self._connection.legacy:
            await self._expand()
        while True:
            for report in self._outbox.all():
                await self.say(report)
            self._more.clear()
            if not len(self._outbox):
                await self._more.wait()
            await asyncio.sleep(config.repeat)

    async def _expand(self) -> None:
        """To a real CloudCore, which acknowledges nothing: each result once, in order, with a pause after it."""
        while True:
            for report in self._outbox.all():
                await self._say_all(report)
            await self._more.wait()
            self._more.clear()

    async def _say_all(self, report: TaskReport) -> None:
        for _ in self._outbox.unsaid(outbox.key(report)):
            if not await self._say_one(report):
                return
            await asyncio.sleep(_BETWEEN_LEGACY_REPORTS)

    async def _say_one(self, report: TaskReport) -> bool:
        of = outbox.key(report)
        unsaid = self._outbox.unsaid(of)
        if not unsaid:
            return False
        data = wire.to_legacy_cloud(report, unsaid[0], self._node, self._world.new_id(), self._world.now())
        if not await self._send(data):
            return False
        kept = self._outbox.said(of)
        if kept is None:
            self._notes.forget(of)
        else:
            self._notes.save(kept)
        return True

    async def _beat(self, config: Config) -> None:
        """KubeEdge's sign of life, and a ping of our own: who answers no ping is gone."""
        patience = max(1.0, config.dead_after - config.heartbeat)
        while True:
            began = asyncio.get_running_loop().time()
            if not await self._is_alive(min(patience, _IN_DOUBT) if self._doubts.is_set() else patience):
                self._counters["dead_peers"] += 1
                self._connection.cut()
                return
            self._doubts.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(began + config.heartbeat):
                    await self._doubts.wait()

    async def _is_alive(self, patience: float) -> bool:
        """A link that we do not read ourselves just now says nothing about the other end."""
        try:
            async with asyncio.timeout(patience):
                await self._send(wire.keepalive(self._world.new_id(), self._world.now()))
        except TimeoutError:
            return False
        return await self._connection.alive(patience) or self._handing_on

    # ---- down --------------------------------------------------------------------------------------------------

    async def _frame(self, endpoint: Endpoint, data: bytes) -> None:
        try:
            read = wire.from_cloud(data)
        except Refused as refusal:
            await self._set_aside("refused_frames", refusal.reason, wire.Read("", "", "", _NOTHING))
            return
        if isinstance(read.body, wire.Other):
            await self._other(read, read.body)
        elif read.node != self._node:
            await self._set_aside("about_another_node", f"this is {self._node}, not {read.node}", read)
        else:
            await self._hand_on(endpoint, read.body)
            if isinstance(read.body, ReportSeen) and self._outbox.seen(read.body):
                self._notes.forget(outbox.key(read.body))

    async def _hand_on(self, endpoint: Endpoint, body: Downstream) -> None:
        """Waits while taskmanager has no room: meanwhile nothing more is read."""
        self._handing_on = True
        try:
            while not await self._taken(endpoint, body):
                self._counters["paused"] += 1
        finally:
            self._handing_on = False

    async def _taken(self, endpoint: Endpoint, body: Downstream) -> bool:
        try:
            await endpoint.send(body, patience=10.0)
        except InboxFull:
            return False
        except Undeliverable:
            self._counters["undeliverable"] += 1
        return True

    async def _other(self, read: wire.FromCloud, other: wire.Other) -> None:
        message_id, now = self._world.new_id(), self._world.now()
        if other.operation in (wire.ERROR, wire.RESPONSE):  # never answered: two ends would answer for ever
            self._counters["errors_from_cloud"] += other.operation == wire.ERROR
            return
        failed = foreign.answer(other, self._node, message_id, now)
        if failed is not None:
            self._counters["foreign_tasks"] += 1
            await self._send(failed)
        elif other.operation in wire.CONTROL:
            await self._send(wire.answer(read, wire.RESPONSE, "ack", message_id, now))
        else:
            await self._set_aside("unknown_operations", f"{other.operation[:60]!r} is not known here", read)

    async def _set_aside(self, counter: str, reason: str, read: wire.FromCloud) -> None:
        self._counters[counter] += 1
        log.warning("a message of the cloud was set aside: %s", reason)
        if not self._connection.legacy:
            await self._send(wire.answer(read, wire.ERROR, reason, self._world.new_id(), self._world.now()))


_NOTHING = wire.Other("", "", wire.Frame())
