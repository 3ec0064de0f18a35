"""`make bench NAME=edge`: what an agent costs its host, and an upgrade beside the target's own stop and start.

A whole agent as a process, joined to a real hub in this one: when it answers on its socket, what it holds in memory,
how often any of its threads wakes up while nothing happens. Then one upgrade on a host in a folder, without a download:
its time from order to verdict, less what the target itself takes to stop and to start, and less the soak. The one-dir
build is measured where `make dist` has left one.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from beehive.errors import Unavailable
from benchmarks.measure import table, write
from modules.control.client import asked
from modules.control.requests import Hello, Status
from tests.fakes.alone import alone
from tests.fakes.edge_host import NEW, EdgeHost, program
from tests.modules.cloudhub.ends import hub
from tests.modules.upgrader.driving import done, upgrader

ROUNDS = 5
IDLE = 45.0
"""Seconds of idleness in which wake-ups are counted, after as many to settle as `SETTLE` says."""
SETTLE = 5.0
SOAK = 1.0
TOP = Path(__file__).resolve().parents[1]


class Result(Struct):
    """One line of the table."""

    what: str
    figure: float
    unit: str
    goal: float
    note: str = ""


@asynccontextmanager
async def agent(command: Sequence[str], folder: Path, server: str) -> AsyncIterator[tuple[int, Path]]:
    """The process id and the socket of an agent that has just been started."""
    place = folder / "control.sock"
    file = folder / "edge.yaml"
    file.write_text(
        f"runtime: {{data: {folder}, admin: {{port: 0}}}}\n"
        f"edgehub: {{servers: ['{server}'], identity: {folder / 'pki'}}}\n"
        f"upgrader: {{root: {folder}, serviceManager: process}}\n"
    )
    with (folder / "agent.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command, "--mode", "edge", "--config", str(file), stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    try:
        yield process.pid, place
    finally:
        process.terminate()
        await process.wait()


async def until_it_answers(place: Path) -> None:
    """Its last module is ready."""
    deadline = time.monotonic() + 30
    while True:
        try:
            await asyncio.to_thread(asked, place, Hello(nonce=""))
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.005)
        else:
            return


async def ready_times(command: Sequence[str], folder: Path, server: str) -> tuple[list[float], list[float]]:
    """Seconds from exec to its first answer, and of processors until then; the first round (a cold disk) left out."""
    took, worked = [], []
    for _ in range(ROUNDS + 1):
        began = time.monotonic()
        async with agent(command, folder, server) as (pid, place):
            await until_it_answers(place)
            took.append(time.monotonic() - began)
            worked.append(cpu_seconds(pid))
    return took[1:], worked[1:]


def cpu_seconds(pid: int) -> float:
    """Of processors, so far: what a busy machine does not stretch."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def at_rest(command: Sequence[str], folder: Path, server: str) -> tuple[float, float]:
    """Megabytes that a connected agent holds, and how often a thread of it wakes up in 5 s."""
    async with agent(command, folder, server) as (pid, place):
        await until_it_answers(place)
        while not ((link := (await asyncio.to_thread(asked, place, Status())).link) and link.connected):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
        await asyncio.sleep(SETTLE)
        before = switches(pid)
        await asyncio.sleep(IDLE)
        return resident(pid), (switches(pid) - before) / IDLE * 5


def switches(pid: int) -> int:
    """Voluntary context switches of all its threads: each is a wake-up that ended."""
    return sum(_number(task / "status", "voluntary_ctxt_switches") for task in Path(f"/proc/{pid}/task").iterdir())


def resident(pid: int) -> float:
    """Megabytes."""
    return _number(Path(f"/proc/{pid}/status"), "VmRSS") / 1000


def _number(status: Path, name: str) -> int:
    line = next(line for line in status.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1])


async def upgrade_cost(folder: Path) -> tuple[float, float]:
    """Seconds of an upgrade beside the target's own stop and start and the soak; and those alone."""
    host = EdgeHost(folder / "host", soak=SOAK)
    host.offer(program(NEW))
    host.start()
    try:
        began = time.monotonic()
        await asyncio.to_thread(host.host.services.stop, host.host.service)
        await asyncio.to_thread(host.start)
        own = time.monotonic() - began
        async with alone(upgrader(host)) as peers:
            assert (await done(peers, "Check")).ok
            assert (await done(peers, "BackUp")).ok
            began = time.monotonic()
            ended = await done(peers, "Upgrade")
            took = time.monotonic() - began
            assert ended.ok, ended
        return took - SOAK - own, own
    finally:
        await asyncio.to_thread(host.end)


def one_dir_build(dist: Path, folder: Path) -> tuple[str, ...]:
    """The executable of what `make dist` made, unpacked; empty: there is none."""
    made = sorted(dist.glob("beehive-*.tar.gz"), key=lambda path: path.stat().st_mtime)
    if not made:
        return ()
    with tarfile.open(made[-1]) as archive:
        archive.extractall(folder, filter="fully_trusted")
    programs = [path for path in folder.rglob("beehive") if path.is_file() and not path.is_symlink()]
    return (str(min(programs, key=lambda path: len(path.parts))),)


async def measured(folder: Path, dist: Path) -> list[Result]:
    """All of it."""
    cost, own = await upgrade_cost(folder)
    results = [Result("an upgrade beside stop, start, soak", cost, "s", 2, f"own stop and start {own:.2f} s")]
    ways: dict[str, tuple[str, ...]] = {"venv": (str(Path(sys.executable).with_name("beehive")),)}
    built = one_dir_build(dist, folder / "build")
    if built:
        ways["one-dir build"] = built
    goals = {"venv": 0.8, "one-dir build": 0.6}
    for way, command in ways.items():
        place = folder / way
        place.mkdir()
        async with hub(place) as cloud:
            await cloud.lead()
            await cloud.join("edge-7", place / "pki")
            times, worked = await ready_times(command, place, cloud.server)
            spread = f"{min(times):.2f} to {max(times):.2f}, {statistics.median(worked):.2f} s of a processor"
            results.append(Result(f"ready, {way}", statistics.median(times), "s", goals[way], spread))
            memory, wakes = await at_rest(command, place, cloud.server)
            results.append(Result(f"resident at rest, {way}", memory, "MB", 50, "connected"))
            results.append(Result(f"wake-ups in 5 s, {way}", wakes, "", 1, f"connected, over {IDLE:g} s"))
    return results


def main() -> None:
    """`python -m benchmarks.edge [DIST]`."""
    dist = Path(sys.argv[1]) if len(sys.argv) > 1 else TOP / "dist"
    with tempfile.TemporaryDirectory(prefix="beehive-bench-") as folder:
        results = asyncio.run(measured(Path(folder), dist))
    rows = [
        (one.what, f"{one.figure:.2f} {one.unit}".strip(), f"≤ {one.goal:g} {one.unit}".strip(), one.note,
         "" if one.figure <= one.goal else "MISSED")
        for one in results
    ]  # fmt: skip
    print(table(("what", "figure", "goal", "", ""), rows))
    if not any("one-dir" in one.what for one in results):
        print("the one-dir build was not measured: make dist first")
    write("edge", results)


if __name__ == "__main__":
    main()
