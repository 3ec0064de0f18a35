"""A node that stops reading: how much it may hold here, how long, and that it costs the others nothing.

Times are set in the configuration; by default it is 30 s.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection

from beehive.config import Duration
from beehive.messages import wire
from beehive.messages.fleet import NodeOffline, NodeOnline, Tell
from modules.cloudhub.config import Config
from modules.cloudhub.peer import MOST_UNSENT, Peer
from modules.edgehub import identity
from tests.modules.cloudhub.ends import TASK, Hub, hub, raw, until
from tests.real.channel import anyio_backend, on_both_loops

__all__ = ["anyio_backend"]

KIB = 1024
IN_THE_KERNELS = (64 * 2 + 4 * 2 + 64) * KIB
"""What the two kernels may take in for a socket with these buffers (each doubles what it is asked for), and slack."""
BIG = msgspec.structs.replace(TASK, spec=msgspec.structs.replace(TASK.spec, image="x" * 4000))


class Deaf:
    """A node that reads only when it is told to, down to its kernel. Each method may block."""

    def __init__(self, server: str, directory: Path, receives: int) -> None:
        node, context = identity.load(directory)
        host, _, port = server.partition(":")
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
        narrow.settimeout(10)
        narrow.connect((host, int(port)))
        self._socket = context.wrap_socket(narrow, server_hostname=host)
        lines = (
            f"GET /p/{node}/events HTTP/1.1", "Host: hub", f"node_id: {node}", "project_id: p", "ConnectionUse: msg",
            f"{wire.PROTOCOL_HEADER}: {wire.PROTOCOL}", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", "",
        )  # fmt: skip
        self._socket.sendall("\r\n".join(lines).encode())
        assert self._socket.recv(4096).startswith(b"HTTP/1.1 101 ")

    def beat(self) -> None:
        """A sign of life, in a frame whose mask is zero."""
        data = wire.keepalive("m", 1.0)
        self._socket.sendall(bytes((0x81, 0x80 | 126)) + len(data).to_bytes(2, "big") + bytes(4) + data)

    def read(self, seconds: float) -> int:
        """Everything that comes until nothing came for so long; gives the number of bytes."""
        self._socket.settimeout(seconds)
        found = 0
        with contextlib.suppress(TimeoutError):
            while data := self._socket.recv(65536):
                found += len(data)
        self._socket.settimeout(10)
        return found

    def close(self) -> None:
        self._socket.close()


@asynccontextmanager
async def two(
    directory: Path, receives: int = 4 * KIB, **settings: Any
) -> AsyncIterator[tuple[Hub, Deaf, Peer, ClientConnection]]:
    """A hub, a node `slow` that does not read, its peer in the hub, and a node `quick`."""
    async with hub(directory, **settings) as cloud:
        await cloud.lead()
        for node in ("slow", "quick"):
            await cloud.join(node, directory / node)
        slow = await asyncio.to_thread(Deaf, cloud.server, directory / "slow", receives)
        quick = await raw(cloud.server, directory / "quick")
        for _ in range(2):
            await cloud.peers.heard(NodeOnline)
        assert cloud.module.fleet is not None
        peer = cloud.module.fleet.peer("slow")
        assert peer is not None
        beating = asyncio.create_task(beat(slow))
        try:
            yield cloud, slow, peer, quick
        finally:
            beating.cancel()
            slow.close()
            await quick.close()


async def beat(slow: Deaf) -> None:
    """It lives: it only does not read."""
    with contextlib.suppress(OSError):
        while True:
            slow.beat()
            await asyncio.sleep(0.2)


def lying(peer: Peer) -> int:
    """Bytes for this node that the event loop holds."""
    size: int = peer._transport.underlying_transport.get_write_buffer_size() if peer._transport else 0
    return size


async def tell(cloud: Hub, while_true: Callable[[], bool]) -> int:
    """Tell `slow` something of 8 KB again and again; gives the number of bytes."""
    frame = len(wire.to_edge(BIG, "slow", "m" * 36, 1.0))
    told = 0
    while while_true():
        await cloud.peers.send(Tell(node="slow", body=BIG))
        await asyncio.sleep(0.002)
        told += frame
        assert told < 4096 * KIB, "nobody stops it"
    return told


@on_both_loops
async def test_it_holds_a_quarter_of_a_megabyte_and_no_more(tmp_path: Path) -> None:
    async with two(tmp_path) as (cloud, _, peer, quick):
        held = [0]

        def goes_on() -> bool:
            held.append(lying(peer))
            return cloud.counted("cut_slow") == 0

        told = await tell(cloud, goes_on)
        assert MOST_UNSENT - 16 * KIB < max(held) <= MOST_UNSENT + 9 * KIB  # as the loop counts, with one message
        assert told <= 256 * KIB + IN_THE_KERNELS  # with what it does not count
        assert (await cloud.peers.heard(NodeOffline)).node == "slow"
        await cloud.peers.send(Tell(node="quick", body=TASK))
        assert wire.from_cloud(str(await quick.recv()).encode()).body == TASK
        assert cloud.counted("cut_slow") == 1


@on_both_loops
async def test_with_less_than_that_it_is_cut_off_after_its_time(tmp_path: Path) -> None:
    async with two(tmp_path, unread=Duration(1.5)) as (cloud, _, peer, quick):
        await tell(cloud, lambda: lying(peer) < 20 * KIB)
        began = asyncio.get_running_loop().time()
        times = []
        while not cloud.peers.all_of(NodeOffline):
            asked = asyncio.get_running_loop().time()
            await (await quick.ping())
            times.append(asyncio.get_running_loop().time() - asked)
            assert asked - began < 10, "nobody cuts it off"
            await asyncio.sleep(0.05)
        assert 1.0 < asyncio.get_running_loop().time() - began < 5.0
        assert max(times) < 1.0
        assert cloud.peers.all_of(NodeOffline)[0].node == "slow"
        assert cloud.counted("cut_mute") == 0


async def test_by_itself_the_hub_cuts_off_who_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without the kernel's help."""
    monkeypatch.setattr(socket, "TCP_USER_TIMEOUT", socket.TCP_KEEPINTVL)
    async with two(tmp_path, unread=Duration(1.5)) as (cloud, _, peer, _):
        await tell(cloud, lambda: lying(peer) < 20 * KIB)
        assert (await cloud.peers.heard(NodeOffline)).node == "slow"
        assert (cloud.counted("cut_slow"), cloud.counted("cut_mute")) == (1, 0)


async def test_the_kernel_tells_when_it_is_too_little_to_lie_here(tmp_path: Path) -> None:
    """Its window is shut: `TCP_USER_TIMEOUT` ends it, though it says that it lives."""
    async with two(tmp_path, unread=Duration(1.5)) as (cloud, _, peer, _):
        for _ in range(12):
            await cloud.peers.send(Tell(node="slow", body=BIG))
        await until(lambda: cloud.counted("frames_out") == 12, "all was said")
        assert lying(peer) == 0
        assert (await cloud.peers.heard(NodeOffline, timeout=15)).node == "slow"
        assert (cloud.counted("cut_slow"), cloud.counted("cut_mute")) == (0, 0)


async def test_who_reads_slowly_but_reads_is_not_cut_off(tmp_path: Path) -> None:
    async with two(tmp_path, receives=64 * KIB, unread=Duration(3.0)) as (cloud, slow, peer, _):
        for _ in range(3):  # longer than its time in all
            await tell(cloud, lambda: lying(peer) < 20 * KIB)
            await asyncio.sleep(1.2)
            assert await asyncio.to_thread(slow.read, 1.0) > 20 * KIB
            await until(lambda: lying(peer) == 0, "it was read")
        assert cloud.counted("cut_slow") == 0
        assert cloud.peers.all_of(NodeOffline) == []


def test_by_default_it_has_thirty_seconds() -> None:
    assert Config().unread == 30.0
