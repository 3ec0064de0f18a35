"""What may be asked on the socket, one JSON object a line, and what is answered. Pure."""

from typing import TypeAlias

import msgspec
from msgspec import Struct

from beehive.messages.attempts import Attempts
from beehive.messages.host import Decided, HostState
from beehive.messages.uplink import Link

LONGEST = 8 * 1024
"""Bytes of a question."""
MOST_LINES = 1000


class Status(Struct, frozen=True, kw_only=True, tag="status", tag_field="ask", forbid_unknown_fields=True):
    """`beehive edge status`."""


class Decide(Struct, frozen=True, kw_only=True, tag="decide", tag_field="ask", forbid_unknown_fields=True):
    """`beehive edge confirm|reject`."""

    confirmed: bool
    job: str = ""
    reason: str = ""


class Logs(Struct, frozen=True, kw_only=True, tag="logs", tag_field="ask", forbid_unknown_fields=True):
    """`beehive edge logs`."""

    lines: int = 100


class Hello(Struct, frozen=True, kw_only=True, tag="hello", tag_field="ask", forbid_unknown_fields=True):
    """The tool, of an agent that it has just started: are you the version that I installed?"""

    nonce: str


Question: TypeAlias = Status | Decide | Logs | Hello
_decoder: msgspec.json.Decoder[Question] = msgspec.json.Decoder(Question)


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """To any question; what was not asked for is left out."""

    problem: str = ""
    """Why there is no answer, as a sentence."""
    version: str = ""
    """Of this agent."""
    nonce: str = ""
    node: HostState | None = None
    attempts: Attempts | None = None
    link: Link | None = None
    decided: Decided | None = None
    lines: tuple[str, ...] = ()


def question(line: bytes) -> Question:
    """Raises ValueError with a sentence."""
    try:
        asked = _decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise ValueError(f"this is no question to an agent: {error}") from None
    if isinstance(asked, Logs) and not 0 < asked.lines <= MOST_LINES:
        raise ValueError(f"logs: ask for 1 to {MOST_LINES} lines")
    if isinstance(asked, Hello) and len(asked.nonce) > 64:
        raise ValueError("hello: a nonce has at most 64 characters")
    return asked


def encode(answer: Answer) -> bytes:
    """One line, with its end."""
    return msgspec.json.encode(answer) + b"\n"


def decode(line: bytes) -> Answer:
    """Raises ValueError with a sentence."""
    try:
        return msgspec.json.decode(line, type=Answer)
    except msgspec.MsgspecError as error:
        raise ValueError(f"its answer cannot be read: {error}") from None
