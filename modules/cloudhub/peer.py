"""One connected node: its websocket (picows), from the upgrade to its end.

What happens to a connection when a frame cannot be used:
* larger than 1 MiB, or not websocket at all: it is closed (1009, 1002), for what follows cannot be read either;
* not JSON, in the wrong shape, about another node, of unknown operation, or one that trips a bug of ours: set aside,
  counted, answered with `error` when it is one of our own edges (a real EdgeCore does not read answers), and the
  connection stays; after 20 such frames it is closed (1008);
* nobody takes it in: the socket is not read until somebody does. Nothing is dropped.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable
from typing import Any, Protocol

from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport, WSUpgradeRequest

from beehive.messages import wire
from beehive.messages.fleet import Heard
from beehive.seam import Guard

MOST_UNSENT = 192 * 1024
"""A peer for which so many bytes lie here is cut off. Below them the event loop's TCP transport holds 64 KiB of its own
(uvloop, asyncio), so that a reader that stops never holds more than 256 KiB, and one message."""
MOST_REFUSED = 20
MOST_AT_ONCE = 500.0
"""Messages, until the fleet says otherwise."""
_TEXT, _PING, _PONG, _CLOSE = WSMsgType.TEXT, WSMsgType.PING, WSMsgType.PONG, WSMsgType.CLOSE
"""Asking the class for them costs as much as the rest of looking at a frame."""


class Fleet(Protocol):
    """What a peer tells the fleet; `modules/cloudhub/fleet.py`."""

    counters: Counter[str]

    def arrived(self, peer: "Peer", certificate: dict[str, Any] | None) -> None:
        """Its upgrade is done; either `peer.admitted` or `peer.close` follows."""

    def frame(self, peer: "Peer", data: bytes) -> None:
        """A whole text message."""

    def gone(self, peer: "Peer") -> None:
        """Its connection ended."""

    def take_in(self, heard: Heard) -> Awaitable[None] | None:
        """Hand it on; None when that is done already, else something that ends when it is."""

    def start(self, work: Any) -> None:
        """Run a coroutine beside everything else."""


class Peer(WSListener):
    """Made at the upgrade request."""

    def __init__(self, fleet: Fleet, request: WSUpgradeRequest) -> None:
        super().__init__()
        headers = request.headers
        self.claims = headers.get("node_id", "")
        self.legacy = headers.get(wire.PROTOCOL_HEADER) != wire.PROTOCOL
        self.node = ""
        """Once admitted: what its certificate says."""
        self.guard: Guard | None = None
        """The seam around each of its messages, once admitted."""
        self.epoch = 0
        self.begins, self.ends = 0.0, 0.0
        """From when to when its certificate is good, in seconds since the epoch."""
        self.allowance = MOST_AT_ONCE
        """So many messages more are read before it must wait; the fleet refills it."""
        self._clock = asyncio.get_running_loop().time  # asking for the loop costs a system call
        self.heard_at = self._clock()
        self.unread_since = 0.0
        """When it stopped reading what we write; 0.0 while it reads."""
        self.refused = 0
        self._fleet = fleet
        self._transport: WSTransport | None = None
        self._parts: list[bytes] = []
        self._backlog: deque[Heard] = deque()
        self._pumping = False
        self._throttled = False

    # ---- its life ----------------------------------------------------------------------------------------------

    def admitted(self, node: str, epoch: int, guard: Guard) -> None:
        """It is this node, and this is its session."""
        self.node, self.epoch, self.guard = node, epoch, guard

    def close(self, code: WSCloseCode, reason: str) -> None:
        """Say goodbye and end the connection; it gets no word in any more."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.send_close(code, reason.encode()[:120])
            transport.disconnect()

    def cut(self) -> None:
        """End the connection without a word: it does not read, or does not live."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.disconnect(graceful=False)

    @property
    def waits_for_us(self) -> bool:
        """We do not read it at the moment, so its silence means nothing."""
        return self._pumping or self._throttled

    def has_room(self) -> bool:
        """It reads what we write. Nothing is counted for who was never behind."""
        if not self.unread_since or self._transport is None:
            return True
        unsent: int = self._transport.underlying_transport.get_write_buffer_size()
        return unsent <= MOST_UNSENT

    def write(self, data: bytes) -> bool:
        """Send a text frame; False when the connection has ended."""
        if self._transport is None:
            return False
        self._transport.send(_TEXT, data)
        return True

    # ---- picows ------------------------------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        transport.underlying_transport.set_write_buffer_limits(high=1, low=0)  # hear of the first byte that lies here
        self._fleet.arrived(self, transport.underlying_transport.get_extra_info("peercert"))

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        self.heard_at = self._clock()
        if self._transport is None:
            return
        self.allowance -= 1.0
        if self.allowance <= 0.0:
            self._slow_down()
        kind = frame.msg_type
        if kind == _TEXT and frame.fin and not self._parts:
            self._fleet.frame(self, frame.get_payload_as_bytes())
        elif kind == _PING:
            if self.has_room():
                transport.send_pong(frame.get_payload_as_bytes())
        elif kind == _CLOSE:
            self.close(WSCloseCode.OK, "")
        elif kind != _PONG:
            self._part(frame)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._transport = None
        self._fleet.gone(self)

    def pause_writing(self) -> None:
        self.unread_since = self._clock()

    def resume_writing(self) -> None:
        self.unread_since = 0.0

    def _part(self, frame: WSFrame) -> None:
        """Join the fragments of a message; in all they may be as large as one frame."""
        data = frame.get_payload_as_bytes()
        if frame.fin and not self._parts:
            self._fleet.frame(self, data)
            return
        self._parts.append(data)
        if sum(map(len, self._parts)) > wire.MOST_BYTES or len(self._parts) > 1024:
            self.close(WSCloseCode.MESSAGE_TOO_BIG, "a message may have 1 MiB")
        elif frame.fin:
            whole, self._parts = b"".join(self._parts), []
            self._fleet.frame(self, whole)

    # ---- back-pressure -----------------------------------------------------------------------------------------

    def hand_on(self, heard: Heard) -> None:
        """In order; while somebody upstairs has no room, this socket is not read."""
        if self._pumping:
            self._backlog.append(heard)
            return
        waiting = self._fleet.take_in(heard)
        if waiting is not None:
            self._pumping = True
            self._read(False)
            self._fleet.start(self._pump(waiting))

    async def _pump(self, waiting: Awaitable[None]) -> None:
        try:
            await waiting
            while self._backlog:
                following = self._fleet.take_in(self._backlog.popleft())
                if following is not None:
                    await following
        finally:
            self._pumping = False
            self._go_on()

    def refill(self, messages: float, most: float) -> None:
        """Time has passed: it may say so many messages more, `most` at once."""
        self.allowance = min(most, self.allowance + messages)
        if self._throttled and self.allowance > 0:
            self._throttled = False
            self._go_on()

    def _slow_down(self) -> None:
        """It says too much: it is read more slowly, TCP tells it so, and nothing is lost."""
        if not self._throttled:
            self._throttled = True
            self._fleet.counters["throttled"] += 1
            self._read(False)

    def _go_on(self) -> None:
        """It is read again, unless something else still holds it."""
        if not self.waits_for_us:
            self.heard_at = self._clock()
            self._read(True)

    def _read(self, on: bool) -> None:
        if self._transport is not None:
            underlying = self._transport.underlying_transport
            underlying.resume_reading() if on else underlying.pause_reading()
