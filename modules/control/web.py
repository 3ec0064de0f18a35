"""KubeEdge's own way to confirm an upgrade: one path of HTTP on loopback (spec/kubeedge.md 7.8). Off by default.

Only what that needs: a request line, headers, no body. A page in a browser cannot use it: a request that names an
origin, or a host that is not loopback, is refused.
"""

import asyncio
import ipaddress
import logging
import re
from collections.abc import Awaitable, Callable

from beehive.errors import ConfigError, Problem
from beehive.messages.host import Decided
from beehive.module import Endpoint

NOTHING_WAITS = "there are no valid upgrade tasks to execute"
_PATH = re.compile(r"/api/v1/[A-Za-z0-9-]{1,64}/confirm-upgrade")
_LONGEST = 8 * 1024
_PATIENCE = 5.0
_log = logging.getLogger(__name__)


class Web:
    """Serves it until it is cancelled."""

    def __init__(self, address: str, confirm: Callable[[], Awaitable[Decided]]) -> None:
        self._host, self._port = loopback(address)
        self._confirm = confirm

    async def serve(self, endpoint: Endpoint) -> None:
        try:
            server = await asyncio.start_server(self._serve, self._host, self._port, limit=_LONGEST)
        except OSError as error:
            _log.warning("control.http: port %d on %s cannot be had: %s", self._port, self._host, error.strerror)
            endpoint.waiting_for(f"port {self._port} on {self._host} (control.http): {error.strerror}")
            return
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE * 2):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = await self._answer(head.decode("latin-1"))
                body = text.encode()
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode())
                writer.write(body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            _log.debug("a request on control.http was none")
        finally:
            writer.close()

    async def _answer(self, head: str) -> tuple[str, str]:
        line, *rest = head.split("\r\n")
        method, _, target = line.partition(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
        if "origin" in headers or not is_loopback_name(headers.get("host", "")):
            return "403 Forbidden", "only from this host itself"
        if not _PATH.fullmatch(target.partition(" ")[0].partition("?")[0]):
            return "404 Not Found", "there is only POST /api/v1/taskupgrade/confirm-upgrade"
        if method != "POST":
            return "405 Method Not Allowed", "POST it"
        decided = await self._confirm()
        if decided.problem or not decided.confirmed:
            return "400 Bad Request", decided.problem or "it was rejected before, and a rejection is final"
        return "200 OK", ""


def loopback(address: str) -> tuple[str, int]:
    """Host and port. Raises ConfigError for what is not loopback."""
    host, _, port = address.rpartition(":")
    if is_loopback_name(host) and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
        return host.strip("[]"), int(port)
    problem = f"{address!r} is not a loopback address with a port; write 127.0.0.1:10550"
    raise ConfigError("the configuration", [Problem("here", "control.http", problem)])


def is_loopback_name(text: str) -> bool:
    """`127.0.0.1:10550`, `[::1]:10550`, `localhost`."""
    bracketed, _, _ = text.partition("]")
    name = bracketed[1:] if text.startswith("[") else text.partition(":")[0]
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
