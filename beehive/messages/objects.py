"""Topic `objects`, owned by the informer: what is true in the API server, and changes to it."""

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from beehive.api.node import Node, NodeCondition
from beehive.api.nodeupgradejob import NodeUpgradeJob
from beehive.message import Command, Event, Request


class JobChanged(Event, frozen=True, kw_only=True, gc=False, tag="objects.job-changed"):
    """The informer, when a job is new or differs from what it last said. If lost: ask ListJobs."""

    job: NodeUpgradeJob


class JobGone(Event, frozen=True, kw_only=True, gc=False, tag="objects.job-gone"):
    """The informer, when a job is no longer there. If lost: ask ListJobs."""

    name: str
    uid: str


class NodeChanged(Event, frozen=True, kw_only=True, gc=False, tag="objects.node-changed"):
    """The informer, when something that rules look at changed on a Node (no heartbeats). If lost: ask ListNodes."""

    node: Node


class NodeGone(Event, frozen=True, kw_only=True, gc=False, tag="objects.node-gone"):
    """The informer, when a Node object was deleted. If lost: ask ListNodes."""

    name: str
    uid: str


class SecretChanged(Event, frozen=True, kw_only=True, gc=False, tag="objects.secret-changed"):
    """The informer, when one of our own Secrets changed (tokens, revocations). If lost: ask GetSecret."""

    name: str


class LeadershipChanged(Event, frozen=True, kw_only=True, gc=False, tag="objects.leadership-changed"):
    """The informer, at each start, renewal and end of this process's leadership.

    `until` is the end of the grant on the monotonic clock of the event loop (`loop.time()`), 0.0 when there is none.
    Checked synchronously by who acts; if lost, the grant simply runs out.
    """

    until: float


class RecordEvent(Command, frozen=True, kw_only=True, gc=False, tag="objects.record-event"):
    """Anybody: a Kubernetes Event on an object. If lost: nothing but a line of the story is missing."""

    kind: str
    """`Node` or `NodeUpgradeJob`."""
    name: str
    uid: str
    warning: bool = False
    reason: str
    """CamelCase."""
    note: str
    """The sentence; at most 1 kB is kept."""


# ---- answers -----------------------------------------------------------------------------------------------------


class Jobs(Struct, frozen=True, gc=False):
    """All jobs, as last seen."""

    items: tuple[NodeUpgradeJob, ...]


class Nodes(Struct, frozen=True, gc=False):
    """All Nodes, as last seen."""

    items: tuple[Node, ...]


class Patched(Struct, frozen=True, gc=False, tag="patched"):
    """It stands in the API server; `object` is it as answered: a NodeUpgradeJob, a Node, or None for other kinds."""

    object: NodeUpgradeJob | Node | None = None
    took: float = 0.0
    """Seconds that the server took, without what was waited before it was asked (again); 0.0: not measured."""


class Stale(Struct, frozen=True, gc=False, tag="stale"):
    """The object changed meanwhile (409, or the uid test failed): it was read again; `object` is what is true now."""

    object: NodeUpgradeJob | Node | None = None


class Missing(Struct, frozen=True, gc=False, tag="missing"):
    """There is no such object (any more), or one of another uid stands under its name."""


class Denied(Struct, frozen=True, gc=False, tag="denied"):
    """The API server refuses this write for good (422 with causes, 400): never repeat it unchanged."""

    reason: str
    may_pass: bool = False
    """It is not what is written but who writes (403): rights may be given, so it may be tried again later."""


class Away(Struct, frozen=True, gc=False, tag="away"):
    """The API server did not answer, or we do not lead: whether it was written is unknown. Try later."""

    reason: str


WriteAnswer: TypeAlias = Patched | Stale | Missing | Denied | Away


class PatchOperation(Struct, frozen=True, gc=False, omit_defaults=True):
    """One operation of a JSON Patch (RFC 6902)."""

    op: str
    path: str
    value: Any = msgspec.UNSET


# ---- requests ----------------------------------------------------------------------------------------------------


class ListJobs(Request[Jobs], frozen=True, kw_only=True, gc=False, tag="objects.list-jobs"):
    """Anybody, after a start, a restart or Lagged. `fresh`: read anew from the API server first (a new leader)."""

    fresh: bool = False


class ListNodes(Request[Nodes], frozen=True, kw_only=True, gc=False, tag="objects.list-nodes"):
    """Anybody, after a start, a restart or Lagged."""


class PatchJobStatus(Request[WriteAnswer], frozen=True, kw_only=True, gc=False, tag="objects.patch-job-status"):
    """taskmanager: change a job's status. The informer puts the guards on uid and resourceVersion in front."""

    name: str
    uid: str
    resource_version: str
    operations: tuple[PatchOperation, ...]


class PatchJob(Request[WriteAnswer], frozen=True, kw_only=True, gc=False, tag="objects.patch-job"):
    """taskmanager: change a job's metadata (finalizer). Guarded like PatchJobStatus."""

    name: str
    uid: str
    resource_version: str
    operations: tuple[PatchOperation, ...]


class PatchNode(Request[WriteAnswer], frozen=True, kw_only=True, gc=False, tag="objects.patch-node"):
    """taskmanager: cordon, uncordon, history. Guarded like PatchJobStatus; Missing means: nothing to do any more."""

    name: str
    uid: str
    resource_version: str
    operations: tuple[PatchOperation, ...]


class PatchNodeCondition(Request[WriteAnswer], frozen=True, kw_only=True, gc=False, tag="objects.patch-node-condition"):
    """etcdmanager: write this one condition of a Node, as a strategic-merge patch of `/status`."""

    name: str
    condition: NodeCondition


class PatchObject(Request[WriteAnswer], frozen=True, kw_only=True, gc=False, tag="objects.patch-object"):
    """Anybody: merge-patch an object of ours that no rule reads (webhook caBundle, ConfigMap, own pod's label)."""

    path: str
    """Path in the API, such as `/api/v1/namespaces/kubeedge/pods/beehive-0`."""
    patch: dict[str, Any]


class Secret(Struct, frozen=True, gc=False):
    """A Secret's data, decoded; `resource_version` is empty where there is none yet."""

    data: dict[str, bytes]
    resource_version: str


class GetSecret(Request[Secret | Away], frozen=True, kw_only=True, gc=False, tag="objects.get-secret"):
    """cloudhub, admission: read one of our Secrets, in our own namespace."""

    name: str


class PutSecret(Request[WriteAnswer], frozen=True, kw_only=True, gc=False, tag="objects.put-secret"):
    """cloudhub, admission: compare and swap. `resource_version` as read; empty creates. Stale: read again."""

    name: str
    data: dict[str, bytes]
    resource_version: str
