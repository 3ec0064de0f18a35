"""The changes of one kind, in order, as far back as they are remembered; and who waits for the next one."""

import asyncio
from collections import deque
from typing import Any, NamedTuple

import msgspec

from modules.demo.apiserver.status import too_old

Object = dict[str, Any]


class Stored(msgspec.Struct, gc=False, eq=False):
    """One version of one object. Its JSON is made once, when it is first wanted."""

    version: int
    value: Object
    encoded: bytes = b""

    @property
    def json(self) -> bytes:
        """The object as JSON."""
        if not self.encoded:
            self.encoded = msgspec.json.encode(self.value)
        return self.encoded


class Change(NamedTuple):
    """One write: from ``before`` to ``after``; of a deletion ``after`` is what was stored, at its version."""

    version: int
    before: Stored | None
    after: Stored
    gone: bool = False


class History:
    """A ring of changes. A reader that fell behind it gets 410, never a gap."""

    def __init__(self, length: int) -> None:
        self._ring: deque[Change] = deque(maxlen=length)
        self._waiting: set[asyncio.Event] = set()
        self.forgotten = 0
        """The version of the newest change that is no longer remembered."""

    def record(self, change: Change) -> None:
        """Append, forget the oldest if there is no room, wake who waits."""
        if len(self._ring) == self._ring.maxlen:
            self.forgotten = self._ring[0].version
        self._ring.append(change)
        self.wake()

    def since(self, version: int) -> list[Change]:
        """The changes after ``version``, oldest first. Raises 410 when some are forgotten."""
        if version < self.forgotten:
            raise too_old(version, self.forgotten)
        newer: list[Change] = []
        for change in reversed(self._ring):
            if change.version <= version:
                break
            newer.append(change)
        newer.reverse()
        return newer

    def forget(self, version: int) -> None:
        """Compact: no longer remember the changes up to and including ``version``."""
        while self._ring and self._ring[0].version <= version:
            self._ring.popleft()
        self.forgotten = max(self.forgotten, version)
        self.wake()

    def wake(self) -> None:
        """Let every waiting reader look again."""
        for event in self._waiting:
            event.set()

    def listen(self) -> asyncio.Event:
        """An event that is set at each change, until `leave`."""
        event = asyncio.Event()
        self._waiting.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        """End `listen`."""
        self._waiting.discard(event)
