"""What travels on the bus: commands, events, requests, and the envelope around them.

Bodies are frozen Structs of plain values, tuples, enums and other frozen Structs. They are acyclic, so the garbage
collector need not look at them (`gc=False`), and they travel uncopied.
"""

import asyncio
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct

R = TypeVar("R")


class Message(Struct, frozen=True, kw_only=True, gc=False):
    """Base of everything that modules say to each other."""


class Command(Message, frozen=True, kw_only=True, gc=False):
    """Something is wanted from exactly one owner; the sender waits while the owner's inbox is full."""


class Event(Message, frozen=True, kw_only=True, gc=False):
    """Something has happened; every subscriber hears it, or is told by `Lagged` that it missed some."""


class Request(Message, Generic[R], frozen=True, kw_only=True, gc=False):
    """A question to exactly one owner; `R` is the type of its answer."""


class Lagged(Event, frozen=True, kw_only=True, gc=False, tag="runtime.lagged"):
    """The kernel says it to one subscriber whose inbox was full: `missed` events were not delivered.

    What to do: ask for the current sum, exactly as after a start. If it is lost, the subscriber is no worse off than
    before, because a new one follows with the next missed event.
    """

    missed: int


class ModuleFailed(Event, frozen=True, kw_only=True, gc=False, tag="runtime.module-failed"):
    """The supervisor, when a module raised or ended by itself. If lost: it is in the log and in the metrics."""

    module: str
    reason: str


class Draining(Event, frozen=True, kw_only=True, gc=False, tag="runtime.draining"):
    """The supervisor, when the process begins to stop: take on nothing new. If lost: the end of messages follows."""


class Envelope(Struct, frozen=True, eq=False, gc=False):
    """A message under way. `id` and `cause` are 0 unless a tracer is attached."""

    source: str
    """Name of the module that said it."""
    body: Any
    answer_to: "asyncio.Future[Any] | None" = None
    """Where the answer to a `Request` goes."""
    id: int = 0
    cause: int = 0
    """Id of the message that the sender had in hand when it said this one."""


def kind(body: object) -> str:
    """The name by which people know a message: its class name."""
    return type(body).__name__


class _Over:
    """Looks like the future of a question that is over."""

    def done(self) -> bool:
        return True


MISSING = Envelope("kernel", None, cast("asyncio.Future[Any]", _Over()))
"""Stands in the queue where events are missing; replaced by a `Lagged` with the count when it is taken.

It looks like a question that nobody asks any more, so that taking anything else needs no second comparison.
"""
