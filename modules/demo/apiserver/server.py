"""The server as a thing that starts and stops."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import uvicorn

from modules.demo.apiserver import builtin, faults
from modules.demo.apiserver.application import Application
from modules.demo.apiserver.kinds import from_crd

_TICK, _LOOK = 1.0, 0.002


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Config:
    """How to serve."""

    crds: Sequence[Mapping[str, Any]]
    """CustomResourceDefinitions as plain data; the stored version of each is served."""
    host: str = "127.0.0.1"
    port: int = 0
    """0: the kernel chooses, see `Server.address`."""
    token: str = ""
    """The bearer token that callers must have; empty: anyone may."""
    certificate: str = ""
    """PEM file of the server's certificate chain; empty: plain HTTP."""
    key: str = ""
    """PEM file of the key to it."""
    history: int = 20_000
    """Changes that are remembered per kind; a watch from before them gets 410."""
    bookmark_every: float = 60.0
    """Seconds between the bookmarks of a watch."""
    namespaces: Sequence[str] = ()
    """Namespaces that exist from the start, beside the four of every cluster."""
    faults: bool = False
    """Serve ``/faults``, by which tests spoil requests."""
    now: Callable[[], datetime] = field(default=_utc_now)


class _Uvicorn(uvicorn.Server):
    """uvicorn that says when it is ready, leaves signals to its owner, and ends as soon as it is told."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self.ending = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        """Tick once a second (uvicorn renews the Date that it sends) until the end."""
        while not self.ending.is_set():
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK):
                    await self.ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Uvicorn's own waits in tenths of a second; only what does not end by itself is left to it."""
        for server in self.servers:
            server.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        end = asyncio.get_running_loop().time() + _TICK
        while (state.connections or state.tasks) and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK)
        if state.connections or state.tasks:
            await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Server:
    """``async with Server(config) as server`` serves at ``server.address`` until the block ends."""

    def __init__(self, config: Config) -> None:
        """Raises ``ValueError`` when a CRD cannot be served, ``OSError`` when the address cannot be bound."""
        kinds = [*builtin.KINDS, *(from_crd(crd) for crd in config.crds)]
        self._config = config
        self.application = Application(kinds, config.history, config.bookmark_every, config.token, config.now)
        self._socket = _bound(config.host, config.port)
        scheme = "https" if config.certificate else "http"
        host = f"[{config.host}]" if ":" in config.host else config.host
        self.address = f"{scheme}://{host}:{self._socket.getsockname()[1]}"
        """The URL of the server."""
        self._task: asyncio.Task[None] | None = None
        self._uvicorn: _Uvicorn | None = None

    async def __aenter__(self) -> Self:
        self._uvicorn = _Uvicorn(self._uvicorn_config())
        self._task = asyncio.create_task(self._uvicorn.serve(sockets=[self._socket]))
        ready = asyncio.create_task(self._uvicorn.ready.wait())
        await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._task.done():
            self._socket.close()
            await self._task
        for name in (*builtin.FIRST_NAMESPACES, *self._config.namespaces):
            self.application.make_namespace(name)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        assert self._uvicorn is not None
        self.application.close()
        self._uvicorn.ending.set()
        await self._task
        self._socket.close()

    async def wait(self) -> None:
        """Return when the server has ended by itself, which is an error of its own."""
        assert self._task is not None
        await asyncio.shield(self._task)

    def _uvicorn_config(self) -> uvicorn.Config:
        application = self.application.asgi()
        return uvicorn.Config(
            faults.Faults(application) if self._config.faults else application,
            loop="none",
            http=faults.Protocol if self._config.faults else "httptools",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=90,
            timeout_graceful_shutdown=2,
            ssl_certfile=self._config.certificate or None,
            ssl_keyfile=self._config.key or None,
        )


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named; else answers wait 40 ms for an acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    return listening
