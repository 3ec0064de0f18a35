"""The other half of the informer's contract: Secrets, single objects, Events, and who may write at all."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from beehive.api.node import NodeCondition
from beehive.message import Request
from beehive.messages.objects import (
    Away,
    Denied,
    GetSecret,
    LeadershipChanged,
    Missing,
    Patched,
    PatchJob,
    PatchJobStatus,
    PatchNode,
    PatchNodeCondition,
    PatchObject,
    PutSecret,
    RecordEvent,
    Secret,
    SecretChanged,
    Stale,
    WriteAnswer,
)
from tests.contracts.informer import INIT, guards, hear, leading, op
from tests.contracts.place import Object, Place, fresh, until
from tests.fakes.alone import alone


class InformerOthersContract:
    """See `InformerContract`."""

    # ---- other writes ------------------------------------------------------------------------------------------

    async def test_secrets_are_compared_and_swapped(self, place: Place) -> None:
        name = fresh("secret")
        path = f"/api/v1/namespaces/{place.namespace}/secrets/{name}"
        async with alone(place.informer()) as peers:
            assert await peers.ask(GetSecret(name=name)) == Secret({}, "")
            first = PutSecret(name=name, data={"ca.key": b"\x00\xff"}, resource_version="")
            assert await peers.ask(first) == Patched()
            assert await peers.ask(first) == Stale()
            await place.merge(path, {"metadata": {"labels": {"kept": "yes"}}})
            read = await peers.ask(GetSecret(name=name))
            assert isinstance(read, Secret)
            assert read.data == {"ca.key": b"\x00\xff"}
            second = PutSecret(name=name, data={"token": b"2"}, resource_version=read.resource_version)
            assert await peers.ask(second) == Patched()
            assert await peers.ask(second) == Stale()
            stands = await place.get(path)
            assert stands["data"] == {"token": "Mg=="}
            assert stands["metadata"]["labels"] == {"kept": "yes"}
            await place.delete(path)
            assert await peers.ask(second) == Missing()

    async def test_a_change_of_a_secret_is_told_by_name_only(self, place: Place) -> None:
        name = fresh("secret")
        path = f"/api/v1/namespaces/{place.namespace}/secrets"
        async with alone(place.informer()) as peers:
            await place.make(path, {"metadata": {"name": name}, "data": {"a": "MQ=="}})
            await hear(peers, SecretChanged, lambda said: said.name == name)
            await place.merge(f"{path}/{name}", {"metadata": {"labels": {"no": "news"}}})
            await place.merge(f"{path}/{name}", {"data": {"a": "Mg=="}})
            await hear(peers, SecretChanged, lambda said: said.name == name)
            await place.delete(f"{path}/{name}")
            await hear(peers, SecretChanged, lambda said: said.name == name)
            assert [said.name for said in peers.all_of(SecretChanged)].count(name) == 3

    async def test_single_objects_are_merge_patched(self, place: Place) -> None:
        path, name = f"/api/v1/namespaces/{place.namespace}/configmaps", fresh("map")
        await place.make(path, {"metadata": {"name": name}, "data": {"a": "1", "b": "2"}})
        async with alone(place.informer()) as peers:
            change = {"data": {"a": None, "c": "3"}}
            here = PatchObject(path=f"{path}/{name}", patch=change)
            assert await peers.ask(here) == Patched()
            assert (await place.get(f"{path}/{name}"))["data"] == {"b": "2", "c": "3"}
            assert await peers.ask(PatchObject(path=f"{path}/{name}-not", patch=change)) == Missing()
            elsewhere = PatchObject(path=f"{path}/../secrets/{name}", patch=change)
            refused = await peers.ask(elsewhere)
            assert isinstance(refused, Denied)

    async def test_events_are_written_once_and_counted(self, place: Place) -> None:
        node = await place.node()
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        said = RecordEvent(kind="Node", name=name, uid=uid, reason="UpgradeStarted", note="upgrading to v1.23.0")

        async def events() -> list[Object]:
            items: list[Object] = (await place.get("/api/v1/namespaces/default/events"))["items"]
            return [one for one in items if one["involvedObject"]["name"] == name]

        async def count(reason: str) -> list[int]:
            return [one["count"] for one in await events() if one["reason"] == reason]

        async with alone(place.informer()) as peers:
            await peers.send(said)
            await until(events, "the Event")
            await peers.send(said)
            await peers.send(said)
            await peers.send(
                RecordEvent(kind="Node", name=name, uid=uid, warning=True, reason="UpgradeFailed", note="ö" * 2000)
            )

            async def both() -> bool:
                return await count("UpgradeStarted") == [3] and await count("UpgradeFailed") == [1]

            await until(both, "one Event counted three times beside another")
        kinds = {one["reason"]: one for one in await events()}
        assert kinds["UpgradeFailed"]["type"] == "Warning"
        assert len(kinds["UpgradeFailed"]["message"].encode()) <= 1024
        assert kinds["UpgradeStarted"]["involvedObject"]["uid"] == uid

    # ---- leadership --------------------------------------------------------------------------------------------

    async def test_who_does_not_lead_writes_nothing_but_secrets(self, place: Place) -> None:
        job, node, config = await place.job(), await place.node(), place.config()
        path = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases"
        spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 3600}
        await place.make(path, {"metadata": {"name": config.lease.name}, "spec": spec})
        async with alone(place.informer(lease=config.lease)) as peers:
            condition = NodeCondition(type="EtcdIsVoter", status="True")
            asked: tuple[Request[WriteAnswer], ...] = (
                PatchJobStatus(**guards(job), operations=INIT),
                PatchJob(**guards(job), operations=(op("add", "/metadata/finalizers", ["a/b"]),)),
                PatchNode(**guards(node), operations=(op("add", "/spec/unschedulable", True),)),
                PatchNodeCondition(name=node["metadata"]["name"], condition=condition),
            )
            for request in asked:
                assert await peers.ask(request) == Away("this process does not lead now")
            put = PutSecret(name=fresh("secret"), data={}, resource_version="")
            assert await peers.ask(put) == Patched()
            assert not peers.all_of(LeadershipChanged)
        assert (await place.get(f"{path}/{config.lease.name}"))["spec"]["holderIdentity"] == "somebody"

    async def test_the_lease_passes_from_one_to_the_next_at_the_end(self, place: Place) -> None:
        lease = place.config().lease
        path = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases/{lease.name}"
        first, second = (_named(lease, name) for name in ("first", "second"))
        clock = asyncio.get_running_loop().time
        async with AsyncExitStack() as followers:
            async with leading(place, lease=first) as leader:
                follower = await followers.enter_async_context(alone(place.informer(lease=second)))
                spec = (await place.get(path))["spec"]
                assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("first", 3)
                assert len(spec["renewTime"]) == len("2026-01-01T00:00:00.000000Z")
                grants = [await leader.heard(LeadershipChanged) for _ in range(3)]
                assert [one.until for one in grants] == sorted(one.until for one in grants)
                assert not follower.all_of(LeadershipChanged)
            released = clock()
            assert leader.all_of(LeadershipChanged)[-1].until == 0.0
            assert (await follower.heard(LeadershipChanged)).until > clock()
            assert clock() - released < 3
            spec = (await place.get(path))["spec"]
            assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)
        assert (await place.get(path))["spec"]["holderIdentity"] == ""


def _named(lease: Any, identity: str) -> Any:
    return type(lease)(
        name=lease.name,
        identity=identity,
        duration=lease.duration,
        renew_deadline=lease.renew_deadline,
        retry_period=lease.retry_period,
    )
