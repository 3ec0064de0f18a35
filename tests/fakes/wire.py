"""An in-memory wire between one cloud and its edges: KubeEdge's real frames, no sockets; it cuts, delays and repeats.

`MemoryHub` stands for cloudhub, `MemoryUplink` for edgehub. The same story runs over real sockets in `tests/real`.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from beehive.message import Lagged
from beehive.messages import wire
from beehive.messages.fleet import Answer, Heard, ListOnline, NodeOffline, NodeOnline, Online, Session, Tell
from beehive.messages.objects import LeadershipChanged
from beehive.messages.tasks import CancelTask, ReportSeen, SendSnapshot, StartTask, TaskReport
from beehive.messages.uplink import CloudLost, CloudReached, Link, LinkState, Say
from beehive.module import Endpoint
from beehive.world import World


class Wire:
    """Who is connected to whom, and what went over it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hub: MemoryHub | None = None
        self.uplinks: dict[str, MemoryUplink] = {}
        self.frames: list[tuple[str, str, bytes]] = []
        """(direction `down` or `up`, node, frame)."""
        self.lose: Callable[[str, str], bool] = lambda direction, node: False
        """Asked for each frame; True loses it."""
        self.repeat: Callable[[str, str], bool] = lambda direction, node: False
        """Asked for each frame; True delivers it twice."""
        self._epochs = 0

    def connect(self, node: str) -> None:
        """A new session, if both sides are there."""
        uplink = self.uplinks.get(node)
        if self.hub and uplink:
            self._epochs += 1
            uplink.epoch = self._epochs
            self.hub.opened(node, self._epochs)
            uplink.opened()

    def cut(self, node: str) -> None:
        """The session ends on both sides."""
        uplink = self.uplinks.get(node)
        if uplink and uplink.epoch:
            if self.hub:
                self.hub.closed(node, uplink.epoch)
            uplink.epoch = 0
            uplink.closed()

    def copies(self, direction: str, node: str, frame: bytes) -> int:
        """How many of this frame arrive."""
        self.frames.append((direction, node, frame))
        if self.lose(direction, node):
            return 0
        return 2 if self.repeat(direction, node) else 1


class MemoryHub:
    """The module `cloudhub` on a `Wire`."""

    accepts = (Tell, Answer, ListOnline, LeadershipChanged)
    sends = (NodeOnline, NodeOffline, Heard)
    asks = ()

    def __init__(self, wire_: Wire) -> None:
        self.wire = wire_
        self.sessions: dict[str, Session] = {}
        self.endpoint: Endpoint | None = None
        self._opened = 0.0
        self._waiting: asyncio.Queue[Heard] = asyncio.Queue()

    async def run(self, endpoint: Endpoint) -> None:
        self.endpoint, self._opened = endpoint, self.wire.world.now()
        self.wire.hub = self
        endpoint.ready()
        pump = asyncio.ensure_future(self._pump(endpoint))
        for node in list(self.wire.uplinks):
            self.wire.connect(node)
        try:
            async for envelope in endpoint.messages():
                if isinstance(envelope.body, Tell):
                    self._tell(envelope.body)
                elif isinstance(envelope.body, ListOnline):
                    endpoint.reply(envelope, Online(tuple(self.sessions.values()), self._opened))
        finally:
            pump.cancel()
            self.wire.hub = None
            for node in list(self.sessions):
                self.wire.cut(node)

    async def _pump(self, endpoint: Endpoint) -> None:
        while True:
            await endpoint.send(await self._waiting.get(), patience=3600)

    def opened(self, node: str, epoch: int) -> None:
        assert self.endpoint is not None
        self.sessions[node] = Session(node, epoch, self.wire.world.now())
        self.endpoint.publish(NodeOnline(node=node, epoch=epoch))

    def closed(self, node: str, epoch: int) -> None:
        found = self.sessions.get(node)
        if found and found.epoch == epoch and self.endpoint:
            del self.sessions[node]
            self.endpoint.publish(NodeOffline(node=node, epoch=epoch))

    def hear(self, node: str, epoch: int, frame: bytes) -> None:
        found = wire.from_edge(frame)
        if isinstance(found.body, wire.Other) or self.wire.hub is not self:
            return
        self._waiting.put_nowait(Heard(node=node, epoch=epoch, body=found.body, message_id=found.message_id))

    def _tell(self, tell: Tell) -> None:
        uplink = self.wire.uplinks.get(tell.node)
        if tell.node not in self.sessions or uplink is None:
            return
        world = self.wire.world
        frame = wire.to_edge(tell.body, tell.node, world.new_id(), world.now(), tell.answers)
        for _ in range(self.wire.copies("down", tell.node, frame)):
            uplink.hear(frame)


class MemoryUplink:
    """The module `edgehub` of one node on a `Wire`."""

    accepts = (Say, LinkState, Lagged)
    sends = (CloudReached, CloudLost, StartTask, CancelTask, SendSnapshot, ReportSeen)
    asks = ()

    def __init__(self, node: str, wire_: Wire, kept: dict[tuple[str, int], TaskReport]) -> None:
        self.node, self.wire, self.kept = node, wire_, kept
        self.epoch = 0
        self.endpoint: Endpoint | None = None
        self._waiting: asyncio.Queue[Any] = asyncio.Queue()

    async def run(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.wire.uplinks[self.node] = self
        endpoint.ready()
        pump = asyncio.ensure_future(self._pump(endpoint))
        self.wire.connect(self.node)
        try:
            async for envelope in endpoint.messages():
                if isinstance(envelope.body, Say):
                    self._say(envelope.body)
                elif isinstance(envelope.body, LinkState):
                    link = Link(bool(self.epoch), self.wire.world.now(), "memory", len(self.kept))
                    endpoint.reply(envelope, link)
        finally:
            pump.cancel()
            self.wire.cut(self.node)
            self.wire.uplinks.pop(self.node, None)

    async def _pump(self, endpoint: Endpoint) -> None:
        while True:
            body = await self._waiting.get()
            if isinstance(body, ReportSeen):
                self._seen(body)
            await endpoint.send(body, patience=3600)

    def _seen(self, seen: ReportSeen) -> None:
        report = self.kept.get((seen.uid, seen.attempt))
        if report and report.revision <= seen.revision:
            del self.kept[seen.uid, seen.attempt]

    def _say(self, say: Say) -> None:
        if isinstance(say.body, TaskReport):
            self.kept[say.body.uid, say.body.attempt] = say.body
        self._send(say.body)

    def _send(self, body: Any) -> None:
        hub = self.wire.hub
        if not self.epoch or hub is None:
            return
        world = self.wire.world
        frame = wire.to_cloud(body, self.node, world.new_id(), world.now())
        for _ in range(self.wire.copies("up", self.node, frame)):
            hub.hear(self.node, self.epoch, frame)

    def opened(self) -> None:
        assert self.endpoint is not None
        self.endpoint.publish(CloudReached(url="memory"))
        for report in list(self.kept.values()):
            self._send(report)

    def closed(self) -> None:
        if self.endpoint and not self.endpoint.inbox.closed:
            self.endpoint.publish(CloudLost(reason="the wire was cut"))

    def hear(self, frame: bytes) -> None:
        found = wire.from_cloud(frame)
        if not isinstance(found.body, wire.Other):
            self._waiting.put_nowait(found.body)
