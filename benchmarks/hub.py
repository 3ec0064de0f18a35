"""`make bench NAME=hub`: the hub beside plain servers, all over mutual TLS; writes `.bench/hub.json`.

Each server is a process; its CPU time and memory are read from /proc, so the clients' costs do not count. None of them
compresses. The last, `picows alone`, is no peer but the limit: the library under the hub, counting frames and no more.
`python -m benchmarks.hub --nodes 500 --rounds 1 --storm 1000` is a short run.
"""

import argparse
import asyncio
import os
import platform
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from beehive.api.nodeupgradejob import ActionResult
from beehive.messages import wire
from beehive.messages.tasks import TaskReport
from benchmarks.hub_servers import TASK, Keys
from benchmarks.measure import Spread, spread, table, write
from modules.cloudhub import pki

PEERS, LIMIT = ("websockets", "aiohttp"), "picows alone"
KINDS = ("hub", *PEERS, LIMIT)
PUSHES, REPORTS = 5, 20
_TICKS = os.sysconf("SC_CLK_TCK")


class Fleet:
    """The nodes: a certificate and a report for each."""

    def __init__(self, count: int, directory: Path) -> None:
        now = time.time()
        ca = pki.make_ca(now)
        keys = Keys(ca, pki.make_server(ca, ("127.0.0.1", "localhost"), now))
        (directory / "keys").write_bytes(msgspec.msgpack.encode(keys))
        self.names = [f"edge-{number}" for number in range(count)]
        self.contexts = self._contexts(ca, directory, now)
        self.reports = [self._report(name) for name in self.names]

    def _contexts(self, ca: pki.Pair, directory: Path, now: float) -> list[ssl.SSLContext]:
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        csr = x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, hashes.SHA256())
        der, pem, found = csr.public_bytes(Encoding.DER), pki.to_pem(ca.certificate).decode(), []
        for name in self.names:
            path = directory / "node.pem"
            path.write_bytes(pki.to_pem(pki.sign_node(ca, der, name, now, 86400.0)) + private)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=pem)
            context.load_cert_chain(path)
            found.append(context)
        return found

    @staticmethod
    def _report(name: str) -> bytes:
        done = ActionResult(action="Check", status="True", time="2026-01-01T00:00:05Z")
        report = TaskReport(job="job-1", uid=TASK.uid, attempt=0, revision=2, action="Check", results=(done,))
        return wire.to_cloud(report, name, "11111111-1111-4111-8111-111111111112", time.time())


class Node(WSListener):
    """Answers whatever it is told with its report."""

    def __init__(self, report: bytes) -> None:
        super().__init__()
        self._report = report

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT:
            transport.send(WSMsgType.TEXT, self._report)


class Server:
    """A server process."""

    def __init__(self, kind: str, directory: Path) -> None:
        command = (sys.executable, "-m", "benchmarks.hub_servers", kind, str(directory))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self._line())

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args!r} ended")
        return line

    async def does(self, command: str) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()
        return int(await asyncio.to_thread(self._line))

    def cpu(self) -> float:
        """Seconds so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident(self) -> int:
        """Bytes."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


async def connect(fleet: Fleet, port: int) -> list[WSTransport]:
    """All nodes, a hundred at a time."""
    places = asyncio.Semaphore(100)

    async def one(index: int) -> WSTransport:
        name = fleet.names[index]
        headers = {"node_id": name, "project_id": "p", "ConnectionUse": "msg", wire.PROTOCOL_HEADER: wire.PROTOCOL}
        async with places:
            transport, _ = await ws_connect(
                lambda: Node(fleet.reports[index]), f"wss://127.0.0.1:{port}/p/{name}/events", extra_headers=headers,
                ssl_context=fleet.contexts[index], websocket_handshake_timeout=60, ssl_handshake_timeout=60,
                read_buffer_init_size=2048, use_aiofastnet=False,
            )  # fmt: skip
        return transport

    return await asyncio.gather(*(one(index) for index in range(len(fleet.names))))


async def measure(kind: str, fleet: Fleet, directory: Path) -> dict[str, float]:
    """One round of one server."""
    server, count = Server(kind, directory), len(fleet.names)
    idle, began = server.resident(), server.cpu()
    transports = await connect(fleet, server.port)
    await server.does(f"connected {count}")
    figures = {
        "KB per idle node": (server.resident() - idle) / count / 1000,
        "connect, CPU ms": (server.cpu() - began) / count * 1e3,
    }
    before, wall = server.cpu(), time.perf_counter()
    seen = [await server.does("push") for _ in range(PUSHES)][-1]
    figures["push + answer, CPU µs"] = (server.cpu() - before) / count / PUSHES * 1e6
    figures["push + answer to all, wall s"] = (time.perf_counter() - wall) / PUSHES
    before = server.cpu()
    waiting = asyncio.create_task(server.does(f"received {seen + count * REPORTS}"))
    for _ in range(REPORTS):
        for transport, report in zip(transports, fleet.reports, strict=True):
            transport.send(WSMsgType.TEXT, report)
        await asyncio.sleep(0)
    await waiting
    figures["report in, CPU µs"] = (server.cpu() - before) / count / REPORTS * 1e6
    for transport in transports:
        transport.disconnect(False)
    server.end()
    return figures


async def storm(kind: str, fleet: Fleet, directory: Path) -> dict[str, float]:
    """Every node dials at the same moment; how long until all are back."""
    server, loop, count = Server(kind, directory), asyncio.get_running_loop(), len(fleet.names)
    before, wall = server.cpu(), time.perf_counter()

    async def tls(index: int) -> Any:
        while True:
            try:
                return (await loop.create_connection(
                    asyncio.Protocol, "127.0.0.1", server.port, ssl=fleet.contexts[index], ssl_handshake_timeout=600
                ))[0]  # fmt: skip
            except OSError:
                await asyncio.sleep(0.5)

    async def upgrade(index: int) -> Any:
        transport = await tls(index)
        name = fleet.names[index]
        lines = (
            f"GET /p/{name}/events HTTP/1.1", "Host: hub", f"node_id: {name}", "project_id: p", "ConnectionUse: msg",
            "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", "",
        )  # fmt: skip
        transport.write("\r\n".join(lines).encode())
        return transport

    begin = tls if kind == "bare TLS" else upgrade
    transports = await asyncio.gather(*(begin(index) for index in range(count)))
    await server.does(f"connected {count}")
    figures = {"all back, s": time.perf_counter() - wall, "accept, CPU ms": (server.cpu() - before) / count * 1e3}
    for transport in transports:
        transport.abort()
    server.end()
    return figures


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--storm", type=int, default=5000)
    return parser.parse_args()


def _rows(rounds: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, Spread]]:
    names = list(next(iter(rounds.values()))[0])
    return {name: {kind: spread([one[name] for one in found]) for kind, found in rounds.items()} for name in names}


def _print(head: str, rows: dict[str, dict[str, Spread]]) -> None:
    kinds = list(next(iter(rows.values())))
    print(table([head, *kinds], [[name, *(str(found[kind]) for kind in kinds)] for name, found in rows.items()]), "\n")


async def _all(arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="beehive-bench-") as name:
        directory = Path(name)
        fleet = Fleet(arguments.nodes, directory)
        rounds: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
        for turn in range(arguments.rounds):
            for index in range(len(KINDS)):
                kind = KINDS[(turn + index) % len(KINDS)]
                rounds[kind].append(await measure(kind, fleet, directory))
        rows = _rows(rounds)
        _print(f"{arguments.nodes} nodes", rows)
        del fleet
        crowd = Fleet(arguments.storm, directory)
        storms: dict[str, list[dict[str, float]]] = {"bare TLS": [], "hub": []}
        for _ in range(min(2, arguments.rounds)):
            for kind, found in storms.items():
                found.append(await storm(kind, crowd, directory))
        stormed = _rows(storms)
        _print(f"{arguments.storm} at once", stormed)
    return {"nodes": rows, "storm": stormed}


GOALS = {"KB per idle node": 60.0, "push + answer, CPU µs": 45.0, "report in, CPU µs": 12.0}


def main() -> None:
    """Measure, print, write."""
    arguments = _parsed()
    result = uvloop.run(_all(arguments))
    push = result["nodes"]["push + answer, CPU µs"]
    for name, bound in GOALS.items():
        found = result["nodes"][name]["hub"].median
        print(f"{name}: {found:.1f}, goal ≤ {bound:g}: {'reached' if found <= bound else 'NOT REACHED'}")
    for name in ("push + answer, CPU µs", "report in, CPU µs"):
        row = result["nodes"][name]
        print(f"{name}: {row[LIMIT].median:.1f} without us, {row['hub'].median - row[LIMIT].median:.1f} are ours")
    for peer in PEERS:
        factor = push[peer].median / push["hub"].median
        print(f"push + answer, {peer} / hub: {factor:.1f}, goal ≥ 2: {'reached' if factor >= 2 else 'NOT REACHED'}")
    path = write("hub", {"python": platform.python_version(), "arguments": vars(arguments), **result})
    print(f"\nwritten: {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
