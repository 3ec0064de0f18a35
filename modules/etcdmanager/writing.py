"""What is written to the API server: conditions, marks, the end of a removal, the report."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from beehive.api.node import Node, NodeCondition
from beehive.messages.objects import (
    Missing,
    Patched,
    PatchNode,
    PatchNodeCondition,
    PatchObject,
    PatchOperation,
    RecordEvent,
)
from beehive.module import Endpoint
from beehive.world import World
from modules.etcdmanager.conditions import MARK, due, found
from modules.etcdmanager.config import Config
from modules.etcdmanager.members import Standing
from modules.etcdmanager.orders import Wishes
from modules.etcdmanager.report import KEY, Report, volatile

REFUSED = "beehive/etcd-removal-refused"
"""Annotation: why the removal that a Node asks for is not done."""

_log = logging.getLogger("beehive.etcdmanager")


class Writer:
    """Writes only what differs; remembers what it wrote."""

    def __init__(self, config: Config, world: World, counters: dict[str, int]) -> None:
        self._config = config
        self._world = world
        self._counters = counters
        self._reported: object = None
        self._reported_at = 0.0
        self.written: dict[str, NodeCondition] = {}
        """Node -> the condition as we last wrote it."""
        self.trouble = ""
        """Why the report could not be written."""

    def forget(self) -> None:
        """Another process writes from now on."""
        self.written.clear()
        self._reported = None

    async def conditions(self, endpoint: Endpoint, nodes: Iterable[Node], standings: Mapping[str, Standing]) -> None:
        """Those that changed, and those that are due."""
        now, heartbeat = self._world.now(), float(self._config.heartbeat)
        for node in nodes:
            name, stands = node.metadata.name, found(node)
            new = due(standings[name], self.written.get(name) or stands.condition, now, heartbeat)
            if new is None:
                continue
            if not stands.marked:
                await self.annotate(endpoint, node, {MARK: "true"})
            answer = await endpoint.ask(PatchNodeCondition(name=name, condition=new))
            if isinstance(answer, Patched):
                self.written[name] = new
                self._counters["conditions_written"] += 1
            else:
                _log.warning("condition not written", extra={"node": name, "reason": str(answer)})

    async def removals(self, endpoint: Endpoint, nodes: Mapping[str, Node], wishes: Wishes) -> None:
        """Say on each Node what became of the removal that it asks for."""
        prefix = self._config.annotations
        for name, member in wishes.fulfilled.items():
            gone = {f"{prefix}/{key}": None for key in ("remove", "node-name", "node-address")}
            await self.annotate(endpoint, nodes[name], {**gone, f"{prefix}/removed-node-name": member, REFUSED: None})
            await self._event(endpoint, nodes[name], "EtcdMemberRemoved", f"etcd member {member} was removed")
        for name, node in nodes.items():
            why = wishes.refused.get(name)
            if name not in wishes.fulfilled and why != (node.metadata.annotations or {}).get(REFUSED):
                await self.annotate(endpoint, node, {REFUSED: why})
                if why:
                    note = f"etcd member not removed: {why}"
                    await self._event(endpoint, node, "EtcdRemovalRefused", note, warning=True)

    async def annotate(self, endpoint: Endpoint, node: Node, values: Mapping[str, str | None]) -> None:
        """Set or delete annotations."""
        operations = annotating(node, values)
        if not operations:
            return
        meta = node.metadata
        answer = await endpoint.ask(
            PatchNode(name=meta.name, uid=meta.uid, resource_version=meta.resource_version, operations=operations)
        )
        if not isinstance(answer, Patched | Missing):
            _log.warning("annotations not written", extra={"node": meta.name, "reason": str(answer)})

    async def report(self, endpoint: Endpoint, report: Report) -> None:
        """Into the ConfigMap, when it says something new, while there is a learner, or as a heartbeat."""
        now, plain = self._world.now(), volatile(report)
        old = now - self._reported_at >= float(self._config.heartbeat)
        if not self._config.report or (plain == self._reported and not old and not report.learners):
            return
        namespace, name = self._config.report.split("/")
        text = msgspec.json.encode(report).decode()
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        answer = await endpoint.ask(PatchObject(path=path, patch={"data": {KEY: text}}))
        if isinstance(answer, Patched):
            self._reported, self._reported_at, self.trouble = plain, now, ""
            self._counters["reports_written"] += 1
            return
        missing = f"there is no ConfigMap {self._config.report}; kubectl apply -f configs/rbac.yaml makes it"
        self.trouble = missing if isinstance(answer, Missing) else f"ConfigMap {self._config.report}: {answer}"

    @staticmethod
    async def _event(endpoint: Endpoint, node: Node, reason: str, note: str, *, warning: bool = False) -> None:
        meta = node.metadata
        await endpoint.send(
            RecordEvent(kind="Node", name=meta.name, uid=meta.uid, warning=warning, reason=reason, note=note)
        )


def annotating(node: Node, values: Mapping[str, str | None]) -> tuple[PatchOperation, ...]:
    """The patch that makes a Node's annotations so; None deletes. Empty: they are so."""
    have: Mapping[str, Any] = node.metadata.annotations or {}
    operations = []
    if not node.metadata.annotations and any(value is not None for value in values.values()):
        operations.append(PatchOperation("add", "/metadata/annotations", {}))
    for name, value in values.items():
        path = f"/metadata/annotations/{name.replace('~', '~0').replace('/', '~1')}"
        if value is None and name in have:
            operations.append(PatchOperation("remove", path))
        elif value is not None and have.get(name) != value:
            operations.append(PatchOperation("add", path, value))
    return tuple(operations)
