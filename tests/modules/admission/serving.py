"""The webhook on a real bus and over real TLS on loopback; the API server's objects are in memory."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from beehive.config import Duration
from beehive.messages.objects import (
    Away,
    GetSecret,
    Jobs,
    ListJobs,
    ListNodes,
    Nodes,
    Patched,
    PutSecret,
    Secret,
    Stale,
)
from beehive.world import World
from modules.admission.config import Config
from modules.admission.module import Admission
from tests.fakes.alone import Peers, alone

WORLD = World()


class Secrets:
    """One Secret, by compare and swap."""

    def __init__(self, **data: bytes) -> None:
        self.data, self.version = dict(data), 1 if data else 0
        self.away = 0
        """How often the API server is away before it answers."""
        self.stale = 0
        """How many writes lose a race."""

    def get(self, _: GetSecret) -> Secret | Away:
        if self.away:
            self.away -= 1
            return Away("the API server at https://127.0.0.1:6443: connection refused")
        return Secret(dict(self.data), str(self.version) if self.version else "")

    def put(self, wanted: PutSecret) -> Patched | Stale:
        if self.stale:
            self.stale -= 1
            self.version += 1
            return Stale()
        assert wanted.resource_version == (str(self.version) if self.version else "")
        self.data, self.version = dict(wanted.data), self.version + 1
        return Patched()


def config(**more: Any) -> Config:
    return Config(address="127.0.0.1", port=0, retry_first=Duration(0.01), retry_cap=Duration(0.05), **more)


def answering(peers: Peers, secrets: Secrets, nodes: Nodes = Nodes(()), jobs: Jobs = Jobs(())) -> None:  # noqa: B008
    """What the informer answers."""
    peers.answer(GetSecret, secrets.get)
    peers.answer(PutSecret, secrets.put)
    peers.answer(ListNodes, lambda _: nodes)
    peers.answer(ListJobs, lambda _: jobs)


@asynccontextmanager
async def serving(module: Admission, secrets: Secrets) -> AsyncIterator[Peers]:
    """The module at work, its webhook answering."""
    async with alone(module, name="admission", world=WORLD) as peers:
        answering(peers, secrets)
        await until(lambda: module.ca and not peers.module.waits_for and listens(module.port))
        yield peers


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def until(check: Any) -> None:
    """Wait until `check()` holds."""
    async with asyncio.timeout(20):
        while not check():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.01)


def client(module: Admission) -> httpx.AsyncClient:
    """Trusts the module's CA alone, as the API server does."""
    trust = ssl.create_default_context(cadata=module.ca.decode())
    return httpx.AsyncClient(verify=trust, base_url=f"https://127.0.0.1:{module.port}", trust_env=False)


JSON = {"content-type": "application/json"}
