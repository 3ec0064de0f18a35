"""Nodes, and an API server's side that keeps what is written to them."""

from collections.abc import Callable
from typing import Any

import jsonpatch
import msgspec

from beehive.api.meta import ObjectMeta
from beehive.api.node import ETCD_LABEL, Node, NodeCondition, NodeStatus
from beehive.messages.objects import (
    ListNodes,
    Missing,
    Nodes,
    Patched,
    PatchNode,
    PatchNodeCondition,
    PatchObject,
    WriteAnswer,
)
from modules.etcdmanager.report import KEY, Report
from tests.fakes.alone import Peers

NAME = "etcd.k3s.cattle.io/node-name"


def node(name: str, member: str, *conditions: NodeCondition, role: str = "true", **annotations: str) -> Node:
    """`annotations` by their last part: `remove="true"`."""
    given = {f"etcd.k3s.cattle.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    values = {NAME: member, **given} if member else given
    metadata = ObjectMeta(name=name, uid=f"uid-{name}", labels={ETCD_LABEL: role}, annotations=values)
    return Node(metadata=metadata, status=NodeStatus(conditions=conditions))


class ApiSide:
    """Answers as the informer does, and keeps the Nodes."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes = {one.metadata.name: one for one in nodes}
        self.report: Report | None = None
        self.reports = 0
        self.refuses: Callable[[PatchNodeCondition], WriteAnswer | None] = lambda _: None
        self.no_config_map = False

    def behind(self, peers: Peers) -> None:
        peers.answer(ListNodes, lambda _: Nodes(tuple(self.nodes.values())))
        peers.answer(PatchNodeCondition, self._condition)
        peers.answer(PatchNode, self._patch)
        peers.answer(PatchObject, self._object)

    def condition(self, name: str) -> NodeCondition:
        (found,) = (one for one in self.nodes[name].status.conditions or () if one.type == "EtcdIsVoter")
        return found

    def reasons(self) -> dict[str, str]:
        return {name: self.condition(name).reason for name in self.nodes}

    def annotations(self, name: str) -> dict[str, str]:
        return dict(self.nodes[name].metadata.annotations or {})

    def write(self, name: str, condition: NodeCondition) -> None:
        """As a stranger does."""
        self._condition(PatchNodeCondition(name=name, condition=condition))

    def _condition(self, patch: PatchNodeCondition) -> WriteAnswer:
        if answer := self.refuses(patch):
            return answer
        old = self.nodes[patch.name]
        rest = tuple(one for one in old.status.conditions or () if one.type != patch.condition.type)
        status = msgspec.structs.replace(old.status, conditions=(*rest, patch.condition))
        self.nodes[patch.name] = msgspec.structs.replace(old, status=status)
        return Patched()

    def _patch(self, patch: PatchNode) -> WriteAnswer:
        plain: dict[str, Any] = msgspec.to_builtins(self.nodes[patch.name])
        steps = msgspec.json.decode(msgspec.json.encode(patch.operations))
        self.nodes[patch.name] = msgspec.convert(jsonpatch.apply_patch(plain, steps), Node)
        return Patched()

    def _object(self, patch: PatchObject) -> WriteAnswer:
        assert patch.path == "/api/v1/namespaces/kubeedge/configmaps/beehive-etcd"
        if self.no_config_map:
            return Missing()
        self.report = msgspec.json.decode(patch.patch["data"][KEY], type=Report)
        self.reports += 1
        return Patched()
