"""Floods and dribbles: who misbehaves costs himself, and those who are connected notice nothing."""

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from beehive.config import Duration
from beehive.messages import wire
from beehive.messages.fleet import Heard, NodeOnline
from modules.cloudhub import module, web
from modules.cloudhub.line import Room
from modules.edgehub import identity
from tests.modules.cloudhub.ends import Hub, hub, raw, report, until
from tests.modules.cloudhub.test_ports import client
from tests.real.channel import anyio_backend, closed

__all__ = ["anyio_backend"]


async def echo(websocket: ClientConnection) -> float:
    """Seconds until the hub answers a control message: through TLS, decoder and fleet."""
    began = time.perf_counter()
    ping = wire.Frame(wire.Header("m"), wire.Route("websocket", "", "hub", "ping", "node"))
    await websocket.send(wire.encode(ping).decode())
    answer = json.loads(await websocket.recv())
    assert (answer["route"]["operation"], answer["content"]) == ("response", "ack")
    return time.perf_counter() - began


@asynccontextmanager
async def connected(directory: Path, **settings: Any) -> AsyncIterator[tuple[Hub, ClientConnection]]:
    """A hub, and a node that is connected to it."""
    async with hub(directory, **settings) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", directory / "a")
        websocket = await raw(cloud.server, directory / "a")
        await cloud.peers.heard(NodeOnline)
        yield cloud, websocket


async def dumb(server: str, count: int, first: bytes = b"") -> list[asyncio.StreamWriter]:
    """TCP connections that say `first` and nothing more."""
    host, _, port = server.partition(":")
    made = []
    for _ in range(count):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(first)
        made.append(writer)
    return made


async def test_a_thousand_handshakes_at_once_do_not_starve_who_is_connected(tmp_path: Path) -> None:
    """The clients do their half of the TLS in this same process and thread, so it is worse than in the field."""
    async with connected(tmp_path) as (cloud, websocket):
        await cloud.join("edge-b", tmp_path / "b")
        _, context = identity.load(tmp_path / "b")
        host, _, port = cloud.server.partition(":")

        async def shake_hands() -> int:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(host, int(port), ssl=context, ssl_handshake_timeout=60)
                writer.close()
                return 1
            return 0

        flood = [asyncio.create_task(shake_hands()) for _ in range(1000)]
        times = []
        while not all(task.done() for task in flood):
            times.append(await echo(websocket))
            await asyncio.sleep(0.02)
        assert sum(task.result() for task in flood) == 1000
        times.sort()
        assert len(times) > 5
        assert times[int(len(times) * 0.99)] <= 1.0, f"p99 {times[int(len(times) * 0.99)]:.2f} s of {len(times)}"


@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["mute", "half a ClientHello"])
async def test_an_address_that_dribbles_its_handshakes_takes_its_own_places_only(tmp_path: Path, first: bytes) -> None:
    settings: dict[str, Any] = {"handshakes": 20, "handshakes_per_address": 10, "handshake_timeout": Duration(2)}
    async with connected(tmp_path, **settings) as (cloud, websocket):
        dribblers = await dumb(cloud.server, 40, first)
        assert await echo(websocket) < 1.0
        # Another address is received at once, though 40 wait.
        host, _, port = cloud.server.partition(":")
        _, context = identity.load(tmp_path / "a")
        async with asyncio.timeout(1.5):
            _, writer = await asyncio.open_connection(host, int(port), ssl=context, local_addr=("127.0.0.2", 0))
        writer.close()
        # They end by themselves, ten at a time, and then this address is received again.
        async with asyncio.timeout(20):
            again = await raw(cloud.server, tmp_path / "a", open_timeout=20)
        await (await again.ping())
        assert cloud.counted("handshakes_failed") >= 40 - 10
        for one in dribblers:
            one.close()


async def test_a_slow_reader_of_http_takes_its_own_places_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "CONNECTION_LIFETIME", 2.0)
    monkeypatch.setattr(module, "ROOM", Room(places=20, places_each=10))
    async with connected(tmp_path) as (cloud, _):
        host, _, port = cloud.url.removeprefix("https://").partition(":")
        _, context = identity.load(tmp_path / "a")
        dribblers = []
        for _ in range(10):
            _, writer = await asyncio.open_connection(host, int(port), ssl=context)
            writer.write(b"POST /nodeupgrade HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            dribblers.append(writer)
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context, local_addr=("127.0.0.2", 0))
        writer.write(b"GET /ca.crt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        async with client(cloud) as http:  # waits until the places of this address are free
            assert (await http.get("/ca.crt", timeout=10)).status_code == 200
        for one in dribblers:
            one.close()


async def test_who_talks_too_much_is_read_more_slowly_and_nothing_is_lost(tmp_path: Path) -> None:
    async with connected(tmp_path, messages_per_second=500.0, message_burst=50) as (cloud, websocket):
        await cloud.join("edge-b", tmp_path / "b")
        other = await raw(cloud.server, tmp_path / "b")
        began = time.monotonic()

        async def talk() -> None:
            for revision in range(1, 1001):
                await websocket.send(wire.to_cloud(report(revision), "edge-a", f"m-{revision}", 1.0).decode())

        talking = asyncio.create_task(talk())
        await until(lambda: cloud.counted("throttled") > 0, "it is throttled")
        assert await echo(other) < 1.0
        await until(lambda: len(cloud.peers.all_of(Heard)) == 1000, "all was heard", 20)
        await talking
        assert time.monotonic() - began > 1.0  # 950 at 500 a second
        assert [heard.body.revision for heard in cloud.peers.all_of(Heard)] == list(range(1, 1001))  # type: ignore[union-attr]
        assert cloud.counted("cut_mute") == 0


async def test_a_frame_of_a_hundred_megabytes_is_refused_at_its_head(tmp_path: Path) -> None:
    async with connected(tmp_path) as (cloud, websocket):
        head = bytes((0x81, 0xFF)) + (100 << 20).to_bytes(8, "big") + b"mask"
        websocket.transport.write(head + b"x" * 4096)
        end = await closed(websocket)
        assert end.rcvd is None or end.rcvd.code == 1009
        await until(lambda: not cloud.module.fleet or cloud.module.fleet.peer("edge-a") is None, "it is gone")


async def test_compression_is_not_spoken(tmp_path: Path) -> None:
    async with connected(tmp_path) as (cloud, _):
        node, context = identity.load(tmp_path / "a")
        headers = {"node_id": node, "project_id": "p", "ConnectionUse": "msg"}
        websocket = await connect(f"wss://{cloud.server}/", ssl=context, additional_headers=headers, proxy=None)
        assert websocket.response is not None
        assert "Sec-WebSocket-Extensions" not in websocket.response.headers
        await websocket.close()


async def test_a_bomb_of_headers_ends_the_upgrade(tmp_path: Path) -> None:
    async with connected(tmp_path) as (cloud, websocket):
        for headers in ({"X": "x" * 1_000_000}, {f"X-{number}": "x" * 100 for number in range(5000)}):
            _, context = identity.load(tmp_path / "a")
            with pytest.raises((InvalidHandshake, OSError, ConnectionClosed, EOFError)):
                await connect(f"wss://{cloud.server}/", ssl=context, additional_headers=headers, proxy=None)
        assert await echo(websocket) < 1.0


async def test_tls_1_1_is_not_spoken_and_nothing_is_resumed(tmp_path: Path) -> None:
    async with connected(tmp_path) as (cloud, _):
        host, _, port = cloud.server.partition(":")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.load_verify_locations(tmp_path / "a" / identity.CA)
        old.load_cert_chain(tmp_path / "a" / identity.PAIR)
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(host, int(port), ssl=old)
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            _, context = identity.load(tmp_path / "a")
            context.minimum_version = context.maximum_version = version
            _, writer = await asyncio.open_connection(host, int(port), ssl=context)
            session = writer.get_extra_info("ssl_object").session
            assert not session.has_ticket
            writer.close()


@pytest.mark.parametrize("port", ["websocket", "https"])
async def test_tls_is_not_negotiated_anew(tmp_path: Path, port: str) -> None:
    """OpenSSL's own client asks for it (`R`) under TLS 1.2, where each one would cost us a handshake."""
    async with connected(tmp_path) as (cloud, websocket):
        address = cloud.server if port == "websocket" else cloud.url.removeprefix("https://")
        pair = str(tmp_path / "a" / identity.PAIR)
        command = ("openssl", "s_client", "-connect", address, "-tls1_2", "-cert", pair, "-key", pair)
        client = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        assert client.stdin is not None
        assert client.stdout is not None
        try:
            async with asyncio.timeout(10):
                said = b""
                while b"Verify return code" not in said:
                    said += await client.stdout.read(65536)
                client.stdin.write(b"R\n")
                said = b""
                while part := await client.stdout.read(65536):
                    said += part
            assert b"RENEGOTIATING" in said
            assert b"no renegotiation" in said, said[-300:]
        finally:
            with contextlib.suppress(ProcessLookupError):
                client.kill()
            await client.wait()
        assert await echo(websocket) < 1.0


async def test_who_is_refused_again_and_again_is_in_the_log_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        with caplog.at_level("WARNING", logger="modules.cloudhub.fleet"):
            for _ in range(5):
                await closed(await raw(cloud.server, tmp_path / "a", claims="edge-b"))
            for writer in await dumb(cloud.server, 5, b"GET / HTTP/1.1\r\n\r\n"):
                writer.close()
            await until(lambda: cloud.counted("handshakes_failed") == 5, "all have failed")
        assert cloud.counted("refused_identity") == 5
        said = [record.getMessage() for record in caplog.records]
        assert [sum("edge-b" in text for text in said), sum("TLS with" in text for text in said)] == [1, 1]
