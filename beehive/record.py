"""The record of what was said while tracing was on, and the story of one message in it.

Bounded in every direction: so many entries, so much text each, so many lines of a story. What must stay secret is
struck out when it is written down: bytes, and what stands under a name such as `token`.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from beehive.bus import Bus
from beehive.message import Envelope, kind

_LONGEST_TEXT = 1000
_LONGEST_LIST = 20
_MOST_LINES = 500
_MOST_ANCESTORS = 20
_DEEPEST_INDENT = 30
_SECRET = re.compile(r"token|password|secret|authorization|private", re.IGNORECASE)


class Entry(NamedTuple):
    """One line of a record."""

    what: str
    """`posted`, `delivered` or `answered`."""
    at: float
    """Seconds, on the record's clock."""
    id: int
    cause: int
    source: str
    receiver: str
    text: str
    """`JobChanged {…}`: the message, or the answer."""


class Record:
    """A tracer that keeps the last `most` entries."""

    def __init__(self, most: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self.entries: deque[Entry] = deque(maxlen=most)
        self._clock = clock

    def posted(self, receiver: str, envelope: Envelope) -> None:
        self._add("posted", receiver, envelope, _named(envelope.body))

    def delivered(self, receiver: str, envelope: Envelope) -> None:
        self._add("delivered", receiver, envelope, "")

    def answered(self, envelope: Envelope, answer: object) -> None:
        self._add("answered", envelope.source, envelope, _named(answer))

    def _add(self, what: str, receiver: str, envelope: Envelope, text: str) -> None:
        self.entries.append(
            Entry(what, self._clock(), envelope.id, envelope.cause, envelope.source, receiver, text[:_LONGEST_TEXT])
        )

    def story(self, message_id: int) -> list[str]:
        """See the function `story`."""
        return story(list(self.entries), message_id)


class Tracing:
    """The switch. Must be used on the loop's own thread."""

    def __init__(self, bus: Bus, most: int = 10_000) -> None:
        self.record: Record | None = None
        """Of the last time that tracing was on."""
        self.is_on = False
        self._bus, self._most = bus, most

    def on(self) -> Record:
        """Begin a new record; one that is being kept goes on."""
        if self.record is None or not self.is_on:
            self.record, self.is_on = Record(self._most), True
            self._bus.trace(self.record)
        return self.record

    def off(self) -> None:
        """End it; what was recorded can still be read."""
        self.is_on = False
        self._bus.trace(None)


class _Book:
    """The entries by message."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.posted = {entry.id: entry for entry in entries if entry.what == "posted"}
        self.taken = {entry.id for entry in entries if entry.what == "delivered"}
        self.answers = {entry.id: entry for entry in entries if entry.what == "answered"}
        self.caused: dict[int, list[int]] = {}
        for entry in self.posted.values():
            self.caused.setdefault(entry.cause, []).append(entry.id)

    def ancestors(self, message_id: int) -> list[int]:
        """What led to it, the first first; the last one may be no longer in the record."""
        chain: list[int] = []
        while message_id in self.posted and len(chain) < _MOST_ANCESTORS:
            message_id = self.posted[message_id].cause
            if not message_id:
                break
            chain.insert(0, message_id)
        return chain

    def lines(self, message_id: int, depth: int, begun: float) -> list[str]:
        indent = "  " * min(depth, _DEEPEST_INDENT)
        entry = self.posted.get(message_id)
        if entry is None:
            return [f"{indent}#{message_id} (no longer in the record)"]
        after = "" if message_id in self.taken else "  (not taken)"
        whom = f"{entry.source} -> {entry.receiver}"
        said = [f"{indent}#{message_id} +{entry.at - begun:.3f}s {whom}  {entry.text}{after}"]
        answer = self.answers.get(message_id)
        if answer:
            said.append(f"{indent}  = +{answer.at - begun:.3f}s {answer.text}")
        return said


def story(entries: Sequence[Entry], message_id: int) -> list[str]:
    """How one message came about, itself, and all that it caused, as lines; times count from the first of them."""
    book = _Book(entries)
    chain = book.ancestors(message_id)
    first = next((book.posted[one] for one in (*chain, message_id) if one in book.posted), None)
    begun = first.at if first else 0.0
    lines: list[str] = []
    for depth, one in enumerate(chain):
        lines += book.lines(one, depth, begun)
    to_tell = [(message_id, len(chain))]
    while to_tell:
        if len(lines) >= _MOST_LINES:
            lines.append(f"… and at least {len(to_tell)} more")
            break
        one, depth = to_tell.pop()
        lines += book.lines(one, depth, begun)
        to_tell += [(other, depth + 1) for other in reversed(book.caused.get(one, ()))]
    return lines


def heard(entries: Sequence[Entry], most: int = 100) -> list[str]:
    """The last messages of a record, one a line."""
    posted = [entry for entry in entries if entry.what == "posted"][-most:]
    return [f"#{entry.id} {entry.source} -> {entry.receiver}  {entry.text}" for entry in posted]


def _named(body: object) -> str:
    return f"{kind(body)} {told(body)}"


def told(body: object) -> str:
    """A message's or an answer's content as compact JSON, without what is default, secret or too long."""
    return msgspec.json.encode(_slim(msgspec.to_builtins(body, builtin_types=(bytes,)))).decode()


def _slim(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _slim(below, str(key)) for key, below in value.items() if below not in _DEFAULTS}
    if isinstance(value, list | tuple):
        more = [f"… {len(value) - _LONGEST_LIST} more"] if len(value) > _LONGEST_LIST else []
        return [_slim(below, name) for below in value[:_LONGEST_LIST]] + more
    if isinstance(value, bytes):
        return f"({len(value)} bytes)"
    if isinstance(value, str) and _SECRET.search(name):
        return "(struck out)"
    return value


_DEFAULTS: tuple[object, ...] = ("", None, [], {}, (), 0, False, b"")
