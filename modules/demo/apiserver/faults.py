"""Faults on demand, for tests: an API server that answers badly, late, half or not at all.

``POST /faults`` adds one (a `Fault` as JSON), ``GET /faults`` shows those that still wait, ``DELETE /faults`` clears
them. They exist only in a server that was started with them.
"""

import asyncio
import re
from typing import Annotated, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from modules.demo.apiserver.status import Refusal

_REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
_PATH = "/faults"


class Fault(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What happens to the next requests that fit."""

    method: str = ""
    """Empty: any."""
    path: str = ""
    """A regular expression that is searched in path and query."""
    skip: Annotated[int, msgspec.Meta(ge=0)] = 0
    """So many fitting requests are left alone first."""
    times: Annotated[int, msgspec.Meta(ge=1)] = 1
    """So many are spoilt, then the fault is gone."""
    delay: Annotated[float, msgspec.Meta(ge=0)] = 0
    """Seconds to wait before anything else."""
    status: int = 0
    """Answer with this refusal; the request has no effect."""
    drop: Literal["", "request", "answer"] = ""
    """Close the connection before the request has an effect, or after it had one and before it is answered."""
    cut_after: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Close the connection after so many bytes of the answer's body, in the middle of a line if it falls so."""

    def fits(self, method: str, path: str) -> bool:
        """Whether it is about this request."""
        return self.method in {"", method} and re.search(self.path, path) is not None


class Protocol(HttpToolsProtocol):
    """uvicorn's, which lets a fault close the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.app_state = {**self.app_state, "abort": transport.abort}
        super().connection_made(transport)


class Faults:
    """ASGI middleware that spoils requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._waiting: list[Fault] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http" and scope["path"] == _PATH:
            answer = await self._control(Request(scope, receive))
            await answer(scope, receive, send)
            return
        fault = self._next(scope["method"], f"{scope['path']}?{scope['query_string'].decode()}")
        if fault is None:
            await self._app(scope, receive, send)
        else:
            await self._spoil(fault, scope, receive, send)

    async def _control(self, request: Request) -> Response:
        if request.method == "POST":
            try:
                self._waiting.append(msgspec.json.decode(await request.body(), type=Fault))
            except msgspec.DecodeError as error:
                return Response(str(error), 400)
        elif request.method == "DELETE":
            self._waiting.clear()
        return Response(msgspec.json.encode(self._waiting), media_type="application/json")

    def _next(self, method: str, path: str) -> Fault | None:
        for fault in self._waiting:
            if not fault.fits(method, path):
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            fault.times -= 1
            if not fault.times:
                self._waiting.remove(fault)
            return fault
        return None

    async def _spoil(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.drop == "request":
            scope["state"]["abort"]()
        elif fault.status:
            await _refusal(fault.status)(scope, receive, send)
        else:
            await self._app(scope, receive, _Cutter(fault, scope, send))


def _refusal(code: int) -> Response:
    details = {"retryAfterSeconds": 1} if code in {429, 503} else {}
    refusal = Refusal(code, _REASONS.get(code, ""), f"injected fault {code}", details)
    return Response(msgspec.json.encode(refusal.body()), code, refusal.headers, "application/json")


class _Cutter:
    """The ``send`` of a request whose answer is lost or cut."""

    def __init__(self, fault: Fault, scope: Scope, send: Send) -> None:
        self._left = 0 if fault.drop == "answer" else fault.cut_after
        self._cuts = bool(fault.cut_after) or fault.drop == "answer"
        self._abort = scope["state"]["abort"]
        self._send = send
        self._cut = False

    async def __call__(self, message: Message) -> None:
        if self._cut:
            return
        body = message.get("body", b"")
        if not self._cuts or (self._left and len(body) <= self._left):
            self._left -= len(body)
            await self._send(message)
            return
        if self._left:
            await self._send({**message, "body": body[: self._left], "more_body": True})
            await asyncio.sleep(0)
        self._cut = True
        self._abort()
