"""Many edges with a script in place of a host: real certificates, real websockets, real frames, no disk.

Each keeps what it did as a host's journal does, so that what really ran can be compared after anything was killed: an
attempt is run once, and its last word is said until it is acknowledged. Run as a process it takes a `Settings` file,
says `ready` when all are connected, and writes what its hosts saw when its stdin ends.
"""

import asyncio
import contextlib
import ssl
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from msgspec import Struct

from beehive.api.node import EDGE_LABEL
from beehive.errors import Unavailable
from beehive.messages import wire
from beehive.messages.tasks import CancelTask, ReportSeen, StartTask, TaskReport
from beehive.world import World
from modules.cloudhub import pki
from modules.edgehub.uplink import Dial, Uplink, dial
from tests.fakes.jobs import OLD, rolled_back, success

_AGAIN = 0.1
_DIALS = 32
"""Dials at once: a fleet that comes back together spreads itself."""


class Settings(Struct, frozen=True):
    """What a process of edges is told."""

    servers: tuple[str, ...]
    """`host:port` of each replica's hub; only the leader's takes them."""
    identities: str
    nodes: tuple[str, ...]
    work: float = 0.1
    """Seconds that an upgrade takes."""
    failing: tuple[str, ...] = ()
    words: dict[str, tuple[str, str, str]] = {}
    """Node -> code, reason and version of its last word, where it is neither success nor rolled back."""
    silent: tuple[str, ...] = ()
    """Who works and never says a word."""
    repeat: float = 1.0
    dead_after: float = 0.0
    """Seconds without an answer to a ping after which a cloud is taken as gone, as edgehub does; 0: never."""
    records: str = ""
    """Where what the hosts saw is written."""


class Seen(Struct, frozen=True):
    """One order that a host was given."""

    at: float
    """`time.monotonic()` of this machine."""
    node: str
    order: str
    uid: str
    attempt: int
    server: str
    digests: dict[str, str] | None = None
    """The pins of a StartTask."""


class Records(Struct):
    """What all hosts saw."""

    orders: list[Seen] = []
    runs: list[tuple[str, str, int]] = []
    """Node, uid and attempt of each upgrade that really began."""
    unseen: int = 0
    """Last words that nobody has acknowledged."""
    ended: dict[str, float] = {}
    """Node -> when its last upgrade ended, by `time.monotonic()`."""
    acknowledged: dict[str, float] = {}
    """Node -> when its last word was acknowledged first."""

    def ran(self) -> dict[str, int]:
        """Node -> how many upgrades it began."""
        return {node: sum(one[0] == node for one in self.runs) for node in {one[0] for one in self.runs}}

    def starts(self) -> list[Seen]:
        return [one for one in self.orders if one.order == "StartTask"]


def issue(directory: Path, nodes: Sequence[str], ca: pki.Pair) -> None:
    """An identity for each node, all with one key: a certificate is what they are told apart by."""
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "many")])
    csr = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    request, now = csr.public_bytes(Encoding.DER), time.time()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (directory / "ca.pem").write_bytes(pki.to_pem(ca.certificate))
    for node in nodes:
        certificate = pki.sign_node(ca, request, node, now, 86400.0)
        (directory / f"{node}.pem").write_bytes(pki.to_pem(certificate) + private)


class Edges:
    """All of them, on one loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.records = Records()
        self.online: set[str] = set()
        self.changed = asyncio.Event()
        self._said: dict[tuple[str, str, int], TaskReport] = {}
        self._unseen: dict[str, set[tuple[str, str, int]]] = {}
        """By node, so that thousands of them do not look through each other's."""
        self._ran: set[tuple[str, str, int]] = set()
        self._links: dict[str, Uplink] = {}
        self._world = World()
        self._doors = asyncio.Semaphore(_DIALS)
        self._working: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for node in self.settings.nodes:
                group.create_task(self._live(node))

    async def all_online(self) -> None:
        """Until every node has a session."""
        while len(self.online) < len(self.settings.nodes):
            self.changed.clear()
            await self.changed.wait()

    async def _live(self, node: str) -> None:
        directory = Path(self.settings.identities)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(directory / "ca.pem")
        context.load_cert_chain(directory / f"{node}.pem")
        turn = hash(node)
        while True:
            server = self.settings.servers[turn % len(self.settings.servers)]
            try:
                async with self._doors:
                    link = await dial(Dial(server, node, "p", 10.0), context)
                assert isinstance(link, Uplink)
                await self._talk(node, server, link)
            except Unavailable:
                await asyncio.sleep(_AGAIN)
            turn += 1

    async def _talk(self, node: str, server: str, link: Uplink) -> None:
        self._links[node] = link
        self.online.add(node)
        self.changed.set()
        speaking = asyncio.create_task(self._speak(node, link))
        try:
            async for frame in link.frames():
                self._hear(node, server, frame)
        finally:
            speaking.cancel()
            self.online.discard(node)
            link.cut()

    async def _speak(self, node: str, link: Uplink) -> None:
        """A sign of life, and everything that is not acknowledged, again and again."""
        with contextlib.suppress(Unavailable):
            while True:
                await link.send(wire.keepalive(self._world.new_id(), self._world.now()))
                for key in list(self._unseen.get(node, ())):
                    await self._say(node, self._said[key])
                await asyncio.sleep(self.settings.repeat)
                if self.settings.dead_after and not await link.alive(self.settings.dead_after):
                    link.cut()
                    return

    async def _say(self, node: str, report: TaskReport) -> None:
        with contextlib.suppress(Unavailable):
            await self._links[node].send(wire.to_cloud(report, node, self._world.new_id(), self._world.now()))

    def _hear(self, node: str, server: str, frame: bytes) -> None:
        body = wire.from_cloud(frame).body
        if not isinstance(body, StartTask | CancelTask | ReportSeen):
            return
        key = (node, body.uid, body.attempt)
        seen = Seen(time.monotonic(), node, type(body).__name__, body.uid, body.attempt, server)
        if isinstance(body, ReportSeen):
            if key in self._said and body.revision >= self._said[key].revision:
                self._unseen.get(node, set()).discard(key)
                self.records.acknowledged.setdefault(node, seen.at)
            return
        if isinstance(body, StartTask):
            seen = msgspec.structs.replace(seen, digests=body.spec.digests)
        self.records.orders.append(seen)
        if isinstance(body, StartTask):
            self._start(key, body)

    def _start(self, key: tuple[str, str, int], order: StartTask) -> None:
        """Once; a repeated order is answered with the last word, if there is one."""
        if key in self._said:
            self._unseen.setdefault(key[0], set()).add(key)
            self._later(self._say(key[0], self._said[key]))
        elif key not in self._ran:
            self._ran.add(key)
            self.records.runs.append(key)
            self._later(self._work(key, order))

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _work(self, key: tuple[str, str, int], order: StartTask) -> None:
        await asyncio.sleep(self.settings.work)
        node, uid, attempt = key
        self.records.ended[node] = time.monotonic()
        if node in self.settings.silent:
            return
        make: Callable[..., TaskReport] = rolled_back if node in self.settings.failing else success
        about = {"job": order.job, "uid": uid, "attempt": attempt}
        if node in self.settings.words:
            code, reason, version = self.settings.words[node]
            about |= {"code": code, "reason": reason, "to_version": version}
        self._said[key] = make(4, **about)
        self._unseen.setdefault(node, set()).add(key)
        await self._say(node, self._said[key])

    def saw(self) -> Records:
        """What they saw so far."""
        self.records.unseen = sum(map(len, self._unseen.values()))
        return self.records


def edge_node(name: str) -> dict[str, Any]:
    """As its kubelet registers it."""
    empty = ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion")
    info = dict.fromkeys((*empty, "kubeProxyVersion"), "")
    info |= {"kubeletVersion": f"v1.30.7-kubeedge-{OLD}", "architecture": "amd64", "operatingSystem": "linux"}
    moment = "2026-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    ready |= {"lastHeartbeatTime": moment, "lastTransitionTime": moment}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {EDGE_LABEL: ""}},
        "status": {"conditions": [ready], "nodeInfo": info},
    }  # fmt: skip


def names(count: int) -> tuple[str, ...]:
    """So many node names."""
    return tuple(f"edge-{number:04}" for number in range(count))


async def _main(path: Path) -> None:
    settings = msgspec.json.decode(path.read_bytes(), type=Settings)
    edges = Edges(settings)
    running = asyncio.create_task(edges.run())
    await edges.all_online()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    running.cancel()
    Path(settings.records).write_bytes(msgspec.json.encode(edges.saw()))


if __name__ == "__main__":
    import uvloop

    uvloop.run(_main(Path(sys.argv[1])))
