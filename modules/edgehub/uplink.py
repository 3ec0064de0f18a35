"""The websocket to the cloud (websockets): one dial, and one connection."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidProxy, InvalidStatus, InvalidURI
from websockets.typing import Data

from beehive.errors import Unavailable
from beehive.messages import wire

_QUIET = logging.Logger("websockets.edge", level=logging.CRITICAL)
"""What goes wrong comes out as Unavailable; nothing is logged twice."""


class Dial(Struct, frozen=True):
    """Whom to dial, as whom."""

    server: str
    """`host:port`."""
    node: str
    project: str
    timeout: float
    proxy: str = ""
    """URL; empty for what the environment says."""


class Connection(Protocol):
    """One link while it stands; a test may bring its own."""

    ca: str
    """SHA-256 of the cloud's CA, in hex, as it says; empty when it does not."""
    legacy: bool
    """The other end is a real CloudCore: it acknowledges nothing."""

    async def send(self, data: bytes) -> None:
        """Raises Unavailable when the link has ended."""

    def frames(self) -> AsyncIterator[bytes]:
        """Whole messages until the link ends."""

    async def alive(self, timeout: float) -> bool:
        """Does the other end answer a ping within `timeout` seconds?"""

    async def close(self) -> None:
        """Say goodbye; waits a second at most."""

    def cut(self) -> None:
        """End it without a word."""

    def why(self) -> tuple[str, float | None]:
        """After its end: why, as a phrase, and the spread that the cloud asked for."""


class _Connect(connect):
    """Redirects are not followed: nobody but the configured cloud is shown our certificate."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def dial(to: Dial, context: ssl.SSLContext) -> Connection:
    """Raises Unavailable with a phrase that says what is wrong."""
    url = f"wss://{to.server}/{to.project}/{to.node}/events"
    headers = {
        "node_id": to.node,
        "project_id": to.project,
        "ConnectionUse": "msg",
        wire.PROTOCOL_HEADER: wire.PROTOCOL,
    }
    try:
        websocket = await _Connect(
            url,
            ssl=context,
            additional_headers=headers,
            user_agent_header=None,
            compression=None,
            proxy=to.proxy or True,
            open_timeout=to.timeout,
            ping_interval=None,
            close_timeout=1,
            ssl_shutdown_timeout=1,
            max_size=wire.MOST_BYTES,
            logger=_QUIET,
        )
    except InvalidStatus as error:
        text = (error.response.body or b"").decode(errors="replace").strip()[:200]
        raise Unavailable(f"{to.server} answers {error.response.status_code}: {text}") from None
    except ssl.SSLCertVerificationError as error:
        raise Unavailable(f"{to.server} is not trusted: {error.verify_message}") from None
    except (OSError, TimeoutError, EOFError, InvalidHandshake, InvalidURI, InvalidProxy, ValueError) as error:
        raise Unavailable(f"{to.server}: {_phrase(error)}") from None
    return Uplink(websocket)


class Uplink:
    """A Connection over a websocket."""

    def __init__(self, websocket: ClientConnection) -> None:
        self._websocket = websocket
        response = websocket.response
        self.legacy = response is None or response.headers.get(wire.PROTOCOL_HEADER) != wire.PROTOCOL
        self.ca = "" if response is None else response.headers.get(wire.CA_HEADER, "")
        self._end: ConnectionClosed | None = None

    async def send(self, data: bytes) -> None:
        try:
            await self._websocket.send(data.decode())
        except ConnectionClosed as closed:
            self._end = closed
            raise Unavailable(self.why()[0]) from None

    async def frames(self) -> AsyncIterator[bytes]:
        while True:
            try:
                data: Data = await self._websocket.recv()
            except ConnectionClosed as closed:
                self._end = closed
                return
            yield data.encode() if isinstance(data, str) else data

    async def alive(self, timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                await (await self._websocket.ping())
        except (TimeoutError, ConnectionClosed):
            return False
        return True

    async def close(self) -> None:
        await self._websocket.close()

    def cut(self) -> None:
        self._websocket.transport.abort()

    def why(self) -> tuple[str, float | None]:
        received = self._end.rcvd if self._end else None
        if received is None:
            sent = self._end.sent if self._end else None
            return (f"closed by us ({sent.code} {sent.reason})" if sent else "the connection broke"), None
        spread = wire.spread_of(received.reason) if received.code == 1012 else None
        return f"the cloud closed it ({received.code} {received.reason})".replace(" )", ")"), spread


def _phrase(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionResetError | BrokenPipeError | ConnectionAbortedError):
        return "it cut the connection off (it does not lead, or a firewall on the way lets nothing through)"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    if isinstance(error, InvalidHandshake | EOFError):
        return "it closed the connection before the upgrade (it does not lead, or does not accept our certificate)"
    return str(error) or type(error).__name__
