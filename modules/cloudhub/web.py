"""The HTTPS port: where edges get the CA and their certificates (spec/kubeedge.md 5.8). Starlette on uvicorn."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from modules.cloudhub.enrolment import Enrolment

log = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]

_MOST_CSR = 1 << 20
_MOST_CONNECTIONS = 1000
_CONNECTION_LIFETIME = 60.0
"""Seconds: nothing here takes longer, and a peer that dribbles its request holds nothing for ever."""


class _Protocol(H11Protocol):
    """Adds who the peer is, by its certificate, and an end to every connection."""

    def connection_made(self, transport: Any) -> None:
        self.app_state = {**self.app_state, "certificate": transport.get_extra_info("peercert")}
        super().connection_made(transport)
        self.loop.call_later(_CONNECTION_LIFETIME, transport.abort)


class _Server(uvicorn.Server):
    """Signals belong to the process, not to this server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Web:
    """The server, from `open` until `closed`."""

    def __init__(self, enrolment: Enrolment, context: ssl.SSLContext) -> None:
        config = uvicorn.Config(
            _app(enrolment),
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
            h11_max_incomplete_event_size=16384,
            timeout_graceful_shutdown=1,
            ssl_context_factory=lambda _config, _default: context,
        )
        self._server = _Server(config)

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
        """Take no new connection from now on; `serve` returns soon."""
        self._server.should_exit = True
        for server in getattr(self._server, "servers", ()):
            server.close()


def _app(enrolment: Enrolment) -> Starlette:
    async def ca(_request: Request) -> Response:
        return Response(enrolment.ca.certificate, media_type="application/octet-stream")

    async def edge(request: Request) -> Response:
        body = await _body(request, _MOST_CSR)
        if body is None:
            return PlainTextResponse("a signing request may have 1 MiB\n", 413)
        certificate = getattr(request.state, "certificate", None)
        headers = request.headers
        answer = await enrolment.edge(headers.get("authorization", ""), headers.get("nodename", ""), body, certificate)
        if answer.certificate:
            return Response(answer.certificate, media_type="application/octet-stream")
        return PlainTextResponse(answer.text, answer.status)

    def seam(handler: Handler) -> Handler:
        """A request that trips a bug spoils only itself (architecture.md 9)."""

        async def guarded(request: Request) -> Response:
            try:
                return await handler(request)
            except Exception:
                incident = enrolment.world.new_id()
                log.exception("a request was set aside (%s)", incident)
                return PlainTextResponse(f"internal error {incident}\n", 500)

        return guarded

    paths = {"/ca.crt": ca, "/edge.crt": edge}
    return Starlette(routes=[Route(path, seam(handler), methods=["GET"]) for path, handler in paths.items()])


async def _body(request: Request, most: int) -> bytes | None:
    """The body; None as soon as it has grown too large."""
    data = bytearray()
    parts: AsyncIterator[bytes] = request.stream()
    with contextlib.suppress(ClientDisconnect):
        async for part in parts:
            data += part
            if len(data) > most:
                return None
    return bytes(data)
