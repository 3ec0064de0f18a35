"""The label `beehive/role: leader`, on the embedded API server: on one Pod at most, and on the right one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from modules.demo.apiserver.server import Server
from modules.informer.client import MERGE_PATCH, Client
from modules.informer.config import Config
from modules.informer.connection import Connection
from modules.informer.role import Role

PODS = "/api/v1/namespaces/kubeedge/pods"


class Pods:
    """Three replicas, as a Deployment makes them."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def made(self, name: str, role: str = "") -> None:
        labels = {"app.kubernetes.io/name": "beehive", **({"beehive/role": role} if role else {})}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
                "spec": {"containers": [{"name": "beehive", "image": "beehive"}]}}  # fmt: skip
        reply = await self.client.create(PODS, msgspec.json.encode(body))
        assert reply.status == 201, reply.body

    async def leaders(self) -> list[str]:
        found: Any = msgspec.json.decode((await self.client.list(PODS, selector="beehive/role=leader")).body)
        return [pod["metadata"]["name"] for pod in found["items"]]

    async def others_lead(self, name: str) -> None:
        body = msgspec.json.encode({"metadata": {"labels": {"beehive/role": "leader"}}})
        assert (await self.client.patch(f"{PODS}/{name}", body, MERGE_PATCH)).status == 200


@contextlib.asynccontextmanager
async def pods(server: Server) -> AsyncIterator[Pods]:
    async with Connection(Config(server=server.address)) as connection:
        yield Pods(Client(connection, 10))


@contextlib.asynccontextmanager
async def running(role: Role) -> AsyncIterator[None]:
    task = asyncio.create_task(role.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(look: Callable[[], Awaitable[list[str]]], wanted: list[str]) -> None:
    async with asyncio.timeout(10):
        while await look() != wanted:  # noqa: ASYNC110 - seen from outside, with a deadline
            await asyncio.sleep(0.01)


async def test_a_process_takes_the_label_off_itself_and_a_leader_has_it_alone(server: Server) -> None:
    async with pods(server) as known:
        await known.made("one", "leader")
        await known.made("two")
        one, two = (Role(known.client, "kubeedge", name) for name in ("one", "two"))
        async with running(one), running(two):
            await until(known.leaders, [])
            one.tell(True)
            await until(known.leaders, ["one"])
            one.tell(False)
            two.tell(True)
            await until(known.leaders, ["two"])
            two.tell(False)
            await until(known.leaders, [])


async def test_a_new_leader_takes_it_off_one_that_cannot_do_so_itself(server: Server) -> None:
    async with pods(server) as known:
        await known.made("dead", "leader")
        await known.made("new")
        role = Role(known.client, "kubeedge", "new")
        async with running(role):
            role.tell(True)
            await until(known.leaders, ["new"])


async def test_a_renewal_writes_nothing(server: Server) -> None:
    async with pods(server) as known:
        await known.made("one")
        role = Role(known.client, "kubeedge", "one")
        async with running(role):
            role.tell(True)
            await until(known.leaders, ["one"])
            await known.others_lead("one")
            before = (await known.client.get(f"{PODS}/one")).body
            for _ in range(5):
                role.tell(True)
                await asyncio.sleep(0)
            assert (await known.client.get(f"{PODS}/one")).body == before


async def test_it_tries_again_until_its_pod_is_there(server: Server, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr("modules.informer.role._AGAIN", 0.01)
    async with pods(server) as known:
        role = Role(known.client, "kubeedge", "late")
        async with running(role):
            role.tell(True)
            async with asyncio.timeout(10):
                while "may not find the leader" not in caplog.text:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await known.made("late")
            await until(known.leaders, ["late"])
        assert caplog.text.count("may not find the leader") == 1, "the same trouble is said once"
