"""Nodes, as far as upgrades and etcd members are concerned."""

from msgspec import Struct

from beehive.api.meta import ObjectMeta
from beehive.api.version import agent_version

EDGE_LABEL = "node-role.kubernetes.io/edge"
"""An edge node carries it with an empty value (spec/kubeedge.md 3.3)."""
ETCD_LABEL = "node-role.kubernetes.io/etcd"
HISTORY = "nodeupgradejob.operations.kubeedge.io/history"
"""Annotation: `old->new` joined by `;`, newest last, at most 10 (product.md 3.4.8)."""
CORDON = "beehive/cordon"
"""Annotation on a Node that a job cordoned; its value is a `Cordon` as JSON (product.md 3.4.5)."""
KEEP_CORDONED = "beehive/keep-cordoned"
"""Annotation by which an operator asks us to leave the node cordoned."""


class NodeSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    unschedulable: bool = False


class NodeCondition(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """v1.NodeCondition: unlike metav1.Condition it has a heartbeat and no generation."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class NodeInfo(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    kubelet_version: str = ""
    architecture: str = ""


class NodeStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    conditions: tuple[NodeCondition, ...] | None = None
    node_info: NodeInfo = NodeInfo()


class Node(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The pruned Node that the informer keeps."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Cordon(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Why we cordoned a node, and what it was before; the value of the annotation CORDON."""

    job: str
    """Name of the job, for people."""
    uid: str
    """Its uid: identity is the uid (product.md 3.4.9)."""
    attempt: int
    was_unschedulable: bool
    from_version: str = ""


def is_edge(node: Node) -> bool:
    """It has the edge label, with the empty value."""
    return (node.metadata.labels or {}).get(EDGE_LABEL) == ""


def is_etcd(node: Node) -> bool:
    """It has the etcd role."""
    return (node.metadata.labels or {}).get(ETCD_LABEL) == "true"


def is_ready(node: Node) -> bool:
    """Its Ready condition is True."""
    return any(one.type == "Ready" and one.status == "True" for one in node.status.conditions or ())


def version_of(node: Node) -> str:
    """Version of the agent: of `v1.30.4-kubeedge-v1.22.0` the last part, else the whole (product.md 3.4.2)."""
    return agent_version(node.status.node_info.kubelet_version)


def with_history(annotation: str, old: str, new: str, most: int = 10) -> str:
    """The history annotation with one more entry."""
    entries = [entry for entry in annotation.split(";") if entry]
    return ";".join((*entries, f"{old}->{new}")[-most:])
