"""What uvicorn lacks: connections that end, signals left alone, a sentence when the port is taken."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from beehive.errors import RuntimeFailed

_CONNECTION_LIFETIME = 60.0


class Protocol(H11Protocol):
    """A connection ends after a minute, between two reviews: who dribbles a request holds nothing for ever."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.loop.call_later(_CONNECTION_LIFETIME, self._end)

    def _end(self) -> None:
        cycle: Any = self.cycle  # None before the first request, whatever uvicorn's annotation says
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            self.loop.call_later(1.0, self._end)
        else:
            self.transport.close()


class Server(uvicorn.Server):
    """Signals belong to the process, not to this server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound(address: str, port: int) -> socket.socket:
    """The port, taken but not yet listening: until there is a certificate, calls fail at once.

    Raises RuntimeFailed when it is another's.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY on these alone
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((address, port))
    except OSError as error:
        made.close()
        text = error.strerror or error
        raise RuntimeFailed(f"Port {port} on {address} cannot be used: {text}. Set admission.port.") from None
    return made
