"""What warnings are made from: the Nodes, and which of them open jobs hold. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from beehive.api.node import Node
from beehive.api.nodeupgradejob import COMPLETED, FAILURE, IN_PROGRESS, PENDING, NodeUpgradeJob
from beehive.api.selection import selected


class Known(Struct, frozen=True):
    """A look at the cluster."""

    nodes: Mapping[str, Node] | None = None
    """By name; None where nothing is known."""
    held: Mapping[str, str] = {}
    """Node -> the open job that means to upgrade it."""


NOTHING = Known()


def look(nodes: tuple[Node, ...], jobs: tuple[NodeUpgradeJob, ...]) -> Known:
    """What follows from these objects."""
    by_name = {node.metadata.name: node for node in nodes}
    held: dict[str, str] = {}
    for job in jobs:
        if job.status.phase in (COMPLETED, FAILURE) or job.metadata.deletion_timestamp:
            continue
        for name in _open_nodes(job, by_name):
            held.setdefault(name, job.metadata.name)
    return Known(by_name, held)


def _open_nodes(job: NodeUpgradeJob, nodes: Mapping[str, Node]) -> tuple[str, ...]:
    if job.status.node_status is None:
        return selected(job.spec, nodes)
    return tuple(one.node_name for one in job.status.node_status if one.phase in (PENDING, IN_PROGRESS))
