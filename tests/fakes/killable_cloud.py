"""A cloud that can be killed around anything it says: the real informer and the real planner on the embedded API server
in memory, scripted hosts on a wire, virtual time. What survives is the API server and what the hosts did."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from beehive.api.crd import crd
from beehive.config import Duration
from beehive.messages import wire
from beehive.messages.fleet import Tell
from beehive.messages.tasks import CancelTask, ReportSeen, StartTask, TaskReport
from beehive.world import World
from modules.demo.apiserver import builtin
from modules.demo.apiserver.application import Application
from modules.demo.apiserver.kinds import from_crd
from modules.informer.client import Client
from modules.informer.config import Config, Lease
from modules.informer.connection import Connection
from modules.informer.module import Informer
from modules.taskmanager.cloud import CloudTaskManager
from modules.taskmanager.config import CloudConfig
from tests.contracts.place import JOBS, NODES, Object
from tests.fakes.edges import edge_node
from tests.fakes.house import Side
from tests.fakes.jobs import NEW, rolled_back, success
from tests.fakes.memory_api import MemoryClient
from tests.fakes.wire import MemoryHub, Wire

ADDRESS = "http://127.0.0.1:1"


class Pace(msgspec.Struct, frozen=True):
    """How quickly everything goes, in seconds."""

    work: float = 3.0
    repeat: float = 5.0
    look: float = 0.5
    flush: float = 1.0


class ScriptedHost:
    """Runs an attempt once, and repeats its last word until it is acknowledged."""

    def __init__(self, node: str, wire_: Wire, fails: bool, pace: Pace) -> None:
        self.node, self.wire, self.fails, self.pace = node, wire_, fails, pace
        self.epoch = 0
        self.runs: list[str] = []
        self.said: dict[tuple[str, int], TaskReport] = {}
        self.unseen: set[tuple[str, int]] = set()
        self.running = False
        self.on_run: Callable[[], None] = lambda: None
        self.on_seen: Callable[[str], None] = lambda node: None

    def opened(self) -> None:
        """A session began."""

    def closed(self) -> None:
        """A session ended."""

    def hear(self, frame: bytes) -> None:
        body = wire.from_cloud(frame).body
        if isinstance(body, CancelTask | StartTask | ReportSeen):
            key = (body.uid, body.attempt)
            if isinstance(body, ReportSeen):
                self.unseen.discard(key)
                self.on_seen(self.node)
            elif isinstance(body, StartTask):
                self._start(key, body.job)

    def _start(self, key: tuple[str, int], job: str) -> None:
        if key in self.said:
            self.unseen.add(key)
            self._repeat()
        elif f"{key[0]}#{key[1]}" not in self.runs:
            self.runs.append(f"{key[0]}#{key[1]}")
            self.running = True
            self.on_run()
            asyncio.get_running_loop().call_later(self.pace.work, self._end, key, job)

    def _end(self, key: tuple[str, int], job: str) -> None:
        make = rolled_back if self.fails else success
        self.said[key] = make(4, job=job, uid=key[0], attempt=key[1])
        self.unseen.add(key)
        self.running = False
        self._repeat()

    def _repeat(self) -> None:
        if not self.unseen:
            return
        hub, world = self.wire.hub, self.wire.world
        if hub and self.epoch:
            for key in self.unseen:
                hub.hear(self.node, self.epoch, wire.to_cloud(self.said[key], self.node, "m", world.now()))
        asyncio.get_running_loop().call_later(self.pace.repeat, self._repeat)


class Deeds:
    """All that one cloud says to the outside, counted; it is killed around one of them."""

    def __init__(self, kill_at: int, after: bool) -> None:
        self.kill_at, self.after = kill_at, after
        self.done: list[str] = []
        self.killed = asyncio.Event()

    def begins(self, what: str) -> bool:
        """Is this the one around which it is killed?"""
        self.done.append(what)
        return len(self.done) == self.kill_at

    async def request(self, method: str, path: str, carry_out: Callable[[], Awaitable[None]]) -> None:
        """A guard for `MemoryClient`."""
        if self.killed.is_set():
            await asyncio.Event().wait()
        if method == "GET":
            await carry_out()
        elif self.begins(f"{method} {path}"):
            if self.after:
                await carry_out()
            self.killed.set()
            await asyncio.Event().wait()
        else:
            await carry_out()


class KillableHub(MemoryHub):
    """Says nothing any more once the cloud is killed."""

    def __init__(self, wire_: Wire, deeds: Deeds) -> None:
        super().__init__(wire_)
        self._deeds = deeds

    def _tell(self, tell: Tell) -> None:
        if self._deeds.killed.is_set():
            return
        last = self._deeds.begins(f"{type(tell.body).__name__} {tell.node}")
        if not last or self._deeds.after:
            super()._tell(tell)
        if last:
            self._deeds.killed.set()


class Theatre:
    """The API server, the hosts, and one cloud after another."""

    def __init__(
        self, world: World, nodes: tuple[str, ...], failing: tuple[str, ...] = (), pace: Pace | None = None
    ) -> None:
        self.world, self.pace = world, pace or Pace()
        self.wire = Wire(world)
        self.hosts = {node: ScriptedHost(node, self.wire, node in failing, self.pace) for node in nodes}
        self.wire.uplinks.update(self.hosts)  # type: ignore[arg-type]
        self.reach = Config(server=ADDRESS)
        self.admin = self._open()
        self.lives = 0
        self.most_running = 0
        for host in self.hosts.values():
            host.on_run, host.on_seen = self._count, self._check
        self.early: list[str] = []
        """Nodes whose last word was acknowledged before it stood in the API server."""
        self._checks: set[asyncio.Task[None]] = set()

    def _check(self, node: str) -> None:
        task = asyncio.create_task(self._must_stand(node))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _must_stand(self, node: str) -> None:
        status = (await self.get(f"{JOBS}/north")).get("status", {})
        stands = [one["phase"] for one in status.get("nodeStatus", ()) if one["nodeName"] == node]
        if stands not in (["Successful"], ["Failure"]):
            self.early.append(node)

    def _count(self) -> None:
        self.most_running = max(self.most_running, sum(host.running for host in self.hosts.values()))

    def _open(self) -> Client:
        """The API server, in memory; the admin's way to it."""
        kinds = [*builtin.KINDS, *(from_crd(one) for one in [crd()])]
        application = Application(kinds, 20_000, 60.0, "", lambda: datetime.fromtimestamp(self.world.now(), UTC))
        for name in ("default", "kubeedge"):
            application.make_namespace(name)
        self.application = application.asgi()
        return MemoryClient(Connection(self.reach), 30.0, self.application, _plainly)

    def client_of(self, deeds: Deeds) -> Callable[[Connection, float], Client]:
        """How a cloud reaches it."""
        return lambda connection, timeout: MemoryClient(connection, timeout, self.application, deeds.request)

    async def furnish(self, **spec: Any) -> None:
        """The nodes and the job."""
        for node in self.hosts:
            await self._make(NODES, edge_node(node))
        api, kind = "operations.kubeedge.io/v1alpha2", "NodeUpgradeJob"
        body = {"version": NEW, "nodeNames": list(self.hosts), **spec}
        await self._make(JOBS, {"apiVersion": api, "kind": kind, "metadata": {"name": "north"}, "spec": body})

    async def _make(self, path: str, body: Object) -> None:
        reply = await self.admin.create(path, msgspec.json.encode(body))
        assert reply.status == 201, reply

    async def get(self, path: str) -> Object:
        body: Object = msgspec.json.decode((await self.admin.get(path)).body)
        return body

    async def life(self, deeds: Deeds, limit: float = 900.0) -> bool:
        """One cloud, until it is killed or the job is over. True: the job is over."""
        self.lives += 1
        lease = Lease(identity=f"life-{self.lives}", retry_period=Duration(self.pace.look))
        config = msgspec.structs.replace(self.reach, lease=lease, watch_timeout=Duration(30))
        planner = CloudConfig(flush=Duration(self.pace.flush))
        modules: dict[str, Any] = {
            "informer": Informer(config, self.world, self.client_of(deeds)),
            "taskmanager": CloudTaskManager(planner, self.world),
            "cloudhub": KillableHub(self.wire, deeds),
        }
        side = Side("cloud", modules, self.world, None)
        try:
            await side.start()
            end = self.world.now() + limit
            while not deeds.killed.is_set():
                side.must_live()
                if await self.is_over():
                    return True
                assert self.world.now() < end, f"not over: {await self.get(f'{JOBS}/north')}"
                await asyncio.sleep(self.pace.look)
            return False
        finally:
            await side.kill()

    async def is_over(self) -> bool:
        """The job ended, every word was heard, no node is held."""
        if (await self.get(f"{JOBS}/north")).get("status", {}).get("phase") not in ("Completed", "Failure"):
            return False
        if any(host.unseen for host in self.hosts.values()):
            return False
        return not any(self.is_held(one) for one in (await self.get(NODES))["items"])

    @staticmethod
    def is_held(node: Object) -> bool:
        """It is cordoned, or carries our annotation."""
        return bool(node["spec"].get("unschedulable")) or "beehive/cordon" in node["metadata"].get("annotations", {})


async def _plainly(_method: str, _path: str, carry_out: Callable[[], Awaitable[None]]) -> None:
    await carry_out()
