"""The whole house in one process and in virtual time: one cloud, some edges, a wire of real frames between them.

Everything that decides is the product's own (both task managers, the bus, the wire's frames); the outside world is in
memory: `MemoryInformer`, `MemoryHub`, `MemoryUplink`, `MemoryUpgrader`. A cloud or an agent can be killed and started
again; what survives is the `Store`, the `Disk` and the journal.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from beehive.bus import Bus
from beehive.journal import Journal
from beehive.message import Envelope
from beehive.messages.tasks import TaskReport
from beehive.module import Endpoint, Module
from beehive.router import Declaration
from beehive.trace import Tracer
from beehive.world import World
from modules.taskmanager.cloud import CloudTaskManager
from modules.taskmanager.config import CloudConfig, EdgeConfig
from modules.taskmanager.edge import EdgeTaskManager
from modules.taskmanager.record import Moment
from tests.fakes.hosts import Disk, MemoryUpgrader
from tests.fakes.kubernetes import MemoryInformer, Store
from tests.fakes.wire import MemoryHub, MemoryUplink, Wire


class Side:
    """Some modules on one bus, as one process has them."""

    def __init__(self, name: str, modules: Mapping[str, Module], world: World, tracer: Tracer | None) -> None:
        self.name = name
        declared = [Declaration(one, m.accepts, m.sends, m.asks) for one, m in modules.items()]
        self.bus = Bus(declared, dict.fromkeys(modules, 1024))
        self.bus.trace(tracer)
        self.endpoints = {one: Endpoint(one, self.bus, world) for one in modules}
        self.modules = modules
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Each module ready before the next."""
        for name, module in self.modules.items():
            task = asyncio.ensure_future(module.run(self.endpoints[name]))
            self._tasks.append(task)
            ready = asyncio.ensure_future(self.endpoints[name].is_ready.wait())
            await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            if task.done():
                await task

    async def kill(self) -> None:
        """As SIGKILL: nothing is finished, nothing is said any more."""
        for task in reversed(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for endpoint in self.endpoints.values():
            endpoint.inbox.close()

    async def stop(self) -> None:
        """Messages end, in reverse order. Raises what a module raised."""
        for endpoint in reversed(self.endpoints.values()):
            endpoint.inbox.close()
        async with asyncio.timeout(120):
            await asyncio.gather(*self._tasks)

    def must_live(self) -> None:
        """Raises what a module raised."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()


class House:
    """One cloud, the edges by name, and the wire."""

    def __init__(self, world: World, directory: Path, tracer: Callable[[str], Tracer | None] = lambda _: None) -> None:
        self.world, self.directory = world, directory
        self.store, self.wire = Store(world), Wire(world)
        self.disks: dict[str, Disk] = {}
        self.sides: dict[str, Side] = {}
        self._tracer = tracer
        self._outboxes: dict[str, dict[tuple[str, int], TaskReport]] = {}
        self.settings = CloudConfig()

    def add_host(self, name: str, version: str, *, crashes_on: str = "", ready: bool = True) -> None:
        """An edge host and its Node object; its agent is not started yet."""
        self.disks[name] = Disk(version, crashes_on=crashes_on)
        self.store.add_node(name, version, ready=ready)

    async def start_cloud(self) -> None:
        """A new cloud process."""
        modules: dict[str, Any] = {
            "informer": MemoryInformer(self.store),
            "taskmanager": CloudTaskManager(self.settings, self.world),
            "cloudhub": MemoryHub(self.wire),
        }
        await self._start("cloud", modules)

    async def start_edge(self, name: str) -> None:
        """A new agent process on this host."""
        moment: Callable[[float], Moment] = lambda wall: Moment(wall, "boot-1", wall)  # noqa: E731
        journal = Journal(self.directory / name)
        modules: dict[str, Any] = {
            "upgrader": MemoryUpgrader(self.disks[name]),
            "taskmanager": EdgeTaskManager(EdgeConfig(), self.world, journal, moment),
            "edgehub": MemoryUplink(name, self.wire, self._outboxes.setdefault(name, {})),
        }
        await self._start(name, modules)

    async def _start(self, name: str, modules: dict[str, Module]) -> None:
        side = Side(name, modules, self.world, self._tracer(name))
        self.sides[name] = side
        await side.start()

    async def kill(self, name: str) -> None:
        """End the cloud (`cloud`) or an agent at once."""
        await self.sides.pop(name).kill()

    async def until(self, holds: Callable[[], bool], what: str, limit: float = 3600) -> None:
        """Let time pass until it holds; fails after `limit` virtual seconds, and says what a module raised before."""
        end = self.world.now() + limit
        while not holds():
            for side in self.sides.values():
                side.must_live()
            if self.world.now() > end:
                states = {name: job.status for name, job in self.store.jobs.items()}
                raise AssertionError(f"{what}: not within {limit:g} s; {states}")
            await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """Stop the edges, then the cloud."""
        for name in sorted(self.sides, key=lambda one: one == "cloud"):
            await self.sides.pop(name).stop()


class Transcript:
    """A tracer that writes lines."""

    def __init__(self, side: str, lines: list[str], said: Callable[[str, str, Envelope], str | None]) -> None:
        self._side, self._lines, self._said = side, lines, said

    def posted(self, receiver: str, envelope: Envelope) -> None:
        line = self._said(self._side, receiver, envelope)
        if line is not None:
            self._lines.append(line)

    def delivered(self, receiver: str, envelope: Envelope) -> None:
        """Only what is said stands in a transcript."""

    def answered(self, envelope: Envelope, answer: object) -> None:
        """Answers are seen in what follows."""
