"""Writes through a proxy that breaks them."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from beehive.api.crd import crd
from beehive.config import Duration
from beehive.messages.objects import (
    Away,
    Denied,
    GetSecret,
    LeadershipChanged,
    ListNodes,
    Missing,
    Patched,
    PatchNode,
    PutSecret,
    RecordEvent,
    Stale,
)
from beehive.world import World
from modules.demo.apiserver.server import Config as ServerConfig
from modules.demo.apiserver.server import Server
from modules.informer import Config
from modules.informer.config import Lease
from modules.informer.module import Informer
from tests.contracts.faults import Act, Proxy, answers, breaks, calls, hangs, refuses
from tests.contracts.informer import guards, leading, op
from tests.contracts.place import NODES, Object, Place, until
from tests.fakes.alone import alone

CORDON = (op("add", "/spec/unschedulable", True),)


SLOW = Lease(duration=Duration(15), renew_deadline=Duration(10), retry_period=Duration(0.2))


def cordon(node: Object) -> PatchNode:
    return PatchNode(**guards(node), operations=CORDON)


@pytest.mark.parametrize(
    ("act", "kind", "said"),
    [
        (refuses(500, "InternalError", "etcd is full"), Away, "etcd is full"),
        (refuses(503, "ServiceUnavailable", "starting"), Away, "starting"),
        (refuses(504, "Timeout", "slow"), Away, "slow"),
        (refuses(401, "Unauthorized", "who are you"), Away, "who are you"),
        (refuses(429, "TooManyRequests", "later", retry_after="30"), Away, "later"),
        (answers(302, "", location="http://127.0.0.1:1/"), Away, "302"),
        (refuses(403, "Forbidden", "not yours"), Denied, "not yours"),
        (refuses(400, "BadRequest", "nonsense"), Denied, "nonsense"),
        (refuses(413, "RequestEntityTooLarge", "too much"), Denied, "too much"),
        (answers(200, "written, they say"), Away, "cannot be read"),
        (breaks, Away, "the connection was cut"),
        (hangs, Away, "no answer in time"),
    ],
    ids=["500", "503", "504", "401", "429", "302", "403", "400", "413", "no object", "breaks", "hangs"],
)
async def test_what_becomes_of_a_write(
    place: Place, proxy: Proxy, act: Act, kind: type[Away | Denied], said: str
) -> None:
    node = await place.node()
    async with leading(place, request_timeout=Duration(1)) as peers:
        proxy.fail(calls("PATCH", NODES), act)
        answer = await peers.ask(cordon(node))
        assert isinstance(answer, kind), answer
        assert said in answer.reason
        proxy.heal()
        again = await peers.ask(cordon(node))
        assert isinstance(again, Patched)


async def test_waiting_for_a_busy_server_is_not_time_that_the_server_takes(place: Place, proxy: Proxy) -> None:
    node = await place.node()
    async with leading(place) as peers:
        proxy.fail(calls("PATCH", NODES), refuses(429, "TooManyRequests", "later", retry_after="1"), times=2)
        begun = asyncio.get_running_loop().time()
        answer = await peers.ask(cordon(node))
        took = asyncio.get_running_loop().time() - begun
    assert isinstance(answer, Patched)
    assert 0 < answer.took < 1.5 < took


async def test_a_busy_server_is_asked_again_when_it_said(place: Place, proxy: Proxy) -> None:
    node = await place.node()
    clock = asyncio.get_running_loop().time
    async with leading(place, request_timeout=Duration(6), lease=SLOW) as peers:
        fault = proxy.fail(calls("PATCH", NODES), refuses(429, "TooManyRequests", retry_after="1"), times=2)
        began = clock()
        answer = await peers.ask(cordon(node))
        assert isinstance(answer, Patched)
        assert fault.hits == 2
        assert clock() - began >= 2


async def test_a_conflict_whose_object_cannot_be_read_again_is_away(place: Place, proxy: Proxy) -> None:
    node = await place.node()
    async with leading(place) as peers:
        await place.label(node["metadata"]["name"], "changed")
        proxy.fail(calls("GET", f"{NODES}/"), refuses(500, "InternalError", "etcd is away"))
        answer = await peers.ask(cordon(node))
        assert answer == Away("etcd is away")


async def test_conflicts_without_end_are_answered_all_the_same(place: Place, proxy: Proxy) -> None:
    node = await place.node()
    async with leading(place) as peers:
        fault = proxy.fail(calls("PATCH", NODES), refuses(409, "Conflict"))
        answer = await peers.ask(cordon(node))
        assert isinstance(answer, Stale)
        assert fault.hits <= 3


async def test_one_slow_write_holds_up_nobody(place: Place, proxy: Proxy) -> None:
    slow, quick = await place.node(), await place.node()
    path = f"{NODES}/{slow['metadata']['name']}"
    async with leading(place, request_timeout=Duration(5), lease=SLOW) as peers:
        gate = asyncio.Event()

        async def later(request: web.Request) -> web.StreamResponse:
            await gate.wait()
            return await proxy.forward(request)

        proxy.fail(calls("PATCH", path), later)
        waiting = asyncio.ensure_future(peers.ask(cordon(slow)))
        await until(lambda: proxy.count(f"PATCH {path}"), "the slow write is on its way")
        answer = await peers.ask(cordon(quick))
        assert isinstance(answer, Patched)
        assert len((await peers.ask(ListNodes())).items) == 2
        assert not waiting.done()
        gate.set()
        assert isinstance(await waiting, Patched)


async def test_a_write_that_nobody_waits_for_is_not_begun(place: Place, proxy: Proxy) -> None:
    first, second = await place.node(), await place.node()
    async with leading(place, writes=1, request_timeout=Duration(5), lease=SLOW) as peers:
        gate = asyncio.Event()

        async def later(request: web.Request) -> web.StreamResponse:
            await gate.wait()
            return await proxy.forward(request)

        proxy.fail(calls("PATCH", NODES), later, times=1)
        one = asyncio.ensure_future(peers.ask(cordon(first)))
        await until(lambda: proxy.count("PATCH"), "the first write is on its way")
        taken = peers.module.inbox.taken
        two = asyncio.ensure_future(peers.ask(cordon(second)))
        await until(lambda: peers.module.inbox.taken > taken, "the second request was taken")
        two.cancel()
        gate.set()
        assert isinstance(await one, Patched)
        third = await peers.ask(cordon(await place.node()))
        assert isinstance(third, Patched)
        assert not (await place.get(f"{NODES}/{second['metadata']['name']}"))["spec"].get("unschedulable")
        assert proxy.count("PATCH") == 2


async def test_writes_in_flight_end_before_the_module_does(place: Place, proxy: Proxy) -> None:
    node = await place.node()
    gate = asyncio.Event()

    async def later(request: web.Request) -> web.StreamResponse:
        await gate.wait()
        return await proxy.forward(request)

    async with leading(place, request_timeout=Duration(5)) as peers:
        proxy.fail(calls("PATCH", NODES), later)
        asked = asyncio.ensure_future(peers.ask(cordon(node)))
        await until(lambda: proxy.count("PATCH"), "the write is on its way")
        peers.module.inbox.close()
        await asyncio.sleep(0.1)
        gate.set()
        assert isinstance(await asked, Patched)


async def test_a_token_is_read_again_when_it_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    settings = ServerConfig(crds=[crd()], namespaces=["kubeedge"], token="right")
    async with Server(settings) as server:
        reach = Config(server=server.address, token_file=str(token))
        async with Place(reach) as place, alone(place.informer(), ready=False) as peers:
            await until(lambda: "no such file" in peers.module.waits_for, "it misses the token file")
            token.write_text("wrong\n")
            await until(lambda: "nauthorized" in peers.module.waits_for, "the token is refused")
            token.write_text("right\n")
            await asyncio.wait_for(peers.module.is_ready.wait(), 20)
            secret = await peers.ask(GetSecret(name="none"))
            assert not isinstance(secret, Away)


async def test_a_namespace_that_is_missing_is_named(server: Server, proxy: Proxy) -> None:
    async with Place(Config(server=server.address, namespace="nowhere")) as place, alone(place.informer()) as peers:
        advice = "kubectl create namespace nowhere"
        await until(lambda: advice in peers.module.waits_for, "the advice about the Lease")
        answer = await peers.ask(PutSecret(name="a", data={}, resource_version=""))
        assert isinstance(answer, Away)
        assert advice in answer.reason
        await place.make("/api/v1/namespaces", {"metadata": {"name": "nowhere"}})
        await until(lambda: not peers.module.waits_for, "all is well")


# ---- Events --------------------------------------------------------------------------------------------------------


async def test_a_flood_of_events_stops_nobody_and_is_bounded(place: Place, proxy: Proxy) -> None:
    node = await place.node()
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    async with leading(place, lease=SLOW) as peers:
        proxy.fail(calls("POST", "/events"), hangs)
        for number in range(4000):
            said = RecordEvent(kind="Node", name=name, uid=f"{uid}{number}", reason="Started", note="x")
            await peers.send(said)
        answer = await peers.ask(cordon(node))
        assert isinstance(answer, Patched)
        assert proxy.count("/events") <= 16


async def test_an_event_that_failed_is_tried_again(place: Place, proxy: Proxy) -> None:
    node = await place.node()
    async with alone(place.informer()) as peers:
        proxy.fail(calls("POST", "/events"), breaks, times=1)
        await peers.send(
            RecordEvent(
                kind="Node", name=node["metadata"]["name"], uid=node["metadata"]["uid"], reason="Started", note="x"
            )
        )

        async def there() -> bool:
            return bool((await place.get("/api/v1/namespaces/default/events"))["items"])

        await until(there, "the Event")


# ---- failure -------------------------------------------------------------------------------------------------------


async def test_a_failing_task_fails_the_module_with_its_own_words(place: Place) -> None:
    def broken() -> float:
        raise ZeroDivisionError("chance is out of order")

    world = World(random=broken)
    with pytest.raises(ExceptionGroup) as failed:
        async with alone(Informer(place.config(), world), ready=False) as peers:
            await asyncio.wait_for(peers.heard(LeadershipChanged), 20)
    assert failed.group_contains(ZeroDivisionError, match="chance is out of order", depth=1)


async def test_a_missing_object_is_missing(place: Place, proxy: Proxy) -> None:
    node = await place.node()
    await place.delete(f"{NODES}/{node['metadata']['name']}")
    async with leading(place) as peers:
        assert await peers.ask(cordon(node)) == Missing()
