"""From an accepted socket to a connected node: TLS, then the websocket's upgrade (picows)."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from picows import WSAutoPingStrategy, WSUpgradeRequest, WSUpgradeResponse, WSUpgradeResponseWithListener
from picows.picows import WSProtocol  # type: ignore[attr-defined] # what ws_create_server makes of each connection

from beehive.messages import wire
from modules.cloudhub.peer import Fleet, Peer
from modules.cloudhub.tls import Contexts

Failed = Callable[[str, str], None]
"""Told the address and why TLS did not come about."""

_QUIET = logging.Logger("picows.hub", level=logging.CRITICAL)
_READ_BUFFER = 2048
_SEND_BUFFER = 65536
"""Of the kernel, which by itself would take up to 4 MB for a node that reads nothing."""
GOODBYE = 1.0
"""Seconds that a closing connection waits for the other end's goodbye; by default TLS waits 30."""


class Reception:
    """For one opening of the hub; `generation` names the CA of the hour.

    `timeout` is for the handshake; a node that reads nothing for `unread` seconds is gone, which the kernel sees too
    when what it was told is too little to lie here.
    """

    def __init__(
        self, fleet: Fleet, contexts: Contexts, timeout: float, unread: float, generation: Callable[[], str],
        failed: Failed,
    ) -> None:  # fmt: skip
        self._fleet, self._contexts, self._timeout, self._unread = fleet, contexts, timeout, unread
        self._generation, self._failed = generation, failed

    async def receive(self, one: socket.socket, address: str) -> None:
        """Until TLS is done: its cost is what must not come all at once. The upgrade has `timeout` of its own."""
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self._unread * 1000))
        await received(self._protocol, one, address, self._contexts, self._timeout, self._failed)

    def _protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = WSProtocol(
            None, None, False, self._upgrade, _QUIET, True, self._timeout,
            False, 0.0, 0.0, WSAutoPingStrategy.PING_WHEN_IDLE, False,
            wire.MOST_BYTES, None, _READ_BUFFER,
        )  # fmt: skip
        return protocol

    def _upgrade(self, request: WSUpgradeRequest) -> WSUpgradeResponseWithListener:
        """Any path. Without KubeEdge's header for messages nothing would ever be read (spec/kubeedge.md 5.2)."""
        if request.headers.get("ConnectionUse", "") not in ("msg", "str"):
            self._fleet.counters["refused_upgrade"] += 1
            return WSUpgradeResponseWithListener(
                WSUpgradeResponse.create_error_response(400, b"the header ConnectionUse: msg is missing\n"), None
            )
        own = {wire.PROTOCOL_HEADER: wire.PROTOCOL, wire.CA_HEADER: self._generation()}
        return WSUpgradeResponseWithListener(WSUpgradeResponse.create_101_response(own), Peer(self._fleet, request))


async def received(
    protocol: Callable[[], asyncio.BaseProtocol],
    one: socket.socket,
    address: str,
    contexts: Contexts,
    timeout: float,
    failed: Failed,
) -> asyncio.BaseProtocol | None:
    """TLS on an accepted socket; None when it does not come about."""
    loop = asyncio.get_running_loop()
    try:
        _, made = await loop.connect_accepted_socket(
            protocol, one, ssl=contexts.outer, ssl_handshake_timeout=timeout, ssl_shutdown_timeout=GOODBYE
        )  # fmt: skip
    except ssl.SSLError as error:
        failed(address, getattr(error, "verify_message", "") or error.reason or str(error))
    except (OSError, TimeoutError) as error:
        failed(address, error.strerror or str(error) or type(error).__name__)
    else:
        return made
    return None
