"""Twenty of the points of `test_kill_matrix.py` again, on a real kube-apiserver, as the shipped ServiceAccount, through
a proxy that counts what the cloud says and cuts it off."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from beehive.world import World
from modules.informer.client import MERGE_PATCH, Client
from modules.informer.config import Config
from modules.informer.connection import Connection
from tests.contracts.faults import Proxy, breaks
from tests.contracts.place import JOBS, NODES
from tests.fakes.killable_cloud import Deeds, Pace, Theatre
from tests.real.running.apiserver import ApiServer
from tests.real.test_kill_matrix import FAILING, TWENTY, must_be_right
from tests.real.waving import LEASE, Field

_POINTS = 20
_PACE = Pace(work=0.3, repeat=0.5, look=0.2, flush=0.2)


@pytest.fixture(scope="module")
def place(_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that says how to reach a server with the definition and the shipped rights."""
    folder = tmp_path_factory.mktemp("kill-sample")
    server = ApiServer.started(tmp_path_factory.mktemp("kill-apiserver"))
    try:
        Field(server, folder, ())
        (folder / "url").write_text(server.url)
        (folder / "ca").write_bytes(server.ca_file.read_bytes())
        yield folder
    finally:
        server.remove()


class RealTheatre(Theatre):
    """The same play on the real server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        super().__init__(World(), TWENTY, FAILING, _PACE)

    def _open(self) -> Client:
        url, ca = (self._folder / "url").read_text(), str(self._folder / "ca")
        self.connection = Connection(
            Config(server=url, ca_file=ca, token_file=str(self._folder / "admin-token"), namespace="kubeedge")
        )
        return Client(self.connection, 30)

    def client_of(self, deeds: Deeds) -> type[Client]:
        del deeds  # the proxy counts them
        return Client

    async def clear(self) -> None:
        """No job, no node, no leader."""
        await self.admin.patch(f"{JOBS}/north", b'{"metadata":{"finalizers":null}}', MERGE_PATCH)
        for path in (JOBS, NODES, LEASE):
            await self.admin.delete(path)


def through(proxy: Proxy, deeds: Deeds) -> None:
    """Count what it says; around the one that is named it dies: nothing of it passes any more."""

    async def act(request: web.Request) -> web.StreamResponse:
        if deeds.killed.is_set():
            return await breaks(request)
        if request.method == "GET" or not deeds.begins(f"{request.method} {request.path}"):
            return await proxy.forward(request)
        deeds.killed.set()
        return await (proxy.forward(request) if deeds.after else breaks(request))

    proxy.heal()
    proxy.fail(lambda _: True, act)


async def played(folder: Path, kill_at: int, after: bool) -> list[str]:
    """One play, checked; what its first cloud said."""
    theatre = RealTheatre(folder)
    trust = ssl.create_default_context(cafile=str(folder / "ca"))
    async with theatre.connection, Proxy((folder / "url").read_text(), trust) as proxy:
        theatre.reach = Config(server=proxy.address, token_file=str(folder / "token"), namespace="kubeedge")
        await theatre.furnish(concurrency=7)
        deeds, rest = Deeds(kill_at, after), Deeds(0, False)
        try:
            through(proxy, deeds)
            if not await theatre.life(deeds, 60):
                await theatre.admin.delete(LEASE)  # its time is over
                through(proxy, rest)
                assert await theatre.life(rest, 60)
            await must_be_right(theatre, f"killed {'after' if after else 'before'} {deeds.done[-1]} ({kill_at})")
        finally:
            await theatre.clear()
        return deeds.done


def test_killed_at_twenty_points(place: Path) -> None:
    everything = asyncio.run(played(place, 0, False))
    assert len(everything) >= 100
    for turn in range(_POINTS):
        kill_at = 1 + turn * (len(everything) - 20) // _POINTS
        asyncio.run(played(place, kill_at, turn % 2 == 1))
