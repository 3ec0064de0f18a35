"""The admin port: `/livez`, `/readyz?verbose`, `/metrics`; in threads, so that it answers also when the loop hangs."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from beehive.errors import RuntimeFailed
from beehive.metrics import exposition
from beehive.supervisor import Supervisor

_PATIENCE = 5.0
"""Seconds that the event loop has to show that it lives."""

Page = tuple[str, str, bytes]
"""Status line, content type, body."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    timeout = 10

    def log_message(self, *_: Any) -> None:
        """A probe every few seconds is nothing to log."""


class Admin:
    """Answers about one supervisor until it is closed."""

    def __init__(self, supervisor: Supervisor, loop: asyncio.AbstractEventLoop, address: str, port: int) -> None:
        self._supervisor, self._loop = supervisor, loop
        try:
            self._server = make_server(address, port, self._answer, _Server, _Quiet)
        except OSError as error:
            raise RuntimeFailed(
                f"Port {port} on {address} is taken or not allowed ({error.strerror}). "
                "Free it, or set runtime.admin.port."
            ) from None
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.5,), name="admin", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        pages = {"/livez": self._livez, "/readyz": self._readyz, "/metrics": self._metrics}
        page = pages.get(environ.get("PATH_INFO", ""))
        verbose = "verbose" in environ.get("QUERY_STRING", "")
        known = "there is /livez, /readyz?verbose and /metrics\n"
        status, kind, body = page(verbose) if page else ("404 Not Found", "text/plain", known.encode())
        start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    def _livez(self, _: bool) -> Page:
        turned = threading.Event()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(turned.set)
        if turned.wait(_PATIENCE):
            return "200 OK", "text/plain", b"ok\n"
        return "503 Service Unavailable", "text/plain", f"the event loop did not turn for {_PATIENCE:g} s\n".encode()

    def _readyz(self, verbose: bool) -> Page:
        waits = self._supervisor.waits()
        missing = {name: what for name, what in waits.items() if what}
        lines = [
            f"[{'-' if what else '+'}] {name} {'waits for ' + what if what else 'ready'}"
            for name, what in waits.items()
        ]
        verdict = "not ready" if missing else "ready"
        body = "\n".join((*lines, verdict) if verbose or missing else (verdict,)) + "\n"
        return "503 Service Unavailable" if missing else "200 OK", "text/plain", body.encode()

    def _metrics(self, _: bool) -> Page:
        kind, body = exposition(self._supervisor)
        return "200 OK", kind, body
