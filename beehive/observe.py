"""The eyes of the kernel: a tracer that sees every message, an observer that hears of what is rare.

Metrics are pulled from the inboxes (`beehive.metrics`), never pushed per message: that would cost more than the
message itself.
"""

import logging
from collections import deque
from typing import Any, NamedTuple, Protocol

import msgspec

from beehive.errors import BeehiveError
from beehive.message import Envelope, kind

_log = logging.getLogger("beehive.kernel")


class Observer(Protocol):
    """Hears of the rare things; called synchronously, must not raise."""

    def failed(self, module: str, error: BaseException, dropped: Envelope | None) -> None:
        """A module raised; the message that it had in hand, if any, was dropped."""

    def restarting(self, module: str, after: float) -> None:
        """It starts again in so many seconds."""

    def stuck(self, module: str, seconds: float) -> None:
        """It did not end within its time and was cancelled."""


class LogObserver:
    """Says it in the log. The traceback is for developers: it is logged at debug level only."""

    def failed(self, module: str, error: BaseException, dropped: Envelope | None) -> None:
        extra: dict[str, Any] = {"of": module, "reason": describe(error)}
        if dropped is not None:
            extra["dropped"] = kind(dropped.body)
        _log.error("module failed", extra=extra)
        _log.debug("where it failed", exc_info=error)

    def restarting(self, module: str, after: float) -> None:
        _log.warning("module starts again", extra={"of": module, "after": f"{after:g}s"})

    def stuck(self, module: str, seconds: float) -> None:
        _log.error("module did not end in time and was cancelled", extra={"of": module, "limit": f"{seconds:g}s"})


class Entry(NamedTuple):
    """One line of a record."""

    what: str
    """`posted`, `delivered` or `answered`."""
    receiver: str
    envelope: Envelope
    answer: object = None


class Record:
    """A tracer that keeps the last `most` entries; `story` tells how one message came about and what followed."""

    def __init__(self, most: int = 10_000) -> None:
        self.entries: deque[Entry] = deque(maxlen=most)

    def posted(self, receiver: str, envelope: Envelope) -> None:
        self.entries.append(Entry("posted", receiver, envelope))

    def delivered(self, receiver: str, envelope: Envelope) -> None:
        self.entries.append(Entry("delivered", receiver, envelope))

    def answered(self, envelope: Envelope, answer: object) -> None:
        self.entries.append(Entry("answered", envelope.source, envelope, answer))

    def story(self, message_id: int) -> list[str]:
        """The causal chain of one message as lines: where it came from, itself, and all that it caused."""
        posted = {entry.envelope.id: entry for entry in self.entries if entry.what == "posted"}
        chain = [message_id]
        while chain[0] in posted and posted[chain[0]].envelope.cause:
            chain.insert(0, posted[chain[0]].envelope.cause)
        lines: list[str] = []
        self._tell(chain[0], posted, 0, lines)
        return lines

    def _tell(self, message_id: int, posted: dict[int, Entry], depth: int, lines: list[str]) -> None:
        if message_id not in posted:
            lines.append(f"{'  ' * depth}#{message_id} (no longer in the record)")
        else:
            entry = posted[message_id]
            lines.append(f"{'  ' * depth}#{message_id} {spoken(entry.receiver, entry.envelope)}")
        for other in posted.values():
            if other.envelope.cause == message_id:
                self._tell(other.envelope.id, posted, depth + 1, lines)


def spoken(receiver: str, envelope: Envelope) -> str:
    """`informer -> taskmanager  JobChanged {…}` on one line."""
    return f"{envelope.source} -> {receiver}  {kind(envelope.body)} {told(envelope.body)}"


def told(body: object) -> str:
    """A message's or an answer's content as compact JSON without what is default."""
    return msgspec.json.encode(_slim(msgspec.to_builtins(body))).decode()


def _slim(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _slim(below) for key, below in value.items() if below not in ("", None, [], {}, 0, False, 0.0)}
    if isinstance(value, list):
        return [_slim(below) for below in value]
    return value


def describe(error: BaseException) -> str:
    """The error as a phrase for people: its own text if it is meant for them, else its type and text."""
    leaf = error
    while isinstance(leaf, BaseExceptionGroup):
        leaf = leaf.exceptions[0]
    text = str(leaf).strip() or "no further text"

    return text if isinstance(leaf, BeehiveError) else f"{type(leaf).__name__}: {text}"
