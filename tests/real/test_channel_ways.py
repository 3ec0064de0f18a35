"""The ways to the hub: an HTTP proxy, a change of routes, several addresses when the leader changes."""

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from beehive.config import Duration
from beehive.messages.fleet import NodeOffline, NodeOnline
from beehive.messages.uplink import CloudLost, CloudReached, LinkState
from modules.edgehub.identity import CA, read
from modules.edgehub.join import join
from modules.edgehub.routes import Routes
from tests.modules.cloudhub.ends import Secrets, edge, hub, until
from tests.real.channel import anyio_backend

__all__ = ["anyio_backend"]


class Proxy:
    """An HTTP proxy that knows CONNECT and nothing else."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split(maxsplit=2)
        self.asked.append(f"{method} {target}")
        host, _, port = target.partition(":")
        there, way = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.wait(
            [asyncio.create_task(self._pass(reader, way)), asyncio.create_task(self._pass(there, writer))]
        )

    @staticmethod
    async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
        writer.close()


@asynccontextmanager
async def proxy() -> AsyncIterator[Proxy]:
    made = Proxy()
    server = await asyncio.start_server(made.handle, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield made
    server.close()


@pytest.mark.parametrize("where", ["environment", "configuration"])
async def test_join_and_link_go_through_a_proxy(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with hub(tmp_path) as cloud, proxy() as through:
        await cloud.lead()
        configured = through.url if where == "configuration" else ""
        if where == "environment":
            monkeypatch.setenv("HTTPS_PROXY", through.url)
        await join(cloud.url, cloud.secrets.token(), "edge-a", tmp_path / "a", proxy=configured)
        assert set(through.asked) == {f"CONNECT {cloud.url.removeprefix('https://')}"}
        async with edge(tmp_path / "a", cloud.server, proxy=configured) as (_, host):
            await host.heard(CloudReached)
            assert through.asked[-1] == f"CONNECT {cloud.server}"


async def test_a_proxy_that_is_away_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        away = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with hub(tmp_path) as cloud:
            await cloud.lead()
            await cloud.join("edge-a", tmp_path / "a")
            async with edge(tmp_path / "a", cloud.server, proxy=away) as (uplink, host):
                await until(lambda: uplink.counters["dial_failures"] > 0, "the dial fails")
                assert "refused" in (await host.ask(LinkState())).trouble.lower()


async def test_a_cloud_whose_ca_stands_in_a_file_of_the_operator_is_trusted(tmp_path: Path) -> None:
    async with hub(tmp_path / "1") as cloud, hub(tmp_path / "2") as other:
        for one in (cloud, other):
            await one.lead()
        await cloud.join("edge-a", tmp_path / "a")
        await other.join("edge-a", tmp_path / "other")
        more = tmp_path / "more.crt"
        (tmp_path / "a" / CA).rename(more)
        (tmp_path / "other" / CA).rename(tmp_path / "a" / CA)  # what it got when it joined is another's
        async with edge(tmp_path / "a", cloud.server) as (uplink, host):
            await until(lambda: uplink.counters["dial_failures"] > 0, "the dial fails")
            assert "is not trusted" in (await host.ask(LinkState())).trouble
        async with edge(tmp_path / "a", cloud.server, ca_file=str(more)) as (_, host):
            await host.heard(CloudReached)


async def test_a_new_address_on_this_host_dials_at_once(tmp_path: Path) -> None:
    """A real change, told by the kernel: an address is added to the loopback interface."""
    address = "127.86.0.1/32"
    changed = asyncio.Event()
    with contextlib.closing(Routes(changed.set)):
        await asyncio.sleep(0)
        subprocess.run(("ip", "address", "add", address, "dev", "lo"), check=True)
        try:
            async with asyncio.timeout(3):
                await changed.wait()
        finally:
            subprocess.run(("ip", "address", "del", address, "dev", "lo"), check=True)


async def test_a_fleet_goes_over_to_the_new_leader(tmp_path: Path) -> None:
    """Two replicas, 40 nodes: the leader hangs (its grant runs out), dies, and comes back in place."""
    secrets, names = Secrets(), [f"edge-{number}" for number in range(40)]
    async with hub(tmp_path / "1", secrets) as one, hub(tmp_path / "2", secrets) as two:
        await one.lead()
        for name in names:
            await one.join(name, tmp_path / name)
        assert len({read(tmp_path / name).ca for name in names}) == 1
        async with contextlib.AsyncExitStack() as edges:
            hosts = []
            for name in names:
                quick = {"longest_delay": Duration(1)}
                _, host = await edges.enter_async_context(edge(tmp_path / name, one.server, two.server, **quick))
                hosts.append(host)
            for leader, follower in ((one, two), (two, one)):
                async with asyncio.timeout(20):
                    for host in hosts:
                        await host.heard(CloudReached)
                assert len((await leader.online()).sessions) == len(names)
                assert (await follower.online()).sessions == ()
                leader.grant(0.2)  # nobody renews it: it must let go by itself
                async with asyncio.timeout(5):
                    for host in hosts:
                        await host.heard(CloudLost)
                await follower.lead()
            async with asyncio.timeout(20):
                for host in hosts:
                    await host.heard(CloudReached)
            epochs = [online.epoch for online in one.peers.all_of(NodeOnline)]
            assert epochs == sorted(epochs)
            assert sorted(online.node for online in one.peers.all_of(NodeOnline)) == sorted(names * 2)
            assert sorted(gone.node for gone in one.peers.all_of(NodeOffline)) == sorted(names)
