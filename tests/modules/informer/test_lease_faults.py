"""The Lease through a proxy that breaks its calls, and with people who meddle with it."""

import asyncio

from aiohttp import web

from beehive.config import Duration
from beehive.messages.objects import (
    Away,
    LeadershipChanged,
    Patched,
    PatchNode,
)
from beehive.messages.runtime import Draining
from tests.contracts.faults import Proxy, calls, hangs
from tests.contracts.informer import guards, leading, op
from tests.contracts.place import NODES, Object, Place, until
from tests.fakes.alone import alone

CORDON = (op("add", "/spec/unschedulable", True),)


def cordon(node: Object) -> PatchNode:
    return PatchNode(**guards(node), operations=CORDON)


async def test_who_cannot_renew_stops_in_time_and_leads_again_later(place: Place, proxy: Proxy) -> None:
    node = await place.node()
    clock = asyncio.get_running_loop().time
    async with leading(place) as peers:
        proxy.fail(lambda request: "/leases" in request.path, hangs)
        hung = clock()
        await until(lambda: peers.all_of(LeadershipChanged)[-1].until == 0.0, "the loss is told")
        assert clock() - hung < 3.0  # nobody else may have it before
        granted = [one.until for one in peers.all_of(LeadershipChanged)][-2]
        assert clock() >= granted
        before = proxy.count("PATCH")
        assert await peers.ask(cordon(node)) == Away("this process does not lead now")
        assert proxy.count("PATCH") == before
        proxy.heal()
        await until(lambda: peers.all_of(LeadershipChanged)[-1].until > clock(), "it leads again")
        answer = await peers.ask(cordon(node))
        assert isinstance(answer, Patched)


async def test_a_write_in_flight_is_not_waited_for_after_the_grant(place: Place, proxy: Proxy) -> None:
    node = await place.node()
    clock = asyncio.get_running_loop().time
    async with leading(place, request_timeout=Duration(60)) as peers:
        proxy.fail(lambda request: request.method in {"PATCH", "PUT"}, hangs)
        began = clock()
        answer = await peers.ask(cordon(node), timeout=30)
        assert isinstance(answer, Away)
        assert clock() - began < 3.0


async def test_who_drains_takes_no_lease(place: Place, proxy: Proxy) -> None:
    lease = place.config().lease
    path = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases"
    held = {"holderIdentity": "somebody", "leaseDurationSeconds": 3600}
    await place.make(path, {"metadata": {"name": lease.name}, "spec": held})
    async with alone(place.informer(lease=lease)) as peers:
        peers.publish(Draining())
        await place.merge(f"{path}/{lease.name}", {"spec": {"holderIdentity": ""}})
        looked = proxy.count("/leases/")
        await until(lambda: proxy.count("/leases/") > looked + 3, "it looked again")
        assert not peers.all_of(LeadershipChanged)
    assert (await place.get(f"{path}/{lease.name}"))["spec"]["holderIdentity"] == ""


async def test_who_ends_waits_for_the_write_in_flight_and_then_gives_the_lease_back(place: Place, proxy: Proxy) -> None:
    node = await place.node()
    lease = place.config().lease
    path = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases/{lease.name}"
    holders: list[str] = []

    async def slowly(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(1)
        holders.append((await place.get(path))["spec"].get("holderIdentity", ""))
        return await proxy.forward(request)

    async with leading(place, lease=lease) as peers:
        proxy.fail(calls("PATCH", NODES), slowly)
        asked = asyncio.create_task(peers.ask(cordon(node)))
        await until(lambda: proxy.count("PATCH"), "the write is under way")
    assert isinstance(await asked, Patched), "who asked hears that it stands"
    assert len(holders) == 1
    assert holders[0], "not before nobody writes any more"
    assert (await place.get(path))["spec"]["holderIdentity"] == ""


async def test_a_deleted_lease_is_made_again(place: Place, proxy: Proxy) -> None:
    lease = place.config().lease
    path = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases/{lease.name}"
    async with leading(place, lease=lease) as peers:
        await place.delete(path)
        renewals = len(peers.all_of(LeadershipChanged))
        await until(lambda: len(peers.all_of(LeadershipChanged)) > renewals + 1, "it is renewed again")
        assert (await place.get(path))["spec"]["holderIdentity"]
        assert 0.0 not in [one.until for one in peers.all_of(LeadershipChanged)]


async def test_a_stolen_lease_ends_the_lead(place: Place, proxy: Proxy) -> None:
    lease = place.config().lease
    path = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases/{lease.name}"
    async with leading(place, lease=lease) as peers:
        await place.merge(path, {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}})
        await until(lambda: peers.all_of(LeadershipChanged)[-1].until == 0.0, "the loss is told")
    assert (await place.get(path))["spec"]["holderIdentity"] == "thief"


async def test_without_election_it_leads_at_once_and_asks_for_no_lease(place: Place, proxy: Proxy) -> None:
    node = await place.node()
    async with leading(place, leader_election=False) as peers:
        answer = await peers.ask(cordon(node))
        assert isinstance(answer, Patched)
    assert proxy.count("/leases") == 0
