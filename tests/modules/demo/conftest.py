"""The embedded API server, in a thread of its own."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import httpx
import pytest

from modules.demo.apiserver.server import Config, Server
from tests.contracts.api import Api, Forget
from tests.contracts.rollout import CRD

TOKEN = "contract-token"


class Embedded:
    """A running server and the loop that it runs on."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.loop = loop

    def forget(self) -> None:
        """Make it forget its history."""
        done: Future[None] = Future()

        def compact() -> None:
            self.server.application.forget()
            done.set_result(None)

        self.loop.call_soon_threadsafe(compact)
        done.result(5)

    def client(self) -> httpx.Client:
        """A client with the token."""
        return httpx.Client(base_url=self.server.address, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=10)


@contextmanager
def embedded(config: Config) -> Iterator[Embedded]:
    """A server for the length of the block."""
    started: Future[Embedded] = Future()
    stop = asyncio.Event()

    async def serve() -> None:
        async with Server(config) as server:
            started.set_result(Embedded(server, asyncio.get_running_loop()))
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        running = started.result(10)
        yield running
        running.loop.call_soon_threadsafe(stop.set)
    finally:
        thread.join(10)
        assert not thread.is_alive(), "the embedded API server does not end"


@pytest.fixture(scope="module")
def running() -> Iterator[Embedded]:
    """A server with the contract's CRD."""
    with embedded(Config(crds=[CRD], token=TOKEN)) as server:
        yield server


@pytest.fixture
def api(running: Embedded) -> Iterator[Api]:
    """A client of it that tidies up."""
    with running.client() as client:
        made = Api(client, ssl.create_default_context())
        yield made
        made.tidy()


@pytest.fixture
def forget(running: Embedded) -> Forget:
    """Make the server forget its history."""
    return running.forget
