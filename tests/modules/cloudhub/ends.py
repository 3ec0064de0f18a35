"""The two ends of the channel on loopback: a hub with its Secrets, edges that join it, and peers of other kinds."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from beehive.config import Duration
from beehive.journal import Journal
from beehive.messages import wire
from beehive.messages.fleet import ListOnline, Online
from beehive.messages.objects import (
    Away,
    Denied,
    GetSecret,
    LeadershipChanged,
    Patched,
    PutSecret,
    Secret,
    SecretChanged,
    Stale,
    WriteAnswer,
)
from beehive.messages.tasks import StartTask, TaskReport, TaskSpec
from beehive.world import World
from modules.cloudhub import revocations, tokens
from modules.cloudhub.config import Config, Https, Websocket
from modules.cloudhub.module import CloudHub
from modules.edgehub import identity
from modules.edgehub.config import Config as EdgeConfig
from modules.edgehub.join import join
from modules.edgehub.module import EdgeHub
from tests.fakes.alone import Peers, alone

UID = "11111111-1111-4111-8111-111111111111"
TASK = StartTask(
    job="job-1", uid=UID, attempt=0, spec=TaskSpec(version="v1.23.1", image="kubeedge/installation-package"),
    lease_seconds=300.0,
)  # fmt: skip


def report(revision: int, **changed: Any) -> TaskReport:
    """A report of `TASK`."""
    values: dict[str, Any] = {"job": "job-1", "uid": UID, "attempt": 0, "revision": revision, "action": "Check"}
    return TaskReport(**(values | changed))


class Secrets:
    """The Secrets of a namespace, with compare and swap, as the informer answers."""

    def __init__(self) -> None:
        self.stored: dict[str, tuple[int, dict[str, bytes]]] = {}
        self.away = ""
        self.denied = ""
        self.writes = 0

    def get(self, request: GetSecret) -> Secret | Away:
        if self.away:
            return Away(self.away)
        version, data = self.stored.get(request.name, (0, {}))
        return Secret(dict(data), str(version) if version else "")

    def put(self, request: PutSecret) -> WriteAnswer:
        if self.away:
            return Away(self.away)
        if self.denied:
            return Denied(self.denied)
        version, _ = self.stored.get(request.name, (0, {}))
        if request.resource_version != (str(version) if version else ""):
            return Stale()
        self.stored[request.name] = (version + 1, dict(request.data))
        self.writes += 1
        return Patched()

    def write(self, name: str, data: dict[str, bytes]) -> None:
        """Somebody else writes it."""
        version, _ = self.stored.get(name, (0, {}))
        self.stored[name] = (version + 1, data)

    def token(self, node: str = "", uses: int = 0, token_id: str = "t1", seconds: float = 600.0) -> str:
        """Make a join token, as `beehive token create` does."""
        version, data = self.stored.get("beehive-tokens", (0, {}))
        book = tokens.read(data) or tokens.Book(bytes(range(32)))
        now = World().now()
        ca = self.stored["beehive-ca"][1]["cadata"]
        book, text = tokens.create(book, tokens.Token(token_id, now + seconds, node=node, uses=uses), ca)
        self.stored["beehive-tokens"] = (version + 1, tokens.write(book, now))
        return text


class Hub:
    """A running hub, and everybody else in its process."""

    def __init__(self, module: CloudHub, peers: Peers, secrets: Secrets) -> None:
        self.module = module
        self.peers = peers
        self.secrets = secrets

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.module.https_port}"

    @property
    def server(self) -> str:
        return f"127.0.0.1:{self.module.websocket_port}"

    def counted(self, name: str) -> int:
        return self.module.counters.get(name, 0)

    async def online(self) -> Online:
        return await self.peers.ask(ListOnline())

    async def lead(self, seconds: float = 600.0) -> None:
        """Give it the leadership and wait until it is open."""
        self.grant(seconds)
        await until(self._is_open, "the hub opens")

    def grant(self, seconds: float) -> None:
        now = asyncio.get_running_loop().time()
        self.peers.publish(LeadershipChanged(until=now + seconds if seconds else 0.0))

    async def revoke(self, node: str, reason: str = "") -> None:
        """As `beehive edge revoke`, and until the hub has heard of it."""
        fleet = self.module.fleet
        assert fleet is not None
        before = fleet.revocations
        book = revocations.read(self.secrets.stored.get("beehive-revoked", (0, {}))[1])
        self.secrets.write("beehive-revoked", revocations.write(book.revoke(node, World().now(), reason)))
        self.peers.publish(SecretChanged(name="beehive-revoked"))
        await until(lambda: fleet.revocations is not before, "the hub knows of the revocation")

    async def _is_open(self) -> bool:
        return (await self.online()).open_since > 0

    async def join(self, node: str, directory: Path) -> Path:
        """An identity for a node, got as an edge gets it."""
        await join(self.url, self.secrets.token(token_id=f"for-{node}"), node, directory)
        return directory


@asynccontextmanager
async def hub(directory: Path, secrets: Secrets | None = None, **settings: Any) -> AsyncIterator[Hub]:
    """A hub on free ports of loopback, which does not lead yet."""
    values: dict[str, Any] = {
        "websocket": Websocket(address="127.0.0.1", port=0),
        "https": Https(address="127.0.0.1", port=0),
    }
    secrets = secrets or Secrets()
    module = CloudHub(Config(**(values | settings)), World(), Journal(directory / "cloudhub"))
    async with alone(module, name="cloudhub") as peers:
        peers.answer(GetSecret, secrets.get)
        peers.answer(PutSecret, secrets.put)
        yield Hub(module, peers, secrets)


@asynccontextmanager
async def edge(directory: Path, *servers: str, **settings: Any) -> AsyncIterator[tuple[EdgeHub, Peers]]:
    """An edge's uplink with quick times; its identity is in `directory`."""
    values: dict[str, Any] = {
        "servers": servers, "identity": str(directory), "first_delay": Duration(0.02), "repeat": Duration(0.2)
    }  # fmt: skip
    module = EdgeHub(EdgeConfig(**(values | settings)), World(), Journal(directory / "journal"))
    async with alone(module, name="edgehub") as peers:
        yield module, peers


async def raw(
    server: str, directory: Path, *, own: bool = True, claims: str | None = None, context: ssl.SSLContext | None = None,
    **settings: Any,
) -> ClientConnection:  # fmt: skip
    """A peer whose frames a test writes itself; without `own` it is like a real EdgeCore."""
    node, its_context = identity.load(directory)
    headers = {"node_id": node if claims is None else claims, "project_id": "p", "ConnectionUse": "msg"}
    if own:
        headers[wire.PROTOCOL_HEADER] = wire.PROTOCOL
    url = f"wss://{server}/e632aba927ea4ac2b575ec1603d56f10/{node}/events"
    return await connect(
        url, ssl=context or its_context, additional_headers=headers, compression=None, ping_interval=None,
        close_timeout=1, **settings,
    )  # fmt: skip


async def until(condition: Callable[[], Any], what: str, timeout: float = 10.0) -> None:
    """Wait for a condition (a function, or a coroutine function)."""
    try:
        async with asyncio.timeout(timeout):
            while True:
                answer = condition()
                if await answer if asyncio.iscoroutine(answer) else answer:
                    return
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {timeout:g} s: {what}") from None
