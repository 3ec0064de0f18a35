"""What the HTTPS port answers (spec/kubeedge.md 5.8). Starlette."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from beehive.errors import Refused
from beehive.messages import wire
from beehive.world import World
from modules.cloudhub import identity
from modules.cloudhub.enrolment import Enrolment
from modules.cloudhub.keyring import Keyring
from modules.cloudhub.tickets import NOT_YET, Tickets

log = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]
_MOST_BODY = 1 << 20
_LINGER, _MOST_LINGERING = 2.0, 8 << 20
MOST_HEADERS = 16384
_DER = "application/octet-stream"


class Services(Struct, frozen=True):
    """What stands behind the routes."""

    enrolment: Enrolment
    keyring: Keyring
    tickets: Tickets
    knows: Callable[[str], Awaitable[bool | None]]
    """Is there a Node of this name? None: the API server is away."""
    world: World


class _Answer(Exception):  # noqa: N818 - not an error
    """Ends a request."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.response = PlainTextResponse(text, status, headers) if status != 413 else _TooLarge(text)


class _TooLarge(PlainTextResponse):
    """413 at once; then what is still coming is thrown away for a moment, or a reset would overtake the answer."""

    def __init__(self, text: str) -> None:
        super().__init__(text, 413, {"Connection": "close"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER):
                left = _MOST_LINGERING
                while left > 0 and (message := await receive()).get("more_body"):
                    left -= len(message.get("body", b""))
        await send({"type": "http.response.body", "body": b""})


def application(services: Services) -> Starlette:
    """The routes."""
    made = _Routes(services)
    table: tuple[tuple[str, str, Handler], ...] = (
        ("GET", "/ca.crt", made.ca),
        ("GET", "/edge.crt", made.edge),
        ("GET", "/node/{node}", made.node),
        ("POST", "/nodeupgrade", made.verdict),
        ("POST", "/task/{type}/name/{job}/node/{node}/status", made.task),
    )
    return Starlette(routes=[Route(path, made.seam(handler), methods=[verb]) for verb, path, handler in table])


class _Routes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def seam(self, handler: Handler) -> Handler:
        """A request that trips a bug spoils only itself (architecture.md 9)."""

        async def guarded(request: Request) -> Response:
            try:
                _check_headers(request)
                return await handler(request)
            except _Answer as answer:
                return answer.response
            except Exception:
                incident = self._services.world.new_id()
                log.exception("a request was set aside (%s)", incident)
                return PlainTextResponse(f"internal error {incident}\n", 500)

        return guarded

    # ---- joining -----------------------------------------------------------------------------------------------

    async def ca(self, _: Request) -> Response:
        authority = self._services.keyring.authority
        assert authority is not None
        return Response(authority.ca.certificate, media_type=_DER)

    async def edge(self, request: Request) -> Response:
        body = await _body(request, "a signing request may have 1 MiB\n")
        headers = request.headers
        answer = await self._services.enrolment.edge(
            headers.get("authorization", ""), headers.get("nodename", ""), body, _certificate(request)
        )
        if answer.certificate:
            return Response(answer.certificate, media_type=_DER)
        return PlainTextResponse(answer.text, answer.status)

    async def node(self, request: Request) -> Response:
        known = await self._services.knows(request.path_params["node"])
        if known is None:
            return PlainTextResponse("Failed to query node information", 500)
        return PlainTextResponse("Node found") if known else PlainTextResponse("Node not found", 404)

    # ---- what a host's tool reports ----------------------------------------------------------------------------

    async def verdict(self, request: Request) -> Response:
        caller = self._caller(request)
        body = await _body(request, wire.TOO_LARGE)
        return await self._take(caller, lambda now: wire.verdict(body, now))

    async def task(self, request: Request) -> Response:
        caller, path = self._caller(request), request.path_params
        body = await _body(request, wire.TOO_LARGE)
        return await self._take(
            caller, lambda now: wire.task_status(path["type"], path["job"], path["node"], body, now)
        )

    def _caller(self, request: Request) -> str:
        """The node that the client certificate belongs to."""
        certificate = _certificate(request)
        if not certificate:
            raise _Answer(401, "a report needs the node's client certificate\n")
        try:
            node = identity.node_of(certificate)
            self._services.keyring.revocations.check(node, identity.lifetime_of(certificate)[0])
        except Refused as refusal:
            raise _Answer(403, f"{refusal}\n") from None
        return node

    async def _take(self, caller: str, read: Callable[[float], wire.Post]) -> Response:
        try:
            post = read(self._services.world.now())
        except Refused as refusal:
            raise _Answer(400, refusal.reason) from None
        if post.node != caller:
            raise _Answer(403, f"{caller} may not report for {post.node[:60]!r}\n")
        outcome = await self._services.tickets.ask(caller, post.report)
        if outcome == NOT_YET:
            raise _Answer(503, "the report is not in the API server yet; send it again\n", **{"Retry-After": "5"})
        if outcome == "seen":
            return PlainTextResponse("ok")
        raise _Answer(404, f"there is no job {post.report.job!r} that has the node {caller!r}\n")


def _certificate(request: Request) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = getattr(request.state, "certificate", None)
    return found


def _check_headers(request: Request) -> None:
    """h11 looks at their size only while they are incomplete."""
    if sum(len(name) + len(value) for name, value in request.scope["headers"]) > MOST_HEADERS:
        raise _Answer(431, f"the headers may have {MOST_HEADERS} bytes\n", Connection="close")


async def _body(request: Request, too_large: str) -> bytes:
    """The body; 413 as soon as it has grown too large, or says that it will."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > _MOST_BODY:
        raise _Answer(413, too_large)
    data = bytearray()
    parts: AsyncIterator[bytes] = request.stream()
    with contextlib.suppress(ClientDisconnect):
        async for part in parts:
            data += part
            if len(data) > _MOST_BODY:
                raise _Answer(413, too_large)
    return bytes(data)
