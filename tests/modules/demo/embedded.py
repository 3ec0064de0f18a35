"""The embedded API server for tests: in a thread of this process, or as a process of its own."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from modules.demo.apiserver.server import Config, Server

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


@contextmanager
def subprocess_server(folder: Path, crd: Mapping[str, Any], *arguments: str) -> Iterator[str]:
    """The address of a server that runs as a process of its own, as the demo runs it."""
    (folder / "crd.json").write_text(json.dumps(crd))
    (folder / "token").write_text(f"{TOKEN}\n")
    command = [sys.executable, "-m", "modules.demo.apiserver", f"--crd={folder / 'crd.json'}"]
    command += [f"--token-file={folder / 'token'}", "--until-stdin-closes", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http"), f"it ended with {process.wait(10)}"
        try:
            yield address
        finally:
            process.stdin.close()
            assert process.wait(10) == 0
