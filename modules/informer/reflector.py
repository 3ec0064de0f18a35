"""Keeps one kind's cache true: does what `watch.py` says, and tells what `cache.py` calls a change."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from beehive.errors import Unavailable
from beehive.world import World
from modules.informer import watch
from modules.informer.answers import Reply, sentence, status_of, succeeded
from modules.informer.cache import Cache, Change, Kept
from modules.informer.client import Client
from modules.informer.config import Config
from modules.informer.kinds import Kind, ListBody, WatchLine, header, line_of, page_of

T = TypeVar("T", bound=Kept)

_log = logging.getLogger("beehive.informer")


class Reflector(Generic[T]):
    """The list-watch of one kind.

    `tell` gets each list of changes, and the objects that changed them are in `cache` by then. `synced` is set after
    the first complete list. `trouble` says why news do not come; empty when they do.
    """

    def __init__(
        self, kind: Kind[T], client: Client, config: Config, world: World, tell: Callable[[list[Change[T]]], None]
    ) -> None:
        self.kind = kind
        self.cache: Cache[T] = Cache(kind.alike)
        self.synced = asyncio.Event()
        self.trouble = ""
        self._client = client
        self._config = config
        self._world = world
        self._tell = tell
        self._delays = watch.Delays(quiet=min(5.0, config.watch_timeout / 2))
        self._state: watch.State = watch.Empty()
        self._collected: list[T] = []
        self._swaps = 0
        self._began = 0
        self._unreadable: dict[str, str] = {}

    async def run(self, on_trouble: Callable[[], None]) -> None:
        """For ever. `on_trouble` is called when `trouble` or `synced` has changed."""
        given: watch.Input | None = watch.Begin()
        while given:
            given = await self._next(given, on_trouble)

    async def _next(self, given: watch.Input, on_trouble: Callable[[], None]) -> watch.Input | None:
        effects = self._step(given)
        self._look(given, on_trouble)
        for effect in effects:
            match effect:
                case watch.List():
                    return await self._list(effect)
                case watch.Swap():
                    self._swap(self._collected, effect.version, self._began)
                    self._collected = []
                    on_trouble()
                case watch.Watch():
                    return await self._watch(effect.version, on_trouble)
                case watch.Sleep():
                    await asyncio.sleep(max(0.0, effect.until - asyncio.get_running_loop().time()))
                    return watch.Due()
        return None

    def _step(self, given: watch.Input) -> tuple[watch.Effect, ...]:
        self._state, effects = watch.step(self._state, given, asyncio.get_running_loop().time(), self._delays)
        return effects

    def _look(self, given: watch.Input, on_trouble: Callable[[], None]) -> None:
        """A first failure after the first list is a hiccup; the next is trouble, until something works again."""
        before = self.trouble
        state = self._state
        if isinstance(given, watch.Page | watch.Opened):
            self.trouble = ""
        elif isinstance(state, watch.Waiting) and (state.failures > 1 or not self.synced.is_set()):
            self.trouble = state.reason
        if self.trouble != before:
            _log.warning("no news of %s: %s", self.kind.title, self.trouble) if self.trouble else _log.info(
                "news of %s come again", self.kind.title
            )
            on_trouble()

    # ---- lists -------------------------------------------------------------------------------------------------

    async def fresh(self) -> None:
        """Read everything anew, as it is now. Raises Unavailable when the API server can't be asked."""
        began, token, version, collected = self._swaps, "", "", list[T]()
        while True:
            reply = await self._page(token, self.kind.page)
            if not succeeded(reply):
                raise Unavailable(self._refused(reply, "list"))
            body = page_of(reply.body)
            collected += self._readable(body.items or ())
            version, token = version or body.metadata.resource_version, body.metadata.token
            if not token:
                break
        self._swap(collected, version, began)

    async def _list(self, effect: watch.List) -> watch.Input:
        if not effect.token:
            self._collected, self._began = [], self._swaps
        try:
            reply = await self._page(effect.token, self.kind.page if effect.paged else 0)
            if succeeded(reply):
                return self._collect(page_of(reply.body))
        except (Unavailable, msgspec.MsgspecError) as error:
            return self._failed(error)
        return self._not_done(reply, "list")

    async def _page(self, token: str, limit: int) -> Reply:
        return await self._client.list(self.kind.path, limit, token, timeout=self._config.list_timeout)

    def _collect(self, body: ListBody) -> watch.Input:
        version = body.metadata.resource_version
        if not version.isdecimal():
            return watch.Failed(f"a list of {self.kind.title} has the version {version!r}, which is not a number")
        self._collected += self._readable(body.items or ())
        return watch.Page(version, body.metadata.token)

    def _swap(self, collected: list[T], version: str, began: int) -> None:
        if int(version) < self.cache.floor and began != self._swaps:
            return  # another list, begun later, was complete sooner
        self._swaps += 1
        self._tell(self.cache.replace(collected, version))
        self.synced.set()

    def _readable(self, items: Iterable[msgspec.Raw]) -> list[T]:
        """What can be read of a list; what cannot is left as it was last known."""
        read = (self._read(raw) or self.cache.get(header(raw).name) for raw in items)
        return [one for one in read if one is not None]

    def _read(self, raw: msgspec.Raw) -> T | None:
        """The object; None for one that cannot be read, which is said once."""
        try:
            return self.kind.read(raw)
        except (msgspec.MsgspecError, ValueError) as error:
            name = header(raw).name
            if self._unreadable.get(name) != str(error) and len(self._unreadable) < 1000:
                self._unreadable[name] = str(error)
                _log.warning("%s %s cannot be read and is set aside: %s", self.kind.title, name or "?", error)
            return None

    # ---- the watch ---------------------------------------------------------------------------------------------

    async def _watch(self, version: str, on_trouble: Callable[[], None]) -> watch.Input:
        seconds = self._config.watch_timeout * (0.8 + 0.2 * self._world.random())
        try:
            async with self._client.watch(self.kind.path, version, seconds) as stream:
                if stream.refused:
                    return self._not_done(stream.refused, "watch")
                self._step(watch.Opened())
                self._look(watch.Opened(), on_trouble)
                async for lines in stream.lines():
                    stopped = self._take(lines)
                    if stopped:
                        return stopped
        except (Unavailable, msgspec.MsgspecError) as error:
            return self._failed(error)
        return watch.Ended(self._world.random())

    def _take(self, lines: list[bytes]) -> watch.Expired | watch.Failed | None:
        version, changes = "", list[Change[T]]()
        try:
            for line in lines:
                event = line_of(line)
                if event.type == "ERROR":
                    status = status_of(bytes(event.object))
                    return self._not_done(Reply(status.code or 500, bytes(event.object)), "watch")
                version = self._event(event, changes) or version
        finally:
            if version:
                self._step(watch.Progress(version))
            if changes:
                self._tell(changes)
        return None

    def _event(self, event: WatchLine, changes: list[Change[T]]) -> str:
        """Take one event in; answers with the version that it brings."""
        one = self._read(event.object) if event.type in {"ADDED", "MODIFIED"} else None
        if one is not None:
            changes += self.cache.put(one)
            return one.metadata.resource_version
        head = header(event.object)
        if event.type == "DELETED" and head.resource_version.isdecimal():
            changes += self.cache.remove(head.name, head.resource_version)
        return head.resource_version

    # ---- what went wrong ---------------------------------------------------------------------------------------

    def _failed(self, error: Exception) -> watch.Failed:
        text = str(error) if isinstance(error, Unavailable) else f"{self._client.where} sent something else than JSON"
        after = getattr(error, "retry_after", None) or 0.0
        return watch.Failed(text, after, self._world.random())

    def _not_done(self, reply: Reply, verb: str) -> watch.Expired | watch.Failed:
        if reply.status == 410:
            return watch.Expired(self._world.random())
        return watch.Failed(self._refused(reply, verb), reply.retry_after or 0.0, self._world.random())

    def _refused(self, reply: Reply, verb: str) -> str:
        where = self._client.where
        if reply.status == 404 and self.kind.absent:
            return f"{self.kind.title} in {where}: {self.kind.absent}"
        if reply.status == 403:
            return f"the right to {verb} {self.kind.title} in {where}: {sentence(reply)}; apply configs/rbac.yaml"
        return f"{where}, asked to {verb} {self.kind.title}: {sentence(reply)}"
