"""The HTTPS port: each connection, from the accepted socket to its end (uvicorn's protocol, `routes.py` behind it)."""

import asyncio
import logging
import socket
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from modules.cloudhub.line import Room
from modules.cloudhub.reception import Failed, received
from modules.cloudhub.routes import MOST_HEADERS
from modules.cloudhub.tls import Contexts

ROOM = Room(places=1000, places_each=128)
"""Connections at once; a peer that dribbles holds one place of its own address's, for a minute."""
CONNECTION_LIFETIME = 60.0
"""Seconds: nothing here takes longer."""
_GRACE = 1.0


class _Protocol(H11Protocol):
    """Adds who the peer is, by its certificate, and an end to every connection."""

    def __init__(self, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self.ended = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.app_state = {"certificate": transport.get_extra_info("peercert")}
        self._deadline = self.loop.call_later(CONNECTION_LIFETIME, transport.abort)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self.ended.set()
        super().connection_lost(exc)


class Web:
    """The connections, from its making until `stop`."""

    def __init__(self, app: Starlette, contexts: Contexts, timeout: float, failed: Failed) -> None:
        self._contexts, self._timeout, self._failed = contexts, timeout, failed
        self._state = ServerState()
        self._open: set[_Protocol] = set()
        self._config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.CRITICAL,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MOST_HEADERS,
        )
        self._config.load()

    async def receive(self, one: socket.socket, address: str) -> None:
        """Until the connection has ended."""
        protocol = _Protocol(self._config, self._state)
        if await received(lambda: protocol, one, address, self._contexts, self._timeout, self._failed):
            self._open.add(protocol)
            try:
                await protocol.ended.wait()
            finally:
                if protocol.ended.is_set():
                    self._open.discard(protocol)

    def stop(self) -> None:
        """Let requests in hand be answered, a second long; then no connection is left."""
        for connection in list(self._state.connections):
            connection.shutdown()
        asyncio.get_running_loop().call_later(_GRACE, self._abort)

    def _abort(self) -> None:
        for protocol in self._open:
            protocol.transport.abort()
