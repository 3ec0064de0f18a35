"""The stories: a script of commands, and under each the traffic that followed. A newcomer reads the system here first.

    pytest tests/stories --rewrite      writes the traffic anew; the diff is the review

Commands: `host NAME VERSION [crashes=VERSION] [notready]`, `start cloud|NAME`, `kill cloud|NAME`, `job NAME VERSION
NODE… [key=value…]`, `until NAME ended`, `until NODE PHASE`, `wait SECONDS`, `cut NAME`, `connect NAME`, `status NAME`,
`swaps`. Everything runs in virtual time over the in-memory wire of tests/fakes/house.py.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from beehive.api.nodeupgradejob import COMPLETED, FAILURE, NodeUpgradeJobSpec
from beehive.world import World
from tests.fakes.house import House, Transcript
from tests.fakes.kubernetes import MemoryInformer
from tests.stories.telling import line

STORIES = sorted(Path(__file__).parent.glob("*.txt"))
_SEPARATOR = "----"


class Teller:
    """Carries out the commands of one story and collects what followed each."""

    def __init__(self, world: World, directory: Path) -> None:
        self.lines: list[str] = []
        self.house = House(world, directory, lambda side: Transcript(side, self.lines, line))
        self._begun = world.now()

    async def tell(self, command: str) -> list[str]:
        """Do it; the lines that followed."""
        word, *arguments = command.split()
        do: Callable[..., Coroutine[Any, Any, None]] = getattr(self, f"do_{word}")
        await do(*arguments)
        told, self.lines[:] = list(self.lines), []
        return told

    async def do_host(self, name: str, version: str, *more: str) -> None:
        crashes = next((one.partition("=")[2] for one in more if one.startswith("crashes=")), "")
        self.house.add_host(name, version, crashes_on=crashes, ready="notready" not in more)

    async def do_start(self, name: str) -> None:
        await (self.house.start_cloud() if name == "cloud" else self.house.start_edge(name))
        await asyncio.sleep(1)

    async def do_kill(self, name: str) -> None:
        await self.house.kill(name)

    async def do_wait(self, seconds: str) -> None:
        await asyncio.sleep(float(seconds))

    async def do_cut(self, name: str) -> None:
        self.house.wire.cut(name)
        await asyncio.sleep(1)

    async def do_connect(self, name: str) -> None:
        self.house.wire.connect(name)
        await asyncio.sleep(1)

    async def do_job(self, name: str, version: str, *more: str) -> None:
        nodes = tuple(one for one in more if "=" not in one)
        said = dict(one.split("=") for one in more if "=" in one)
        spec = NodeUpgradeJobSpec(
            version=version, node_names=nodes, concurrency=int(said.get("concurrency", 1)),
            failure_tolerate=said.get("tolerate", "0.1"), on_offline=said.get("onOffline", "Skip"),
        )  # fmt: skip
        job = self.house.store.add_job(name, spec)
        informer = self.house.sides["cloud"].modules["informer"]
        assert isinstance(informer, MemoryInformer)
        informer.tell(job, name, job.metadata.uid)
        await asyncio.sleep(0.01)

    async def do_until(self, name: str, state: str) -> None:
        store = self.house.store

        def holds() -> bool:
            if state == "ended":
                return store.jobs[name].status.phase in (COMPLETED, FAILURE)
            entries = [entry for job in store.jobs.values() for entry in job.status.node_status or ()]
            flow = [one.action for entry in entries if entry.node_name == name for one in entry.action_flow or ()]
            return state in flow or any(entry.node_name == name and entry.phase == state for entry in entries)

        await self.house.until(holds, f"{name} {state}")
        await asyncio.sleep(2 if state == "ended" else 0)

    async def do_status(self, name: str) -> None:
        status = self.house.store.jobs[name].status
        self.lines.append(f"{name} {status.phase} {status.done} {status.reason}".rstrip())
        self.lines += [
            f"  {entry.node_name} {entry.phase} {entry.reason_code or '-'} {entry.reason}".rstrip()
            for entry in status.node_status or ()
        ]
        for node in self.house.store.nodes.values():
            history = (node.metadata.annotations or {}).get("nodeupgradejob.operations.kubeedge.io/history", "-")
            cordoned = "cordoned" if node.spec.unschedulable else "open"
            self.lines.append(f"  node {node.metadata.name}: {cordoned}, history {history}")

    async def do_swaps(self) -> None:
        self.lines += [
            f"{name} runs {disk.version}, was swapped to: {' '.join(disk.swaps) or 'nothing'}"
            for name, disk in self.house.disks.items()
        ]


def read(text: str) -> list[tuple[str, list[str]]]:
    """Commands with the lines that stand under each; `#` begins a comment that belongs to the next command."""
    parts: list[tuple[str, list[str]]] = []
    for block in text.split("\n\n"):
        head, _, traffic = block.strip("\n").partition(f"\n{_SEPARATOR}\n")
        if head.strip():
            parts.append((head.removesuffix(f"\n{_SEPARATOR}"), traffic.splitlines()))
    return parts


def written(parts: list[tuple[str, list[str]]]) -> str:
    """The inverse."""
    return "\n\n".join("\n".join((head, _SEPARATOR, *traffic)) for head, traffic in parts) + "\n"


def test_there_are_stories() -> None:
    assert len(STORIES) >= 3


@pytest.mark.virtual_time
@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
async def test_story(path: Path, world: World, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    parts = read(path.read_text(encoding="utf-8"))
    teller = Teller(world, tmp_path)
    told = []
    for head, _ in parts:
        lines: list[str] = []
        for command in head.splitlines():
            if not command.startswith("#"):
                lines += await teller.tell(command)
        told.append((head, lines))
    await teller.house.stop()
    if pytestconfig.getoption("--rewrite"):
        path.write_text(written(told), encoding="utf-8")
    assert told == read(path.read_text(encoding="utf-8")), "run pytest tests/stories --rewrite, and read the diff"
