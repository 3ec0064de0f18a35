"""The servers of `make bench NAME=hub`, each in a process of its own: the hub, two plain ones, and bare TLS.

Started as `python -m benchmarks.hub_servers KIND DIRECTORY`; the driver (`hub.py`) writes the PKI into the directory,
then commands to stdin, one a line: `connected N` waits for so many, `push` tells every node something and waits until
each has answered, `received N` waits until so many messages came in since the last command. Each is answered by a line.
"""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
import uvloop
from aiohttp import web
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_create_server
from websockets.asyncio.server import ServerConnection, serve

from beehive.bus import Bus
from beehive.config import Duration
from beehive.journal import Journal
from beehive.message import Lagged
from beehive.messages.fleet import Answer, Heard, ListOnline, NodeOffline, NodeOnline, Tell
from beehive.messages.objects import (
    GetSecret,
    LeadershipChanged,
    ListNodes,
    Patched,
    PutSecret,
    Secret,
    SecretChanged,
)
from beehive.messages.runtime import Draining
from beehive.messages.tasks import StartTask, TaskSpec
from beehive.module import Endpoint
from beehive.router import Declaration
from beehive.world import World
from modules.cloudhub import tls
from modules.cloudhub.config import Config, Https, Websocket
from modules.cloudhub.module import CloudHub
from modules.cloudhub.pki import Authority, Pair

TASK = StartTask(
    job="job-1", uid="11111111-1111-4111-8111-111111111111", attempt=0, lease_seconds=300.0,
    spec=TaskSpec(version="v1.23.1", image="registry.example.org/kubeedge/installation-package"),
)  # fmt: skip
PUSH = json.loads((Path(__file__).parents[1] / "tests/vectors/kubeedge" / (
    "ws_downstream_v1alpha2_nodeupgradejob_check_full_spec.json")).read_text()
)  # fmt: skip


class Keys(msgspec.Struct):
    """What the driver wrote down."""

    ca: Pair
    server: Pair


class Server(Protocol):
    """One kind."""

    port: int
    nodes: int
    """Connected now."""
    received: int
    """Messages so far."""

    async def push(self) -> None:
        """Tell every node something."""


class Ours:
    """The hub on a bus, and one module beside it that takes in what it says."""

    port = nodes = received = 0

    def __init__(self, keys: Keys, directory: Path) -> None:
        self._secrets = {
            "beehive-ca": {"cadata": keys.ca.certificate, "cakeydata": keys.ca.key},
            "beehive-hub": {"cloudcoredata": keys.server.certificate, "cloudcorekeydata": keys.server.key},
        }
        here = {"address": "127.0.0.1", "port": 0}
        still = Duration(3600)  # the nodes of a measurement say nothing of their own
        config = Config(websocket=Websocket(**here), https=Https(**here), keepalive=still)  # type: ignore[arg-type]
        self.hub = CloudHub(config, World(), Journal(directory / "journal"))
        said = (Heard, NodeOnline, NodeOffline, GetSecret, PutSecret, ListNodes, Lagged)
        sends = (Tell, Answer, LeadershipChanged, SecretChanged, Draining)
        declared = (
            Declaration("cloudhub", self.hub.accepts, self.hub.sends, self.hub.asks),
            Declaration("others", said, sends, (ListOnline,)),
        )
        bus = Bus(declared, {"cloudhub": 1024, "others": 8192})
        self._others, self._end = Endpoint("others", bus), Endpoint("cloudhub", bus)
        self._online: set[str] = set()

    async def run(self, group: asyncio.TaskGroup) -> None:
        group.create_task(self._listen())
        group.create_task(self.hub.run(self._end))
        await self._end.is_ready.wait()
        self._others.publish(LeadershipChanged(until=asyncio.get_running_loop().time() + 1e6))
        while not (await self._others.ask(ListOnline(), 10.0)).open_since:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        self.port = self.hub.websocket_port

    async def _listen(self) -> None:
        async for batch in self._others.batches():
            for envelope in batch:
                body = envelope.body
                if isinstance(body, Heard):
                    self.received += 1
                elif isinstance(body, NodeOnline):
                    self._online.add(body.node)
                elif isinstance(body, NodeOffline):
                    self._online.discard(body.node)
                elif isinstance(body, GetSecret):
                    self._others.reply(envelope, Secret(self._secrets.get(body.name, {}), "1"))
                elif isinstance(body, PutSecret):
                    self._others.reply(envelope, Patched())
            self.nodes = len(self._online)

    async def push(self) -> None:
        for node in self._online:
            await self._others.send(Tell(node=node, body=TASK))


class Websockets:
    """The library `websockets`, used as its documentation shows."""

    port = nodes = received = 0

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._open: set[ServerConnection] = set()

    async def run(self, _: asyncio.TaskGroup) -> None:
        options: Any = {"ssl": self._context, "compression": None, "ping_interval": None, "backlog": 1024}
        server = await serve(self._handle, "127.0.0.1", 0, **options)
        self.port = next(iter(server.sockets)).getsockname()[1]

    async def _handle(self, websocket: ServerConnection) -> None:
        self._open.add(websocket)
        self.nodes += 1
        async for message in websocket:
            json.loads(message)
            self.received += 1
        self._open.discard(websocket)
        self.nodes -= 1

    async def push(self) -> None:
        for websocket in list(self._open):
            await websocket.send(json.dumps(PUSH))


class Aiohttp:
    """The library `aiohttp`, used as its documentation shows."""

    port = nodes = received = 0

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._open: set[web.WebSocketResponse] = set()

    async def run(self, _: asyncio.TaskGroup) -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._context, backlog=1024).start()
        self.port = runner.addresses[0][1]

    async def _handle(self, request: web.Request) -> web.WebSocketResponse:
        websocket = web.WebSocketResponse(compress=False)
        await websocket.prepare(request)
        self._open.add(websocket)
        self.nodes += 1
        async for message in websocket:
            json.loads(message.data)
            self.received += 1
        self._open.discard(websocket)
        self.nodes -= 1
        return websocket

    async def push(self) -> None:
        for websocket in list(self._open):
            await websocket.send_str(json.dumps(PUSH))


class Least:
    """picows as the hub uses it with nothing on it: no decoding, no identity, no bus.

    Its figures are what TLS, event loop and kernel cost here; what the hub has above them is ours.
    """

    port = nodes = received = 0

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._open: set[WSTransport] = set()

    async def run(self, _: asyncio.TaskGroup) -> None:
        self._server = await ws_create_server(
            lambda _: _Counting(self), "127.0.0.1", 0, ssl=self._context, backlog=1024, use_aiofastnet=False,
            read_buffer_init_size=2048, websocket_handshake_timeout=60,
        )  # fmt: skip
        self.port = self._server.sockets[0].getsockname()[1]

    async def push(self) -> None:
        said = json.dumps(PUSH).encode()
        for transport in list(self._open):
            transport.send(WSMsgType.TEXT, said)


class _Counting(WSListener):
    def __init__(self, least: Least) -> None:
        super().__init__()
        self._least = least

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._least._open.add(transport)
        self._least.nodes += 1

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        frame.get_payload_as_bytes()
        self._least.received += 1

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._least._open.discard(transport)
        self._least.nodes -= 1


class Bare(asyncio.Protocol):
    """Nothing but TLS: the limit of accepting."""

    port = nodes = received = 0

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    async def run(self, _: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: self, "127.0.0.1", 0, ssl=self._context, backlog=1024, ssl_handshake_timeout=600
        )
        self.port = server.sockets[0].getsockname()[1]

    def connection_made(self, _: asyncio.BaseTransport) -> None:
        self.nodes += 1

    def connection_lost(self, _: Exception | None) -> None:
        self.nodes -= 1

    async def push(self) -> None:
        raise NotImplementedError


def made(kind: str, directory: Path) -> Any:
    keys = msgspec.msgpack.decode((directory / "keys").read_bytes(), type=Keys)
    if kind == "hub":
        return Ours(keys, directory / f"{kind}")
    context = tls.context(Authority(keys.ca), keys.server, ssl.CERT_REQUIRED)
    return {"websockets": Websockets, "aiohttp": Aiohttp, "picows alone": Least, "bare TLS": Bare}[kind](context)


@asynccontextmanager
async def _lines() -> AsyncIterator[Callable[[], Awaitable[bytes]]]:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    yield reader.readline
    transport.close()


async def _until(figure: Callable[[], int], wanted: int) -> None:
    while figure() < wanted:  # noqa: ASYNC110 - the servers that are measured are not to know of it
        await asyncio.sleep(0.005)


async def _serve(server: Any) -> None:
    async with asyncio.TaskGroup() as group, _lines() as line:
        await server.run(group)
        print(server.port, flush=True)
        while words := (await line()).split():
            before = server.received
            if words[0] == b"connected":
                await _until(lambda: server.nodes, int(words[1]))
            elif words[0] == b"push":
                await server.push()
                await _until(lambda: server.received, before + server.nodes)
            else:
                await _until(lambda: server.received, int(words[1]))
            print(server.received, flush=True)
        raise SystemExit(0)


if __name__ == "__main__":
    uvloop.run(_serve(made(sys.argv[1], Path(sys.argv[2]))))
