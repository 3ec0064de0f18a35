"""The webhook's HTTPS server. Starlette on uvicorn.

A review is judged in the loop: it takes a millisecond, for the largest job some ten.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from beehive.errors import RuntimeFailed
from beehive.world import World
from modules.admission import review
from modules.admission.registration import PATH

log = logging.getLogger(__name__)

KUBEEDGE_PATH = "/nodeupgradejobs"
"""Where a registration of KubeEdge's webhook points."""
_MOST_CONNECTIONS = 500
_BODY_TIMEOUT = 20.0
"""Seconds that a body may take: the API server itself gives up after 30."""
_CONNECTION_LIFETIME = 60.0
_BACKLOG = 256


class _Protocol(H11Protocol):
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


class _Server(uvicorn.Server):
    """Signals belong to the process, not to this server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Webhook:
    """The server, from `serve` until `stop`. The certificate can be changed at any moment."""

    def __init__(self, world: World, context: ssl.SSLContext) -> None:
        self.context = context
        """What new connections are shown."""
        self.answered: dict[int, int] = {}
        """Answers so far, by HTTP status."""
        self._world = world
        outer = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        outer.minimum_version = ssl.TLSVersion.TLSv1_2
        outer.sni_callback = self._choose  # called without a name, too
        config = uvicorn.Config(
            self.app(),
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=2,
            backlog=_BACKLOG,
            ssl_context_factory=lambda _config, _default: outer,
        )
        self._server = _Server(config)

    def _choose(self, connection: Any, _name: str | None, _outer: ssl.SSLContext) -> None:
        connection.context = self.context

    async def serve(self, listening: socket.socket) -> None:
        """Until `stop`; the socket is closed then."""
        await self._server.serve(sockets=[listening])

    async def until_started(self, serving: "asyncio.Task[None]") -> None:
        """Wait until `serving`, the task of `serve`, listens; raises what it failed with."""
        while not self._server.started:
            if serving.done():
                await serving
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        """Take no new connection; `serve` returns soon."""
        self._server.should_exit = True

    def app(self) -> Starlette:
        """The routes."""
        return Starlette(routes=[Route(path, self._review, methods=["POST"]) for path in (PATH, KUBEEDGE_PATH)])

    async def _review(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(_BODY_TIMEOUT):
                body = await _body(request)
        except TimeoutError:
            return self._counted(PlainTextResponse("the body did not come in time\n", 408))
        try:
            reply = review.reply(request.headers.get("content-type", ""), body)
        except Exception:  # the seam where one bad review spoils only itself (product.md 2.11)
            return self._set_aside()
        kind = "application/json" if reply.status == 200 else "text/plain"
        return self._counted(Response(reply.body, reply.status, media_type=kind))

    def _set_aside(self) -> Response:
        incident = self._world.new_id()
        log.exception("a review was set aside (%s)", incident)
        return self._counted(PlainTextResponse(f"internal error {incident}; the log of this process tells more\n", 500))

    def _counted(self, response: Response) -> Response:
        self.answered[response.status_code] = self.answered.get(response.status_code, 0) + 1
        return response


async def _body(request: Request) -> bytes:
    """The body; no more of it than shows that it is too large."""
    data = bytearray()
    with contextlib.suppress(ClientDisconnect):
        async for part in request.stream():
            data += part
            if len(data) > review.MOST_BYTES:
                break
    return bytes(data)


def bound(address: str, port: int) -> socket.socket:
    """The port, taken but not yet listening: until there is a certificate, calls fail at once.

    Raises RuntimeFailed when it is another's.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((address, port))
    except OSError as error:
        made.close()
        text = error.strerror or error
        raise RuntimeFailed(f"Port {port} on {address} cannot be used: {text}. Set admission.port.") from None
    return made
