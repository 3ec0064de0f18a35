"""The informer in memory: objects, guarded patches, events to subscribers. For stories in virtual time.

It answers what `beehive/messages/objects.py` promises, and nothing more; the real informer is held to the same messages
on a real kube-apiserver in `tests/real`.
"""

from typing import Any

import jsonpatch
import msgspec

from beehive.api.meta import ObjectMeta
from beehive.api.node import EDGE_LABEL, Node, NodeCondition, NodeInfo, NodeStatus
from beehive.api.nodeupgradejob import NodeUpgradeJob, NodeUpgradeJobSpec
from beehive.message import Envelope
from beehive.messages.objects import (
    JobChanged,
    JobGone,
    Jobs,
    LeadershipChanged,
    ListJobs,
    ListNodes,
    Missing,
    NodeChanged,
    NodeGone,
    Nodes,
    Patched,
    PatchJob,
    PatchJobStatus,
    PatchNode,
    PatchNodeCondition,
    PatchOperation,
    RecordEvent,
    Stale,
    WriteAnswer,
)  # fmt: skip
from beehive.module import Endpoint
from beehive.world import World, rfc3339

Object = NodeUpgradeJob | Node
Patch = PatchJobStatus | PatchJob | PatchNode


class Store:
    """What would be in the API server; outlives any process."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.jobs: dict[str, NodeUpgradeJob] = {}
        self.nodes: dict[str, Node] = {}
        self.events: list[RecordEvent] = []
        self.writes: list[str] = []
        """Every write that stood, as `PatchNode edge-1`."""
        self._version = 0

    def add_node(self, name: str, version: str, *, ready: bool = True) -> None:
        """An edge node of this version."""
        condition = NodeCondition(type="Ready", status="True" if ready else "False")
        metadata = ObjectMeta(name=name, uid=f"uid-of-{name}", labels={EDGE_LABEL: ""}, resource_version=self.next())
        info = NodeInfo(kubelet_version=f"v1.30.7-kubeedge-{version}", architecture="amd64")
        self.nodes[name] = Node(metadata=metadata, status=NodeStatus(conditions=(condition,), node_info=info))

    def add_job(self, name: str, spec: NodeUpgradeJobSpec) -> NodeUpgradeJob:
        """A new job, as it is after `kubectl apply`."""
        metadata = ObjectMeta(
            name=name, uid=f"uid-of-{name}", generation=1, resource_version=self.next(),
            creation_timestamp=rfc3339(self.world.now()),
        )  # fmt: skip
        job = NodeUpgradeJob(metadata=metadata, spec=spec)
        self.jobs[name] = job
        return job

    def next(self) -> str:
        self._version += 1
        return str(self._version)

    def patched(self, patch: Patch) -> WriteAnswer:
        """The guards of product.md 3.4.4, then the operations."""
        found: Object | None = (self.nodes if isinstance(patch, PatchNode) else self.jobs).get(patch.name)
        if found is None or found.metadata.uid != patch.uid:
            return Missing()
        if found.metadata.resource_version != patch.resource_version:
            return Stale(found)
        self.writes.append(f"{type(patch).__name__} {patch.name}")
        changed = self._applied(found, patch.operations)
        if (
            isinstance(changed, NodeUpgradeJob)
            and changed.metadata.deletion_timestamp
            and not changed.metadata.finalizers
        ):
            del self.jobs[patch.name]
        elif isinstance(changed, NodeUpgradeJob):
            self.jobs[patch.name] = changed
        else:
            self.nodes[patch.name] = changed
        return Patched(changed)

    def _applied(self, found: Object, operations: tuple[PatchOperation, ...]) -> Object:
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
        if isinstance(found, NodeUpgradeJob) and not found.status.phase:
            plain.pop("status")
        steps = msgspec.json.decode(msgspec.json.encode(operations))
        result = jsonpatch.apply_patch(plain, steps)
        result["metadata"]["resourceVersion"] = self.next()
        return msgspec.convert(result, type(found))


class MemoryInformer:
    """The module `informer` over a `Store`."""

    accepts = (RecordEvent, ListJobs, ListNodes, PatchJobStatus, PatchJob, PatchNode, PatchNodeCondition)
    sends = (JobChanged, JobGone, NodeChanged, NodeGone, LeadershipChanged)
    asks = ()

    def __init__(self, store: Store) -> None:
        self.store = store
        self.endpoint: Endpoint | None = None

    async def run(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        endpoint.ready()
        endpoint.publish(LeadershipChanged(until=1e12))
        async for envelope in endpoint.messages():
            self._handle(endpoint, envelope)

    def _handle(self, endpoint: Endpoint, envelope: Envelope) -> None:
        body = envelope.body
        if isinstance(body, RecordEvent):
            self.store.events.append(body)
        elif isinstance(body, ListJobs):
            endpoint.reply(envelope, Jobs(tuple(self.store.jobs.values())))
        elif isinstance(body, ListNodes):
            endpoint.reply(envelope, Nodes(tuple(self.store.nodes.values())))
        else:
            answer = self.store.patched(body)
            endpoint.reply(envelope, answer)
            if isinstance(answer, Patched):
                self.tell(answer.object, body.name, body.uid)

    def tell(self, changed: Object | None, name: str, uid: str) -> None:
        """What a watch would say."""
        assert self.endpoint is not None
        if isinstance(changed, Node):
            self.endpoint.publish(NodeChanged(node=changed))
        elif isinstance(changed, NodeUpgradeJob) and name not in self.store.jobs:
            self.endpoint.publish(JobGone(name=name, uid=uid))
        elif changed is not None:
            self.endpoint.publish(JobChanged(job=changed))
