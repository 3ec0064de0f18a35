"""Signals, exit codes and what does not want to end, in real processes and on both event loops."""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
MODES = pytest.mark.parametrize("mode", ["cloud", "edge"])
"""uvloop and asyncio."""


class Running:
    """One process of `tests.kernel.program`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._stderr = ""

    async def says(self, line: str) -> None:
        assert self._process.stdout
        async with asyncio.timeout(20):
            assert (await self._process.stdout.readline()).decode().strip() == line, await self.log()

    async def logs(self, words: str) -> None:
        """Waits until the log has these words."""
        assert self._process.stderr
        async with asyncio.timeout(20):
            while words not in self._stderr:
                read = await self._process.stderr.readline()
                assert read, f"no {words!r} in: {self._stderr}"
                self._stderr += read.decode()

    async def log(self) -> str:
        assert self._process.stderr
        self._stderr += (await self._process.stderr.read()).decode()
        return self._stderr

    def tell(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    async def ends(self, within: float = 20) -> int:
        async with asyncio.timeout(within):
            return await self._process.wait()


@contextlib.asynccontextmanager
async def running(kind: str, mode: str, directory: Path) -> AsyncIterator[Running]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.kernel.program", kind, mode, str(directory),
        cwd=TOP, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@MODES
async def test_sigterm_drains_and_ends_well(mode: str, tmp_path: Path) -> None:
    async with running("good", mode, tmp_path) as one:
        await one.says("ready")
        one.tell()
        await one.says("ended")
        assert await one.ends() == 0
        assert await one.log() == ""


@MODES
async def test_a_second_signal_ends_at_once_with_70(mode: str, tmp_path: Path) -> None:
    async with running("deaf", mode, tmp_path) as one:
        await one.says("ready")
        one.tell(signal.SIGINT)
        with pytest.raises(TimeoutError):
            await one.ends(within=0.3)
        begun = time.monotonic()
        one.tell()
        assert await one.ends() == 70
        assert time.monotonic() - begun < 10  # its own time to stop is 60 s
        assert await one.log() == "Told to stop a second time: ending at once.\n"


@MODES
async def test_a_blocked_loop_is_named_and_a_second_signal_still_ends_it(mode: str, tmp_path: Path) -> None:
    async with running("blocking", mode, tmp_path) as one:
        await one.says("ready")
        await one.logs("event loop is blocked")
        one.tell(signal.SIGINT)
        with pytest.raises(TimeoutError):
            await one.ends(within=0.2)
        one.tell()
        assert await one.ends() == 70
        log = await one.log()
        assert "by=worker" in log
        assert "in live" in log


async def test_a_module_that_ignores_its_cancelling_is_left_behind(tmp_path: Path) -> None:
    async with running("stubborn", "edge", tmp_path) as one:
        await one.says("ready")
        one.tell()
        assert await one.ends() == 70
        log = await one.log()
        assert "module did not end when cancelled; ending without it of=worker" in log
        assert "something does not end; ending without it" in log


async def test_a_thread_that_does_not_end_is_left_behind(tmp_path: Path) -> None:
    async with running("threaded", "edge", tmp_path) as one:
        await one.says("ready")
        one.tell()
        await one.says("ended")
        assert await one.ends() == 70
        assert 'left="a thread"' in await one.log()


async def test_what_cannot_start_ends_with_70_and_one_sentence(tmp_path: Path) -> None:
    async with running("broken", "edge", tmp_path) as one:
        assert await one.ends() == 70
        log = await one.log()
        assert log.splitlines()[-1] == "worker failed before the process was ready: OSError: no such device"
        assert "Traceback" not in log
