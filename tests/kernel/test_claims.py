"""What only one process can have is taken before the first module runs, so that its lack is said at once."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from beehive.errors import ConfigError, Problem, RuntimeFailed
from beehive.module import Endpoint, Module, ModuleSpec
from beehive.router import Kinds
from beehive.runtime import AdminConfig, Config, Process
from beehive.world import World


class Waits:
    """Never ready: it waits for an API server that is away."""

    accepts: Kinds = ()
    sends: Kinds = ()
    asks: Kinds = ()

    async def run(self, endpoint: Endpoint) -> None:
        endpoint.waiting_for("the API server")
        async for _ in endpoint.messages():
            pass


class Listens(Waits):
    """Needs a port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.socket: socket.socket | None = None

    def claim(self) -> None:
        if self.socket is None:
            try:
                self.socket = socket.create_server(("127.0.0.1", self.port))
            except OSError as error:
                raise RuntimeFailed(f"port {self.port}: {error.strerror}") from None

    def release(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    async def run(self, endpoint: Endpoint) -> None:
        self.claim()
        try:
            endpoint.ready()
            async for _ in endpoint.messages():
                pass
        finally:
            self.release()


def process(directory: Path, *makers: Callable[[], Module]) -> Process:
    def spec(number: int, make: Callable[[], Module]) -> ModuleSpec:
        return ModuleSpec(f"module-{number}", Struct, cloud=lambda *_: make())

    settings: dict[str, Any] = {"runtime": Config(data=str(directory), admin=AdminConfig(enable=False))}
    specs = [spec(number, make) for number, make in enumerate(makers)]
    return Process(specs, "cloud", settings | {spec.name: None for spec in specs}, World())


@contextlib.contextmanager
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


async def test_a_taken_port_is_said_at_once_whatever_the_module_before_waits_for(tmp_path: Path) -> None:
    with taken() as port:
        one = process(tmp_path, Waits, lambda: Listens(port))
        with pytest.raises(RuntimeFailed, match=f"port {port}: Address already in use"):
            await asyncio.wait_for(one.run(), 5)


async def test_what_was_claimed_is_given_back_when_another_claim_fails(tmp_path: Path) -> None:
    with taken() as free:
        pass
    with taken() as port:
        one = process(tmp_path, lambda: Listens(free), Waits, lambda: Listens(port))
        with pytest.raises(RuntimeFailed):
            await asyncio.wait_for(one.run(), 5)
    assert is_free(free)


async def test_a_module_that_never_came_to_run_gives_back_what_it_claimed(tmp_path: Path) -> None:
    with taken() as free:
        pass
    one = process(tmp_path, Waits, lambda: Listens(free))
    running = asyncio.ensure_future(one.run())
    while is_free(free):  # noqa: ASYNC110 - the port is what is looked at
        await asyncio.sleep(0.01)
    assert one.supervisor.waits() == {"module-0": "the API server", "module-1": "its start"}
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert is_free(free)


async def test_the_instance_that_claimed_is_the_first_to_run(tmp_path: Path) -> None:
    with taken() as free:
        pass
    made: list[Listens] = []

    def make() -> Listens:
        made.append(Listens(free))
        return made[-1]

    one = process(tmp_path, make)
    running = asyncio.ensure_future(one.run())
    await one.supervisor.keepers[0].endpoint.is_ready.wait()
    assert one.supervisor.keepers[0].module is made[-1]
    assert len(made) == 2  # the other one only declared what the module says
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert is_free(free)


@pytest.mark.parametrize("failure", [OSError("no such device"), ConfigError("x", [Problem("file", "a", "b")])])
async def test_a_module_that_cannot_be_made_ends_the_process_before_any_runs(
    tmp_path: Path, failure: Exception
) -> None:
    made = 0

    def make() -> Module:
        nonlocal made
        made += 1
        if made > 1:
            raise failure
        return Waits()

    one = process(tmp_path, Waits, make)
    expected = ConfigError if isinstance(failure, ConfigError) else RuntimeFailed
    with pytest.raises(expected) as caught:
        await asyncio.wait_for(one.run(), 5)
    if expected is RuntimeFailed:
        assert str(caught.value) == "module-1 failed before the process was ready: OSError: no such device"
    assert one.supervisor.keepers[0].task is None
