"""Watches: a stream of changes from a version on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from modules.demo.apiserver import render
from modules.demo.apiserver.history import Change, Stored
from modules.demo.apiserver.render import Form
from modules.demo.apiserver.selectors import Selection
from modules.demo.apiserver.status import Refusal
from modules.demo.apiserver.store import Store, Table, at_version

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_BEFORE_THE_END: Final = 2.0
"""Seconds before its time is up at which a watch gets a last bookmark."""


class Watch(NamedTuple):
    """What is to be watched."""

    table: Table
    namespace: str
    selection: Selection
    form: Form
    since: int | None
    """Changes after this version; None: everything that there is, then its changes."""
    bookmarks: bool
    initial_bookmark: bool
    """Say by a bookmark where the initial objects end (``sendInitialEvents``)."""
    seconds: float
    """The watch ends by itself after this time."""


class Watcher:
    """Follows one watch. Iterate `lines` until it ends."""

    def __init__(
        self, watch: Watch, store: Store, now: Callable[[], datetime], bookmark_every: float, closing: asyncio.Event
    ) -> None:
        self._watch = watch
        self._store = store
        self._now = now
        self._every = bookmark_every
        self._closing = closing
        self._seen = 0

    async def lines(self) -> AsyncIterator[bytes]:
        """The events, each a line of JSON. Ends at its time, when the server closes, or with an ERROR event."""
        history = self._watch.table.history
        news = history.listen()
        try:
            for line in self._initial():
                yield line
            async for line in self._following(news):
                yield line
        except Refusal as refusal:
            yield b'{"type":"ERROR","object":' + msgspec.json.encode(refusal.body()) + b"}\n"
        finally:
            history.leave(news)

    def _initial(self) -> Iterator[bytes]:
        if self._watch.since is not None:
            self._seen = self._watch.since
            return
        self._seen = self._store.version
        for stored in self._watch.table.under(self._watch.namespace):
            if self._watch.selection.matches(stored.value):
                yield self._line("ADDED", stored)
        if self._watch.initial_bookmark:
            yield self._bookmark({INITIAL_EVENTS_END: "true"})

    async def _following(self, news: asyncio.Event) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._watch.seconds
        mark = self._next_mark(loop.time(), end)
        while not self._closing.is_set():
            news.clear()
            changes = self._watch.table.history.since(self._seen)
            if lines := b"".join(self._told(changes)):
                yield lines
            now = loop.time()
            if now >= mark and self._watch.bookmarks:
                self._seen = max(self._seen, self._store.version)
                yield self._bookmark({})
                mark = self._next_mark(now, end)
            if now >= end:
                return
            await _wait(news, min(mark, end) - now if self._watch.bookmarks else end - now)

    def _next_mark(self, now: float, end: float) -> float:
        last = end - _BEFORE_THE_END
        return min(now + self._every, last) if now < last else end + 1

    def _told(self, changes: list[Change]) -> Iterator[bytes]:
        for change in changes:
            self._seen = change.version
            namespace = change.after.value["metadata"].get("namespace", "")
            if self._watch.namespace in {"", namespace} and (name := self._name(change)):
                yield self._line(name, _shown(name, change))

    def _name(self, change: Change) -> str:
        """What the change is to this watch: an object that no longer matches is deleted, for it."""
        matches = self._watch.selection.matches
        before = change.before is not None and matches(change.before.value)
        after = not change.gone and matches(change.after.value)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else ""

    def _line(self, name: str, stored: Stored) -> bytes:
        return render.event(self._watch.table.kind, name, stored, self._watch.form, self._now())

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(self._seen), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        kind = self._watch.table.kind
        value = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        return b'{"type":"BOOKMARK","object":' + msgspec.json.encode(value) + b"}\n"


def _shown(name: str, change: Change) -> Stored:
    """The object of an event. One that went out of the selection is shown as it was in it, at the new version."""
    if name == "DELETED" and not change.gone and change.before is not None:
        return at_version(change.before.value, change.version)
    return change.after


async def _wait(news: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await news.wait()
    except TimeoutError:
        return
