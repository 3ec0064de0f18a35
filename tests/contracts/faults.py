"""A proxy before an API server that does to its callers what networks and busy servers do."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

Fits = Callable[[web.Request], bool]
Act = Callable[[web.Request], Awaitable[web.StreamResponse]]

_DROPPED = {"transfer-encoding", "content-length", "connection", "host"}


def watches(path: str = "") -> Fits:
    """Watches of this path."""
    return lambda request: "watch" in request.query and request.path.endswith(path)


def lists(path: str) -> Fits:
    """Lists of this path, and each page of them."""
    return lambda request: request.method == "GET" and request.path.endswith(path) and "watch" not in request.query


def calls(method: str, part: str) -> Fits:
    """Requests of this method with this in their path."""
    return lambda request: request.method == method and part in request.path


@dataclass
class Fault:
    """What happens to fitting requests instead of being passed on; `times` None: for ever."""

    fits: Fits
    act: Act
    times: int | None = None
    hits: int = 0


@dataclass
class Proxy:
    """Counts requests, passes them on, or does what a fault says. `address` is where it listens."""

    target: str
    trust: ssl.SSLContext | None = None
    address: str = ""
    faults: list[Fault] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """Method and path with query of each request."""
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """Clear: what open watches bring is held back."""

    async def __aenter__(self) -> "Proxy":
        self.held.set()
        self._session = aiohttp.ClientSession(auto_decompress=False)
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{any:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._session.close()

    def fail(self, fits: Fits, act: Act, times: int | None = None) -> Fault:
        """From now on, before older faults."""
        fault = Fault(fits, act, times)
        self.faults.insert(0, fault)
        return fault

    def heal(self) -> None:
        """No more faults."""
        self.faults.clear()

    def cut(self) -> None:
        """Every connection breaks now."""
        for connection in list(self._runner.server.connections if self._runner.server else ()):
            if connection.transport:
                connection.transport.abort()

    def count(self, part: str) -> int:
        return sum(part in one for one in self.seen)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(f"{request.method} {request.path_qs}")
        for fault in self.faults:
            if fault.fits(request) and (fault.times is None or fault.hits < fault.times):
                fault.hits += 1
                return await fault.act(request)
        try:
            return await self.forward(request)
        except (aiohttp.ClientError, ConnectionError):
            return await breaks(request)  # as without a proxy: the server is away, or the caller is

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """Pass it on, and what comes back as it comes."""
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _DROPPED}
        async with self._session.request(
            request.method,
            self.target + request.path_qs,
            data=await request.read() or None,
            headers=headers,
            ssl=self.trust or True,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _DROPPED}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in self._chunks(answer):
                if "watch" in request.query:
                    await self.held.wait()
                await response.write(chunk)
            await response.write_eof()
            return response

    async def _chunks(self, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        async for chunk in answer.content.iter_any():
            yield chunk


def answers(status: int, body: str = "", **headers: str) -> Act:
    """This answer, at once."""

    async def act(_: web.Request) -> web.StreamResponse:
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, text=body, headers=shown, content_type="application/json")

    return act


def refuses(status: int, reason: str, message: str = "", **headers: str) -> Act:
    """A Status, as the API server refuses."""
    body = f'{{"kind":"Status","status":"Failure","reason":"{reason}","message":"{message}","code":{status}}}'
    return answers(status, body, **headers)


def streams(*lines: str, close: bool = True) -> Act:
    """A watch that brings these bytes and then ends, or stays open and silent."""

    async def act(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=200, headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for line in lines:
            await response.write(line.encode())
        if not close:
            await asyncio.Event().wait()
        await response.write_eof()
        return response

    return act


async def hangs(_: web.Request) -> web.StreamResponse:
    """No answer, ever."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def breaks(request: web.Request) -> web.StreamResponse:
    """The connection breaks without an answer."""
    if request.transport:
        request.transport.abort()
    return web.Response()


def breaks_after(*lines: str) -> Act:
    """A watch that brings these bytes and then breaks."""

    async def act(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=200)
        await response.prepare(request)
        for line in lines:
            await response.write(line.encode())
        if request.transport:
            request.transport.abort()
        return response

    return act
