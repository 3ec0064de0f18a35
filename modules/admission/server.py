"""The webhook's HTTPS server. Starlette on uvicorn.

Everything is done in the loop: a review takes a millisecond, one of the largest jobs some ten, its conversion 30.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from beehive.api.crd import CONVERT_PATH
from beehive.errors import Refused
from beehive.seam import Seam
from beehive.world import World
from modules.admission import conversion, envelope, mutation, review
from modules.admission.connections import Protocol, Server
from modules.admission.envelope import Reply
from modules.admission.known import NOTHING
from modules.admission.looker import Looker
from modules.admission.registration import MUTATE_PATH, VALIDATE_PATH

log = logging.getLogger(__name__)

KUBEEDGE_VALIDATE, KUBEEDGE_MUTATE = "/nodeupgradejobs", "/mutating/nodeupgradejobs"
"""Where a registration of KubeEdge's webhook points (spec/kubeedge.md 2.1)."""
Answer = Callable[[str, bytes], Awaitable[Reply]]
_MOST_CONNECTIONS = 500
_AT_ONCE = 8
"""Answers made in one turn of the loop: a burst of hundreds must not hold it."""
_BODY_TIMEOUT = 20.0
"""Seconds that a body may take: the API server itself gives up after 30."""
_BACKLOG = 256


class Webhook:
    """The server, from `serve` until `stop`. The certificate can be changed at any moment."""

    def __init__(self, world: World, context: ssl.SSLContext, looker: Looker) -> None:
        self.context = context
        """What new connections are shown."""
        self.answered: dict[int, int] = {}
        """Answers so far, by HTTP status."""
        self._seam = Seam("a review", world, log)
        self._looker = looker
        self._lane = asyncio.Semaphore(_AT_ONCE)
        outer = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        outer.minimum_version = ssl.TLSVersion.TLSv1_2
        outer.sni_callback = self._choose  # called without a name, too
        config = uvicorn.Config(
            self.app(),
            http=Protocol,
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
        self._server = Server(config)

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
        reviews, conversions = envelope.MOST_BYTES, conversion.MOST_BYTES
        routes = (
            (VALIDATE_PATH, reviews, self._judged),
            (KUBEEDGE_VALIDATE, reviews, self._judged),
            (MUTATE_PATH, reviews, _mutated),
            (KUBEEDGE_MUTATE, reviews, _mutated),
            (CONVERT_PATH, conversions, _converted),
        )
        return Starlette(routes=[Route(path, self._route(most, how), methods=["POST"]) for path, most, how in routes])

    def _route(self, most: int, how: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            return self._counted(await self._answered(request, most, how))

        return serve

    async def _answered(self, request: Request, most: int, how: Answer) -> Response:
        try:
            async with asyncio.timeout(_BODY_TIMEOUT):
                body = await _body(request, most)
        except TimeoutError:
            return PlainTextResponse("the body did not come in time\n", 408)
        with self._seam.guarding(path=request.url.path) as guard:
            reply = await how(request.headers.get("content-type", ""), body)
        if guard.incident:
            text = f"internal error {guard.incident}; the log of this process tells more\n"
            return PlainTextResponse(text, 500)
        kind = "application/json" if reply.status == 200 else "text/plain"
        return Response(reply.body, reply.status, media_type=kind)

    async def _judged(self, content_type: str, body: bytes) -> Reply:
        request = envelope.opened(content_type, body)
        if isinstance(request, Reply):
            return request
        known = await self._looker.known() if request.operation == "CREATE" else NOTHING
        return envelope.closed(review.judge(request, known))

    def _counted(self, response: Response) -> Response:
        self.answered[response.status_code] = self.answered.get(response.status_code, 0) + 1
        return response


async def _mutated(content_type: str, body: bytes) -> Reply:
    request = envelope.opened(content_type, body)
    return request if isinstance(request, Reply) else envelope.closed(mutation.mutated(request))


async def _converted(content_type: str, body: bytes) -> Reply:
    """One object after the other, others served in between: a list may hold many jobs of 5,000 nodes."""
    request = conversion.opened(content_type, body)
    if isinstance(request, Reply):
        return request
    done = []
    try:
        for item in request.objects or ():
            done.append(conversion.one_converted(item, request.desired_api_version))
            await asyncio.sleep(0)
    except Refused as problem:
        log.warning("a NodeUpgradeJob was not converted: %s", problem.reason)
        return conversion.failed(request, problem.reason)
    return conversion.closed(request, done)


async def _body(request: Request, most: int) -> bytes:
    """The body; no more of it than shows that it is too large."""
    data = bytearray()
    with contextlib.suppress(ClientDisconnect):
        async for part in request.stream():
            data += part
            if len(data) > most:
                break
    return bytes(data)
