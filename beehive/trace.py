"""Seeing every message: what a tracer is, and the watch that an inbox keeps for it.

With a tracer attached all gates are shut, so that each message takes the way on which it can be seen, and messages have
ids and causes. Without one nothing of this is paid for.
"""

from typing import Protocol

from beehive.message import Envelope


class Tracer(Protocol):
    """Sees every message. While one is attached messages have ids and causes, and all gates are shut."""

    def posted(self, receiver: str, envelope: Envelope) -> None:
        """A message was put into the receiver's inbox."""

    def delivered(self, receiver: str, envelope: Envelope) -> None:
        """The receiver took the message in hand."""

    def answered(self, envelope: Envelope, answer: object) -> None:
        """The request in `envelope` got its answer."""


class Watch:
    """The tracer of a bus, shared by its inboxes, and the numbering that only a tracer needs."""

    __slots__ = ("_last", "tracer")

    def __init__(self) -> None:
        self.tracer: Tracer | None = None
        self._last = 0

    def number(self, envelope: Envelope, cause: int) -> Envelope:
        """The same message with the next id and its cause."""
        self._last += 1
        return Envelope(envelope.source, envelope.body, envelope.answer_to, self._last, cause)
