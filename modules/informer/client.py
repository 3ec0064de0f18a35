"""Calls to the Kubernetes API as raw bytes, each with a timeout, each status looked at (libraries.md traps 1-6).

The reflector, the writers and the Lease stand on it, and so does the operator's console.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import urlencode

import aiohttp
import msgspec
import yarl

from beehive.errors import Unavailable
from modules.informer.answers import Reply, retry_after
from modules.informer.connection import Connection, explain, untrusted

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_CONNECT = 10.0
_LONGEST_LINE = 16 * 1024 * 1024
_HEADERS = {"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": "beehive"}
_ERRORS = (aiohttp.ClientError, TimeoutError, OSError, ValueError)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

Grant = Callable[[], float]
"""Until when, on the loop's clock, it is ours to write; asked at the moment of each write."""


class Stream:
    """An open watch, or the refusal of one."""

    def __init__(self, response: aiohttp.ClientResponse, refused: Reply | None, where: str) -> None:
        self._response = response
        self.refused = refused
        self._where = where

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """Whole lines as they come, those of one read together. Raises Unavailable when the connection breaks."""
        parts: list[bytes] = []
        size = 0
        try:
            async for chunk in self._response.content.iter_any():
                head, newline, tail = chunk.rpartition(b"\n")
                size = size + len(chunk) if not newline else len(tail)
                if size > _LONGEST_LINE:
                    raise Unavailable(f"{self._where}: a line of the watch is longer than 16 MiB")
                if not newline:
                    parts.append(chunk)
                    continue
                yield [line for line in b"".join((*parts, head)).split(b"\n") if line]
                parts = [tail] if tail else []
        except _ERRORS as error:
            raise Unavailable(f"{self._where}: {explain(error)}") from None


class Client:
    """One API server. Every call answers with a Reply, or raises Unavailable when nothing was answered."""

    def __init__(self, connection: Connection, timeout: float, now: Callable[[], datetime] | None = None) -> None:
        self._connection = connection
        self._timeout = timeout
        self._now = now or (lambda: datetime.now(UTC))
        self.calls: Counter[tuple[str, ...]] = Counter()
        """How often each verb was answered with each status; `none`: nothing was answered."""

    @property
    def where(self) -> str:
        """The server, for people."""
        return f"the API server at {self._connection.url}"

    async def get(self, path: str, timeout: float | None = None) -> Reply:
        """Read one object, as it is now."""
        return await self._call("GET", path, timeout=timeout)

    async def list(
        self, path: str, limit: int = 0, token: str = "", selector: str = "", timeout: float | None = None
    ) -> Reply:
        """Read a list, or one page of at most `limit` objects of it; `token` is the `continue` of the page before."""
        query = {"limit": str(limit) if limit else "", "continue": token, "labelSelector": selector}
        return await self._call("GET", path, query, timeout=timeout)

    async def create(self, path: str, body: bytes, timeout: float | None = None) -> Reply:
        """Create an object in the list at `path`."""
        return await self._call("POST", path, body=body, timeout=timeout)

    async def replace(self, path: str, body: bytes, timeout: float | None = None) -> Reply:
        """Replace an object; the `resourceVersion` in the body makes it compare and swap."""
        return await self._call("PUT", path, body=body, timeout=timeout)

    async def patch(self, path: str, body: bytes, kind: str, grant: Grant | None = None) -> Reply:
        """Patch an object; `kind` is the content type. With `grant`, never sent and not waited for after its end."""
        return await self._call("PATCH", path, body=body, kind=kind, grant=grant)

    async def delete(self, path: str, body: bytes = b"") -> Reply:
        """Delete an object; the body may hold DeleteOptions."""
        return await self._call("DELETE", path, body=body)

    @asynccontextmanager
    async def watch(
        self, path: str, version: str, seconds: float, selector: str = "", name: str = ""
    ) -> AsyncIterator[Stream]:
        """Open a watch that the server ends after `seconds`; half of that more without a byte breaks it.

        With `name`, of the object with this name alone.
        """
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(seconds))),
            "labelSelector": selector,
            "fieldSelector": f"metadata.name={name}" if name else "",
        }
        limits = aiohttp.ClientTimeout(total=None, connect=_CONNECT, sock_read=max(1, round(seconds)) * 1.5)
        generation = self._connection.generation
        response = await self._send("GET", path, query, b"", JSON, limits)
        try:
            refused = None if response.status == 200 else await self._reply(response)
            if refused and refused.status == 401:
                self._connection.renew(generation)
            yield Stream(response, refused, self.where)
        finally:
            _abandon(response)

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        kind: str = JSON,
        timeout: float | None = None,
        grant: Grant | None = None,
    ) -> Reply:
        """A server that is too busy (429) is asked again when it said, as long as that fits into the timeout."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + (self._timeout if timeout is None else timeout)
        renewed = False
        while True:
            end = min(deadline, grant()) if grant else deadline
            if grant and grant() <= clock():
                raise Unavailable("this process does not lead now")
            limits = aiohttp.ClientTimeout(total=max(0.001, end - clock()), sock_connect=_CONNECT)
            generation, asked = self._connection.generation, clock()
            response = await self._send(method, path, query or {}, body, kind, limits)
            try:
                reply = msgspec.structs.replace(await self._reply(response), took=clock() - asked)
            finally:
                response.release()
            if reply.status == 401 and not renewed:
                renewed = True
                self._connection.renew(generation)
                continue
            pause = max(0.05, reply.retry_after or 1.0)
            if reply.status != 429 or clock() + pause >= end:
                return reply
            await asyncio.sleep(pause)

    async def _send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, kind: str, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        connection = self._connection
        verb = _VERBS.get(method) or ("watch" if "watch" in query else "list" if "limit" in query else "get")
        asked = urlencode({key: value for key, value in query.items() if value})
        try:
            session = await connection.session()
            joint = ("&" if "?" in path else "?") if asked else ""
            url = yarl.URL(f"{connection.url}{path}{joint}{asked}", encoded=True)
            response = await session.request(
                method,
                url,
                data=body or None,
                headers={**_HEADERS, **await connection.headers(), **({"Content-Type": kind} if body else {})},
                timeout=limits,
                allow_redirects=False,
                server_hostname=connection.tls_name,
                proxy=connection.proxy,
            )
        except _ERRORS as error:
            self.calls[verb, "none"] += 1
            if untrusted(error):
                connection.renew(connection.generation)
            raise Unavailable(f"{self.where}: {explain(error)}") from None
        self.calls[verb, str(response.status)] += 1
        return response

    async def _reply(self, response: aiohttp.ClientResponse) -> Reply:
        try:
            body = await response.read()
        except _ERRORS as error:
            raise Unavailable(f"{self.where}: {explain(error)}") from None
        return Reply(response.status, body, retry_after(response.headers.get("Retry-After"), self._now()))


def _abandon(response: aiohttp.ClientResponse) -> None:
    """End a watch at once and without an await, so that nothing comes between a cancelled watch and its end.

    A TLS connection is not taken leave of: a peer that hangs would keep the socket open for half a minute.
    """
    transport = response.connection.transport if response.connection else None
    response.close()
    if transport is not None:
        transport.abort()
