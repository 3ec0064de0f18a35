"""Writes Kubernetes Events, never in anybody's way: behind what must be written, and what is too much is dropped and
counted."""

import asyncio
import logging
import socket
from collections.abc import Callable

import msgspec

from beehive.errors import Unavailable
from beehive.messages.objects import RecordEvent
from beehive.world import World
from modules.informer.answers import Reply, sentence, succeeded
from modules.informer.client import MERGE_PATCH, Client
from modules.informer.events import NAMESPACE, Key, Ledger, Line, again

_PATH = f"/api/v1/namespaces/{NAMESPACE}/events"
_MOST_WAITING = 12_000
"""Two for each node of the largest job."""
_GLANCE, _GLANCES = 0.05, 20
"""A batch waits so long for more urgent writes, in seconds and times; then it goes, for busy must not mean silent."""
_AT_ONCE = 16
_MOST_NAMES = 5000
_TRIES = 3
_log = logging.getLogger("beehive.informer")


class Recorder:
    """`record` takes an Event in without waiting; `run` writes them, equal ones in one write."""

    def __init__(self, client: Client, world: World, busy: Callable[[], bool] = lambda: False) -> None:
        """`busy`: are there more urgent writes now?"""
        self.dropped = 0
        self._busy = busy
        self._client = client
        self._world = world
        self._ledger = Ledger("beehive", socket.gethostname())
        self._waiting: dict[Key, Line] = {}
        self._names: dict[Key, str] = {}
        """Of those that stand in the API server."""
        self._news = asyncio.Event()

    def record(self, said: RecordEvent) -> None:
        """Take it in, or drop it when too many wait already."""
        key, line = self._ledger.record(said, self._world.now())
        if key not in self._waiting and len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
            if self.dropped == 1:
                _log.warning("more than %d Events wait to be written; the rest is dropped", _MOST_WAITING)
            return
        self._waiting[key] = line
        self._news.set()

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                await self._give_way()
                await self._write_some()

    async def flush(self) -> None:
        """Write what waits, now."""
        while self._waiting:
            await self._write_some()

    async def _give_way(self) -> None:
        for _ in range(_GLANCES):
            if not self._busy():
                return
            await asyncio.sleep(_GLANCE)

    async def _write_some(self) -> None:
        if self._waiting:
            batch = [(key, self._waiting.pop(key)) for key in list(self._waiting)[:_AT_ONCE]]
            await asyncio.gather(*(self._write(key, line) for key, line in batch))

    async def _write(self, key: Key, line: Line) -> None:
        why = ""
        for attempt in range(_TRIES):
            try:
                reply = await self._say(key, line)
            except Unavailable as error:
                why = error.reason
                await asyncio.sleep((attempt + 1) * (0.5 + self._world.random()))
                continue
            if succeeded(reply):
                return
            why = sentence(reply)
            break
        self.dropped += 1
        _log.info("an Event was not written: %s %s %s: %s", key[0], line.said.name, key[2], why)

    async def _say(self, key: Key, line: Line) -> Reply:
        name = self._names.get(key) if line.count > 1 else None
        if name:
            reply = await self._client.patch(f"{_PATH}/{name}", msgspec.json.encode(again(line)), MERGE_PATCH)
            if reply.status != 404:
                return reply
        name = f"{line.said.name[:200]}.{self._world.new_id()[:18]}"
        reply = await self._client.create(_PATH, msgspec.json.encode(self._ledger.body(line, name)))
        if succeeded(reply):
            self._names.pop(key, None)
            self._names[key] = name
            if len(self._names) > _MOST_NAMES:
                del self._names[next(iter(self._names))]
        return reply
