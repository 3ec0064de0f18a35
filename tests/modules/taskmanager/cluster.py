"""The planner alone on a real bus: a `Store` answers for the API server, the test speaks for the hub and the nodes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from beehive.api.meta import ObjectMeta
from beehive.api.node import CORDON, HISTORY
from beehive.api.nodeupgradejob import JobStatus, NodeEntry, NodeUpgradeJob, NodeUpgradeJobSpec
from beehive.config import Duration
from beehive.message import Request
from beehive.messages.fleet import Answer, Heard, ListOnline, NodeOffline, NodeOnline, Online, Session, Tell
from beehive.messages.objects import (
    Away,
    JobChanged,
    JobGone,
    Jobs,
    LeadershipChanged,
    ListJobs,
    ListNodes,
    NodeChanged,
    Nodes,
    Patched,
    PatchJob,
    PatchJobStatus,
    PatchNode,
    RecordEvent,
)
from beehive.messages.tasks import CancelTask, Hello, ReportSeen, StartTask, TaskReport
from beehive.world import World, rfc3339
from modules.taskmanager.cloud import CloudTaskManager
from modules.taskmanager.config import CloudConfig
from tests.fakes.alone import Peers, alone
from tests.fakes.jobs import NEW, OLD
from tests.fakes.kubernetes import Store

WRITES = (PatchJobStatus, PatchJob, PatchNode)
CONFIG = CloudConfig(offline_after=Duration(2))
Write = PatchJobStatus | PatchJob | PatchNode


class Cluster:
    """What outlives the planner, and hands on it."""

    def __init__(self, world: World, *nodes: str) -> None:
        self.world = world
        self.store = Store(world)
        for name in nodes:
            self.store.add_node(name, OLD)
        self.sessions: dict[str, Session] = {}
        self.open_since = world.now() - 3600
        self.tampers: Callable[[Write], Any] | None = None
        """Looks at each write first; what it returns, if anything, is the answer."""
        self.lists: Callable[[ListJobs], Any] | None = None
        self.peers: Peers
        self.told: list[tuple[str, object]] = []
        """Node and body of everything said to nodes, over all lives of the planner."""
        self.dead_at: int | None = None
        """The planner was killed when it had said so many things: what it says later nobody hears."""
        self.most_in_flight = 0
        self.manager: CloudTaskManager
        """Of the present life."""
        self._epoch = 0
        self._read = 0

    # ---- lives of the planner ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def planner(
        self, config: CloudConfig = CONFIG, *, leads: bool = True, inbox: int = 1024
    ) -> AsyncIterator[None]:
        """One life."""
        self.manager = CloudTaskManager(config, self.world)
        async with alone(self.manager, world=self.world, inbox=inbox) as self.peers:
            self._read, self.dead_at, self._over = 0, None, asyncio.Event()
            for kind in WRITES:
                self.peers.answer(kind, self._write)
            self.peers.answer(ListJobs, self._list_jobs)
            self.peers.answer(ListNodes, lambda _: Nodes(tuple(self.store.nodes.values())))
            self.peers.answer(ListOnline, lambda _: Online(tuple(self.sessions.values()), self.open_since))
            if leads:
                self.lead()
            try:
                yield
            finally:
                self.hear()
                self._over.set()

    async def kill(self) -> object:
        """As SIGKILL, from within a write: nothing that it says from now on is heard or done."""
        self.hear()
        self.dead_at = len(self.peers.said)
        await self._over.wait()
        return away(None)

    def lead(self, seconds: float = 1e9) -> None:
        """A grant from now on; 0 ends it."""
        until = asyncio.get_running_loop().time() + seconds if seconds else 0.0
        self.peers.publish(LeadershipChanged(until=until))

    def _list_jobs(self, request: ListJobs) -> Jobs:
        answer = self.lists(request) if self.lists else None
        return answer if answer is not None else Jobs(tuple(self.store.jobs.values()))

    async def _write(self, request: Write) -> object:
        if self.dead_at is not None:
            return await self.kill()
        answer = self.tampers(request) if self.tampers else None
        if asyncio.iscoroutine(answer):
            answer = await answer
        return self.commit(request) if answer is None else answer

    def commit(self, request: Write) -> object:
        """Apply a write as the API server does, and tell the watch."""
        answer = self.store.patched(request)
        for job in self.store.jobs.values():
            self.most_in_flight = max(self.most_in_flight, job.status.in_progress)
        if isinstance(answer, Patched):
            self._watch(answer.object, request)
        return answer

    def _watch(self, changed: object, request: Write) -> None:
        if isinstance(changed, NodeUpgradeJob) and request.name not in self.store.jobs:
            self.peers.publish(JobGone(name=request.name, uid=request.uid))
        elif isinstance(changed, NodeUpgradeJob):
            self.peers.publish(JobChanged(job=changed))
        else:
            self.peers.publish(NodeChanged(node=self.store.nodes[request.name]))

    # ---- operators ---------------------------------------------------------------------------------------------

    def apply(self, *nodes: str, name: str = "north", **spec: Any) -> NodeUpgradeJob:
        """`kubectl apply`; the watch tells it."""
        job = self.store.add_job(name, NodeUpgradeJobSpec(version=spec.pop("version", NEW), node_names=nodes, **spec))
        self.peers.publish(JobChanged(job=job))
        return job

    def edit(self, name: str, **changes: Any) -> None:
        """`kubectl edit` of the spec."""
        job = self.store.jobs[name]
        meta = msgspec.structs.replace(
            job.metadata, generation=job.metadata.generation + 1, resource_version=self.store.next()
        )
        self._put(msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, **changes), metadata=meta))

    def delete(self, name: str = "north") -> None:
        """`kubectl delete`: it goes when its finalizers are gone."""
        job = self.store.jobs[name]
        if not job.metadata.finalizers:
            del self.store.jobs[name]
            self.peers.publish(JobGone(name=name, uid=job.metadata.uid))
            return
        self.delete_quietly(job)
        self._put(self.store.jobs[name])

    def delete_quietly(self, job: NodeUpgradeJob) -> None:
        """While nobody watches."""
        meta = msgspec.structs.replace(
            job.metadata, deletion_timestamp=rfc3339(self.world.now()), resource_version=self.store.next()
        )
        self.store.jobs[job.metadata.name] = msgspec.structs.replace(job, metadata=meta)

    def _put(self, job: NodeUpgradeJob) -> None:
        self.store.jobs[job.metadata.name] = job
        self.peers.publish(JobChanged(job=job))

    def change_node(self, name: str, **changes: Any) -> None:
        """Somebody edits a Node: `metadata` or `spec` fields."""
        node = self.store.nodes[name]
        meta = {field: changes.pop(field) for field in ("annotations", "labels") if field in changes}
        metadata: ObjectMeta = msgspec.structs.replace(node.metadata, resource_version=self.store.next(), **meta)
        node = msgspec.structs.replace(node, metadata=metadata, spec=msgspec.structs.replace(node.spec, **changes))
        self.store.nodes[name] = node
        self.peers.publish(NodeChanged(node=node))

    # ---- the hub and the nodes ---------------------------------------------------------------------------------

    def connect(self, *nodes: str, legacy: bool = False) -> None:
        """New sessions."""
        for node in nodes:
            self._epoch += 1
            self.sessions[node] = Session(node, self._epoch, self.world.now(), legacy)
            if hasattr(self, "peers"):
                self.peers.publish(NodeOnline(node=node, epoch=self._epoch, legacy=legacy))

    def disconnect(self, *nodes: str) -> None:
        for node in nodes:
            session = self.sessions.pop(node)
            self.peers.publish(NodeOffline(node=node, epoch=session.epoch))

    async def say(self, node: str, body: TaskReport | Hello, message_id: str = "m", ticket: int = 0) -> None:
        """A node's word arrives."""
        epoch = self.sessions[node].epoch if node in self.sessions else 0
        await self.peers.send(Heard(node=node, epoch=epoch, body=body, message_id=message_id, ticket=ticket))

    # ---- looking -----------------------------------------------------------------------------------------------

    def hear(self) -> None:
        """Take down what was said to nodes."""
        end = len(self.peers.said) if self.dead_at is None else self.dead_at
        for body in self.peers.said[self._read : end]:
            if isinstance(body, Tell):
                self.told.append((body.node, body.body))
        self._read = max(self._read, end)

    def started(self) -> list[str]:
        """Nodes that were told to start, in order, with the attempt."""
        self.hear()
        return [f"{node}#{body.attempt}" for node, body in self.told if isinstance(body, StartTask)]

    def cancelled(self) -> list[str]:
        self.hear()
        return [f"{node}#{body.attempt}" for node, body in self.told if isinstance(body, CancelTask)]

    def seen(self) -> list[str]:
        """Acknowledged reports, as node#attempt.revision."""
        self.hear()
        return [f"{node}#{body.attempt}.{body.revision}" for node, body in self.told if isinstance(body, ReportSeen)]

    def answers(self) -> list[tuple[int, str]]:
        """What came of POSTs."""
        return [(one.ticket, one.outcome) for one in self.peers.all_of(Answer)]

    def events(self, kind: str = "NodeUpgradeJob") -> list[str]:
        return [one.reason for one in self.peers.all_of(RecordEvent) if one.kind == kind]

    def status(self, name: str = "north") -> JobStatus:
        return self.store.jobs[name].status

    def entry(self, node: str, name: str = "north") -> NodeEntry:
        return next(one for one in self.status(name).node_status or () if one.node_name == node)

    def is_cordoned(self, node: str) -> bool:
        return self.store.nodes[node].spec.unschedulable

    def holds_annotation(self, node: str) -> bool:
        return CORDON in (self.store.nodes[node].metadata.annotations or {})

    def history(self, node: str) -> str:
        return (self.store.nodes[node].metadata.annotations or {}).get(HISTORY, "")

    def writes(self, kind: type[Request[Any]] = PatchJobStatus) -> int:
        """How many writes of this kind stood."""
        return sum(one.startswith(kind.__name__ + " ") for one in self.store.writes)

    async def until(self, holds: Callable[[], object], what: str, limit: float = 600.0) -> None:
        """Let virtual time pass until it holds."""
        end = self.world.now() + limit
        while not holds():
            if self.world.now() > end:
                states = {name: job.status for name, job in self.store.jobs.items()}
                raise AssertionError(f"{what}: not within {limit:g} s; {states}")
            await asyncio.sleep(0.01)

    async def rest(self, seconds: float = 5.0) -> None:
        """Let virtual time pass: whatever was going to happen by itself has happened."""
        await asyncio.sleep(seconds)


def away(_: object) -> Away:
    """The API server does not answer."""
    return Away("the API server at 127.0.0.1 refuses connections")
