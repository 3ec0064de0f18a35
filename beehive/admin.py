"""The admin port: probes, metrics and tracing; in threads, so that it answers also when the loop hangs.

`/livez`, `/readyz?verbose` and `/metrics` are for whoever can reach the port. `/trace` and `/story` show what modules
say to each other and are for this machine alone: only from a loopback address, by a loopback name, and never from a web
page.
"""

import asyncio
import concurrent.futures
import contextlib
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any, NamedTuple, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from beehive.errors import RuntimeFailed
from beehive.metrics import exposition
from beehive.record import Tracing, heard, story
from beehive.supervisor import Supervisor
from beehive.watchdog import Watchdog

_LOOK_UP = 600.0
"""Seconds after which the port's thread looks up unasked; closing the socket wakes it."""
_PATIENCE = 5.0
"""Seconds that the event loop has to show that it lives."""

Page = tuple[str, str, bytes]
"""Status line, content type, body."""


_KNOWN = "there is /livez, /readyz?verbose, /metrics, and on this machine /trace, POST /trace?on|off, /story?id=N\n"

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]+)?")

T = TypeVar("T")


class Asked(NamedTuple):
    """What of an HTTP request is looked at."""

    method: str
    path: str
    query: str
    is_local: bool
    """From this machine, by a loopback name, and not from a page in a browser."""

    @classmethod
    def from_wsgi(cls, environ: dict[str, Any]) -> "Asked":
        named = _HOST.fullmatch(environ.get("HTTP_HOST", ""))
        host = named[1].strip("[]") if named else ""
        is_local = (
            _is_loopback(environ.get("REMOTE_ADDR", ""))
            and (host == "localhost" or _is_loopback(host))
            and not environ.get("HTTP_ORIGIN")
        )
        return cls(environ["REQUEST_METHOD"], environ.get("PATH_INFO", ""), environ.get("QUERY_STRING", ""), is_local)


def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    timeout = 10

    def log_message(self, *_: Any) -> None:
        """A probe every few seconds is nothing to log."""


class Admin:
    """Answers about one supervisor until it is closed."""

    def __init__(
        self, supervisor: Supervisor, loop: asyncio.AbstractEventLoop, address: str, port: int,
        tracing: Tracing | None = None, watchdog: Watchdog | None = None,
    ) -> None:  # fmt: skip
        self._supervisor, self._loop, self._watchdog = supervisor, loop, watchdog
        self._tracing = tracing or Tracing(supervisor.bus)
        try:
            self._server = make_server(address, port, self._answer, _Server, _Quiet)
        except OSError as error:
            raise RuntimeFailed(
                f"Port {port} on {address} is taken or not allowed ({error.strerror}). "
                "Free it, or set runtime.admin.port."
            ) from None
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_LOOK_UP,), name="admin", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering and free the port."""
        with contextlib.suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes its thread, which looks up rarely
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        status, kind, body = self._page(Asked.from_wsgi(environ))
        start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    def _page(self, asked: Asked) -> Page:
        pages = {
            ("GET", "/livez"): self._livez, ("GET", "/readyz"): self._readyz, ("GET", "/metrics"): self._metrics,
            ("GET", "/trace"): self._trace, ("POST", "/trace"): self._switch, ("GET", "/story"): self._story,
        }  # fmt: skip
        page = pages.get((asked.method, asked.path))
        if page is None:
            return _text("404 Not Found", _KNOWN)
        if asked.path in ("/trace", "/story") and not asked.is_local:
            return _text("403 Forbidden", "ask this from the machine itself, by the address 127.0.0.1\n")
        return page(asked)

    def _livez(self, _: Asked) -> Page:
        turned = threading.Event()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(turned.set)
        if turned.wait(_PATIENCE):
            return _text("200 OK", "ok\n")
        return _hangs()

    def _readyz(self, asked: Asked) -> Page:
        waits = self._supervisor.waits()
        missing = {name: what for name, what in waits.items() if what}
        lines = [
            f"[{'-' if what else '+'}] {name} {'waits for ' + what if what else 'ready'}"
            for name, what in waits.items()
        ]
        lines += [f"[!] {name} {what}" for name, what in _warnings(self._supervisor)]
        verdict = "not ready" if missing else "ready"
        body = "\n".join((*lines, verdict) if "verbose" in asked.query or missing else (verdict,)) + "\n"
        return _text("503 Service Unavailable" if missing else "200 OK", body)

    def _metrics(self, _: Asked) -> Page:
        kind, body = exposition(self._supervisor, self._watchdog)
        return "200 OK", kind, body

    # ---- tracing -----------------------------------------------------------------------------------------------

    def _trace(self, _: Asked) -> Page:
        record = self._tracing.record
        if record is None:
            return _text("200 OK", "tracing is off, and nothing was recorded; POST /trace?on begins\n")
        entries = self._on_loop(lambda: list(record.entries))
        if entries is None:
            return _hangs()
        state = "on" if self._tracing.is_on else "off"
        return _text("200 OK", "\n".join((f"tracing is {state}; the last messages:", *heard(entries), "")))

    def _switch(self, asked: Asked) -> Page:
        wanted = {"on": self._tracing.on, "off": self._tracing.off}.get(asked.query)
        if wanted is None:
            return _text("400 Bad Request", "POST /trace?on or /trace?off\n")
        if self._on_loop(lambda: wanted() or True) is None:
            return _hangs()
        return _text("200 OK", f"tracing is {asked.query}\n")

    def _story(self, asked: Asked) -> Page:
        record, number = self._tracing.record, asked.query.removeprefix("id=")
        if record is None:
            return _text("404 Not Found", "nothing was recorded; POST /trace?on begins\n")
        if not (number.isascii() and number.isdigit() and len(number) < 20):
            return _text("400 Bad Request", "GET /story?id=N, where N is the number of a message in /trace\n")
        entries = self._on_loop(lambda: list(record.entries))
        if entries is None:
            return _hangs()
        return _text("200 OK", "\n".join((*story(entries, int(number)), "")))

    def _on_loop(self, function: Callable[[], T]) -> T | None:
        """Let the loop's own thread do it; None when the loop hangs."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()
        try:
            self._loop.call_soon_threadsafe(lambda: done.set_result(function()))
            return done.result(_PATIENCE)
        except (RuntimeError, TimeoutError):
            return None


def _warnings(supervisor: Supervisor) -> list[tuple[str, str]]:
    """What modules want an operator to know although they work: their attribute `warning`, where they have one."""
    told = ((keeper.name, getattr(keeper.module, "warning", "")) for keeper in supervisor.keepers)
    return [(name, what) for name, what in told if what]


def _text(status: str, body: str) -> Page:
    return status, "text/plain; charset=utf-8", body.encode(errors="replace")


def _hangs() -> Page:
    return _text("503 Service Unavailable", f"the event loop did not turn for {_PATIENCE:g} s\n")
