"""The embedded API server called in memory: real requests, statuses and watches, no socket, so that time may leap."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, cast
from urllib.parse import urlencode

import aiohttp
from starlette.applications import Starlette

from beehive.errors import Unavailable
from modules.informer.client import Client
from modules.informer.connection import Connection

Guard = Callable[[str, str, Callable[[], Awaitable[None]]], Awaitable[None]]
"""Called with method and path of a request and what carries it out; what it raises, the caller gets."""


class Answer:
    """What the client reads of aiohttp's response."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.connection = None
        self.begun, self.gone = asyncio.Event(), asyncio.Event()
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None

    @property
    def content(self) -> "Answer":
        return self

    async def iter_any(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            yield chunk

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.iter_any()])

    def release(self) -> None:
        self.close()

    def close(self) -> None:
        self.gone.set()
        if self.task:
            self.task.cancel()

    async def take(self, message: Mapping[str, Any]) -> None:
        """What an ASGI application sends."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {key.decode().title(): value.decode() for key, value in message["headers"]}
            self.begun.set()
            return
        if message.get("body"):
            self._chunks.put_nowait(message["body"])
        if not message.get("more_body"):
            self._chunks.put_nowait(None)


class MemoryClient(Client):
    """A client whose requests go straight into the application; `guard` sees each first."""

    def __init__(self, connection: Connection, timeout: float, application: Starlette, guard: Guard) -> None:
        super().__init__(connection, timeout)
        self._application = application
        self._guard = guard

    async def _send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, kind: str, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        answer = Answer()

        async def carry_out() -> None:
            answer.task = asyncio.create_task(self._through(answer, method, path, query, body, kind))
            await answer.begun.wait()

        try:
            async with asyncio.timeout(limits.total):
                await self._guard(method, path, carry_out)
        except TimeoutError:
            answer.close()
            raise Unavailable("the API server in memory: no answer in time") from None
        return cast(aiohttp.ClientResponse, answer)

    async def _through(
        self, answer: Answer, method: str, path: str, query: Mapping[str, str], body: bytes, kind: str
    ) -> None:
        asked = urlencode({key: value for key, value in query.items() if value})
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": asked.encode(), "root_path": "",
            "headers": [(b"accept", b"application/json"), (b"content-type", kind.encode())],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        }  # fmt: skip
        bodies = [body]

        async def receive() -> Mapping[str, Any]:
            if bodies:
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}
            await answer.gone.wait()
            return {"type": "http.disconnect"}

        await self._application(scope, receive, answer.take)  # type: ignore[arg-type]
