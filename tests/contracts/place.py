"""A cluster as others see it: what they make, change and delete while an informer looks on."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from beehive.config import Duration
from beehive.world import World
from modules.informer import Config
from modules.informer.answers import Reply
from modules.informer.client import MERGE_PATCH, STRATEGIC_PATCH, Client
from modules.informer.config import Lease
from modules.informer.connection import Connection
from modules.informer.module import Informer

Object = dict[str, Any]
NODES = "/api/v1/nodes"
JOBS = "/apis/operations.kubeedge.io/v1alpha2/nodeupgradejobs"
EDGE = {"node-role.kubernetes.io/edge": ""}
QUICK = Lease(duration=Duration(3), renew_deadline=Duration(2), retry_period=Duration(0.2))
"""Times that a busy machine can keep."""


def fresh(prefix: str) -> str:
    """A name that nobody else uses."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


class Place:
    """An API server: `reach` is how to get there (server, tokenFile, caFile), as the admin or as the informer."""

    def __init__(self, admin: Config, reach: Config | None = None) -> None:
        self.namespace = (reach or admin).namespace
        self.reach = reach or admin
        self._connection = Connection(admin)
        self.client = Client(self._connection, timeout=30)

    async def __aenter__(self) -> "Place":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.__aexit__()

    def config(self, **changes: Any) -> Config:
        """An informer's settings: a Lease of its own, short times."""
        lease = msgspec.structs.replace(QUICK, name=fresh("lease"))
        settings = {"lease": lease, "watch_timeout": Duration(2), **changes}
        return msgspec.structs.replace(self.reach, **settings)

    def informer(self, **changes: Any) -> Informer:
        return Informer(self.config(**changes), World())

    async def ok(self, reply: Awaitable[Reply]) -> Object:
        """The body of a good answer; any other fails the test."""
        answer = await reply
        assert 200 <= answer.status <= 299, (answer.status, answer.body)
        body: Object = msgspec.json.decode(answer.body)
        return body

    async def make(self, path: str, body: Object) -> Object:
        return await self.ok(self.client.create(path, msgspec.json.encode(body)))

    async def get(self, path: str) -> Object:
        return await self.ok(self.client.get(path))

    async def merge(self, path: str, patch: Object, kind: str = MERGE_PATCH) -> Object:
        return await self.ok(self.client.patch(path, msgspec.json.encode(patch), kind))

    async def delete(self, path: str) -> Object:
        return await self.ok(self.client.delete(path))

    # ---- Nodes -------------------------------------------------------------------------------------------------

    async def node(self, name: str = "") -> Object:
        name = name or fresh("edge")
        node = await self.make(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": EDGE}, "spec": {}}
        )
        return await self.standing(node["metadata"]["name"], "True", "2026-01-01T00:00:00Z")

    async def standing(self, name: str, ready: str, beat: str, reason: str = "KubeletReady") -> Object:
        """What a kubelet reports: its Ready condition, with a heartbeat."""
        condition = {
            "type": "Ready",
            "status": ready,
            "reason": reason,
            "message": "",
            "lastHeartbeatTime": beat,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        info = {"kubeletVersion": "v1.30.4-kubeedge-v1.22.0", "architecture": "amd64"}
        empty = dict.fromkeys(
            ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"), ""
        )
        info |= {**empty, "kubeProxyVersion": "", "operatingSystem": "linux"}
        body = {"status": {"conditions": [condition], "nodeInfo": info}}
        return await self.merge(f"{NODES}/{name}/status", body, STRATEGIC_PATCH)

    async def label(self, name: str, value: str) -> Object:
        return await self.merge(f"{NODES}/{name}", {"metadata": {"labels": {"step": value}}})

    # ---- jobs --------------------------------------------------------------------------------------------------

    async def job(self, name: str = "", *nodes: str) -> Object:
        spec = {"version": "v1.23.0", "nodeNames": list(nodes) or ["edge-1"]}
        api, kind = "operations.kubeedge.io/v1alpha2", "NodeUpgradeJob"
        return await self.make(
            JOBS, {"apiVersion": api, "kind": kind, "metadata": {"name": name or fresh("job")}, "spec": spec}
        )

    async def suspend(self, name: str, value: bool = True) -> Object:
        return await self.merge(f"{JOBS}/{name}", {"spec": {"suspend": value}})


async def until(condition: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    """Waits until it (or what it awaits) is true; at the deadline the test fails and says what was waited for."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                value = condition()
                if await value if isinstance(value, Awaitable) else value:
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {seconds:g} s") from None
