"""The frame around every message: header, route, content and our own key, as Go's encoder writes them."""

from typing import Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from beehive.errors import Refused

MOST_BYTES = 1 << 20
"""Size limit of a frame, either way."""

REPORT, RESPONSE, ERROR, KEEPALIVE = "UpdateNodeActionStatus", "response", "error", "keepalive"
CONTROL = ("config", "ping", "pong")
"""Operations that are answered with the content `"ack"` and go no further (spec/kubeedge.md 5.3)."""

B = TypeVar("B")


class Header(Struct, frozen=True, gc=False):
    """KubeEdge's message header; the order of the fields is the order on the wire."""

    msg_id: str = ""
    parent_msg_id: str | UnsetType = UNSET
    timestamp: int = 0
    """Milliseconds since the epoch."""
    resourceversion: str | UnsetType = UNSET
    sync: bool | UnsetType = UNSET
    type: str | UnsetType = UNSET


class Route(Struct, frozen=True, gc=False, omit_defaults=True):
    """Who says it to whom, and about what."""

    source: str = ""
    destination: str = ""
    group: str = ""
    operation: str = ""
    resource: str = ""


class Frame(Struct, frozen=True, gc=False):
    """One message as it stands on the wire."""

    header: Header | None = None
    route: Route | None = None
    content: Raw = Raw(b"null")
    beehive: Raw | UnsetType = UNSET


class Outgoing(Struct, frozen=True, gc=False):
    """The same, with parts that are not encoded yet: one pass of the encoder instead of three."""

    header: Header
    route: Route
    content: object = None
    beehive: object = UNSET


class Other(Struct, frozen=True, gc=False):
    """A frame that is none of our messages: keepalives, KubeEdge's other traffic, operations that nobody knows."""

    operation: str
    resource: str
    frame: Frame


class Read(Struct, Generic[B], frozen=True, gc=False):
    """What a frame says."""

    message_id: str
    answers: str
    """Id of the message that it answers; empty when it answers none."""
    node: str
    """The node that the resource names; empty for an `Other`. Never trust it before comparing it with the session's."""
    body: B


def encode(frame: Frame | Outgoing) -> bytes:
    """As Go's encoder writes it: `<`, `>`, `&` and two line separators escaped, a newline at the end."""
    data = _ENCODER.encode(frame)
    # Looked for as numbers: for a `bytes`, `in` raises and catches an error inside, which costs as much as encoding.
    if 0x3C in data or 0x3E in data or 0x26 in data or not data.isascii():
        for plain, escaped in _GO_ESCAPES:
            data = data.replace(plain, escaped)
    return data + b"\n"


def decode(data: bytes) -> tuple[Frame, Header, Route]:
    """A frame with its header and route, which are empty where they are missing, as in Go. Raises Refused."""
    if len(data) > MOST_BYTES:
        raise Refused(f"a frame of {len(data)} bytes is larger than {MOST_BYTES}")
    frame = decoded(data, _FRAME, "a frame")
    return frame, frame.header or _NO_HEADER, frame.route or _NO_ROUTE


def decoded(data: bytes | Raw, decoder: "msgspec.json.Decoder[B]", what: str) -> B:
    """Raises Refused with a sentence that begins with `what`, whatever the bytes are."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        text = str(error) or "malformed"
        raise Refused(
            f"{what} cannot be read: {text if text[1:2].isupper() else text[:1].lower() + text[1:]}"
        ) from None


_GO_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
_NO_HEADER, _NO_ROUTE = Header(), Route()
_ENCODER = msgspec.json.Encoder()
_FRAME = msgspec.json.Decoder(Frame)
