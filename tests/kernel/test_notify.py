"""What systemd hears: that a process is ready when all its modules are, and alive as long as its loop turns."""

import asyncio
import contextlib
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from beehive.notify import ServiceManager, service_manager

TOP = Path(__file__).resolve().parents[2]


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


async def word(channel: socket.socket, within: float = 20.0) -> str:
    async with asyncio.timeout(within):
        return (await asyncio.get_running_loop().sock_recv(channel, 100)).decode()


@contextlib.asynccontextmanager
async def process(
    kind: str, channel: socket.socket, directory: Path, watchdog: str = "200000"
) -> AsyncIterator[asyncio.subprocess.Process]:
    asked = {"NOTIFY_SOCKET": channel.getsockname(), "WATCHDOG_USEC": watchdog}
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.kernel.program", kind, "edge", str(directory / "data"),
        cwd=TOP, env=os.environ | asked, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.communicate()


@pytest.mark.long
async def test_a_process_says_that_it_is_ready_and_then_that_it_lives(channel: socket.socket, tmp_path: Path) -> None:
    async with process("good", channel, tmp_path):
        words = [await word(channel) for _ in range(4)]
    assert words.count("READY=1") == 1
    assert words.count("WATCHDOG=1") == 3


@pytest.mark.long
async def test_nobody_who_asks_for_no_sign_of_life_gets_one(channel: socket.socket, tmp_path: Path) -> None:
    async with process("good", channel, tmp_path, watchdog=""):
        assert await word(channel) == "READY=1"
        with pytest.raises(TimeoutError):
            await word(channel, within=0.5)


@pytest.mark.long
async def test_a_loop_that_stands_still_is_silent(channel: socket.socket, tmp_path: Path) -> None:
    async with process("blocking", channel, tmp_path):
        heard = await word(channel)
        deadline = time.monotonic() + 20
        with contextlib.suppress(TimeoutError):
            while time.monotonic() < deadline:
                heard = await word(channel, within=1.0)
        assert time.monotonic() < deadline, f"it still says {heard}"


@pytest.mark.long
async def test_a_process_that_is_never_ready_does_not_say_so(channel: socket.socket, tmp_path: Path) -> None:
    async with process("broken", channel, tmp_path) as ended:
        assert await ended.wait() == 70
    with pytest.raises(BlockingIOError):
        channel.recv(100)


def test_children_inherit_nothing_of_it() -> None:
    environment = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7", "PATH": "/bin"}
    assert service_manager(environment, pid=7).every == 30.0
    assert environment == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "environment",
    [{}, {"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": ""}],
)
def test_a_watchdog_that_is_meant_for_another_or_is_none_is_left_alone(environment: dict[str, str]) -> None:
    assert service_manager(environment, pid=7).every == 0.0


@pytest.mark.parametrize("address", ["", "/nowhere/at/all", "@nobody", "/" + "x" * 200])
def test_a_manager_that_does_not_hear_is_no_fault(address: str) -> None:
    ServiceManager(address).say("READY=1")


def test_an_abstract_address_is_heard(tmp_path: Path) -> None:
    name = f"beehive-{tmp_path.name}-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        ServiceManager(f"@{name}").say("READY=1", "STATUS=up")
        assert listening.recv(100) == b"READY=1\nSTATUS=up"
