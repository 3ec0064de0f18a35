"""What the informer does on any API server that is one: the embedded and the real one run this very class.

A class that inherits it has a fixture `place`. The server may be shared, so tests look only at objects of their own.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from beehive.api.node import Node, NodeCondition, is_ready
from beehive.api.nodeupgradejob import NodeUpgradeJob
from beehive.message import Message
from beehive.messages.objects import (
    Denied,
    JobChanged,
    JobGone,
    LeadershipChanged,
    ListJobs,
    ListNodes,
    Missing,
    NodeChanged,
    NodeGone,
    Patched,
    PatchJob,
    PatchJobStatus,
    PatchNode,
    PatchNodeCondition,
    PatchOperation,
    Stale,
    WriteAnswer,
)
from tests.contracts.place import JOBS, NODES, Object, Place, fresh
from tests.fakes.alone import Peers, alone

M = TypeVar("M", bound=Message)


def op(verb: str, path: str, value: Any = None) -> PatchOperation:
    return PatchOperation(verb, path, value)


INIT = (op("add", "/status", {"phase": "Init", "total": 1}),)


def guards(body: Object) -> dict[str, str]:
    """Name, uid and version of an object, as a decision was made on it."""
    meta = body["metadata"]
    return {"name": meta["name"], "uid": meta["uid"], "resource_version": meta["resourceVersion"]}


def job_of(answer: WriteAnswer) -> NodeUpgradeJob:
    assert isinstance(answer, Patched | Stale), answer
    assert isinstance(answer.object, NodeUpgradeJob)
    return answer.object


def node_of(answer: WriteAnswer) -> Node:
    assert isinstance(answer, Patched | Stale), answer
    assert isinstance(answer.object, Node)
    return answer.object


async def hear(peers: Peers, kind: type[M], fits: Callable[[M], bool]) -> M:
    """The next message of this kind about what the test made."""
    while True:
        message = await peers.heard(kind)
        if fits(message):
            return message


@asynccontextmanager
async def leading(place: Place, **changes: Any) -> AsyncIterator[Peers]:
    """An informer that is ready and leads."""
    async with alone(place.informer(**changes)) as peers:
        assert (await peers.heard(LeadershipChanged)).until > asyncio.get_running_loop().time()
        yield peers


class InformerContract:
    """See above."""

    # ---- what there is -----------------------------------------------------------------------------------------

    async def test_what_is_there_at_the_start_is_told_and_listed(self, place: Place) -> None:
        node, job = await place.node(), await place.job()
        async with alone(place.informer()) as peers:
            jobs, nodes = await peers.ask(ListJobs()), await peers.ask(ListNodes())
            assert job["metadata"]["uid"] in {one.metadata.uid for one in jobs.items}
            assert node["metadata"]["uid"] in {one.metadata.uid for one in nodes.items}
            told = await hear(peers, JobChanged, lambda said: said.job.metadata.name == job["metadata"]["name"])
            assert told.job.spec.node_names == ("edge-1",)
            seen = await hear(peers, NodeChanged, lambda said: said.node.metadata.name == node["metadata"]["name"])
            assert is_ready(seen.node)

    async def test_a_life_of_a_job_is_told(self, place: Place) -> None:
        async with alone(place.informer()) as peers:
            made = await place.job()
            name, uid = made["metadata"]["name"], made["metadata"]["uid"]
            await hear(peers, JobChanged, lambda said: said.job.metadata.uid == uid)
            await place.suspend(name)
            await hear(peers, JobChanged, lambda said: said.job.metadata.uid == uid and said.job.spec.suspend)
            await place.delete(f"{JOBS}/{name}")
            assert await hear(peers, JobGone, lambda said: said.name == name) == JobGone(name=name, uid=uid)
            again = await place.job(name)
            reborn = await hear(peers, JobChanged, lambda said: said.job.metadata.uid == again["metadata"]["uid"])
            assert not reborn.job.spec.suspend
            listed = {one.metadata.uid for one in (await peers.ask(ListJobs())).items}
            assert again["metadata"]["uid"] in listed
            assert uid not in listed

    async def test_heartbeats_are_no_news_and_a_lost_node_is(self, place: Place) -> None:
        name = (await place.node())["metadata"]["name"]
        async with alone(place.informer()) as peers:
            for beat in range(5):
                await place.standing(name, "True", f"2026-01-01T00:0{beat + 1}:00Z")
            await place.standing(name, "Unknown", "2026-01-01T00:05:00Z", "NodeStatusUnknown")
            lost = await hear(
                peers, NodeChanged, lambda said: said.node.metadata.name == name and not is_ready(said.node)
            )
            told = [said for said in peers.all_of(NodeChanged) if said.node.metadata.name == name]
            assert [is_ready(said.node) for said in told] == [True, False]
            assert lost.node.status.conditions
            await place.delete(f"{NODES}/{name}")
            await hear(peers, NodeGone, lambda said: said.name == name)

    async def test_watches_that_end_are_opened_again(self, place: Place) -> None:
        """Longer than two watches live: nothing is missed, nothing is told twice."""
        name = (await place.node())["metadata"]["name"]
        async with alone(place.informer(watch_timeout=1.0)) as peers:
            for step in range(6):
                await place.label(name, str(step))
                await hear(peers, NodeChanged, lambda said: (said.node.metadata.labels or {}).get("step") == str(step))  # noqa: B023
                await asyncio.sleep(0.35)
            told = [said for said in peers.all_of(NodeChanged) if said.node.metadata.name == name]
            assert len(told) == 7

    # ---- guarded writes ----------------------------------------------------------------------------------------

    async def test_a_status_stands_in_the_server_and_in_the_cache_before_the_answer(self, place: Place) -> None:
        job = await place.job()
        name = job["metadata"]["name"]
        async with leading(place) as peers:
            for total in range(1, 6):
                job = await place.get(f"{JOBS}/{name}")
                status = (op("add", "/status", {"phase": "Init", "total": total}),)
                answer = await peers.ask(PatchJobStatus(**guards(job), operations=status))
                listed = {one.metadata.name: one for one in (await peers.ask(ListJobs())).items}[name]
                assert isinstance(answer, Patched)
                assert listed == job_of(answer)
                assert listed.status.total == total
                assert (await place.get(f"{JOBS}/{name}"))["status"]["total"] == total

    async def test_what_somebody_else_changed_is_not_overwritten(self, place: Place) -> None:
        job = await place.job()
        name = job["metadata"]["name"]
        async with leading(place) as peers:
            await place.suspend(name)
            answer = await peers.ask(PatchJobStatus(**guards(job), operations=INIT))
            assert isinstance(answer, Stale)
            assert job_of(answer).spec.suspend
            now = await place.get(f"{JOBS}/{name}")
            assert "status" not in now
            answer = await peers.ask(PatchJobStatus(**guards(now), operations=INIT))
            assert isinstance(answer, Patched)

    async def test_a_heartbeat_does_not_spoil_a_decision(self, place: Place) -> None:
        node = await place.node()
        name = node["metadata"]["name"]
        async with leading(place) as peers:
            await place.standing(name, "True", "2026-01-01T00:09:00Z")
            cordon = (op("add", "/spec/unschedulable", True),)
            answer = await peers.ask(PatchNode(**guards(node), operations=cordon))
            assert isinstance(answer, Patched)
            assert node_of(answer).spec.unschedulable
            await place.merge(f"{NODES}/{name}", {"spec": {"unschedulable": False}})
            answer = await peers.ask(PatchNode(**guards(node), operations=cordon))
            assert isinstance(answer, Stale)

    async def test_a_failed_test_of_the_asker_answers_what_is_true(self, place: Place) -> None:
        node = await place.node()
        async with leading(place) as peers:
            operations = (op("test", "/metadata/labels/step", "never"), op("add", "/spec/unschedulable", True))
            answer = await peers.ask(PatchNode(**guards(node), operations=operations))
            assert isinstance(answer, Stale)
            assert not node_of(answer).spec.unschedulable

    async def test_a_job_made_again_under_its_name_is_another_job(self, place: Place) -> None:
        old = await place.job()
        name = old["metadata"]["name"]
        async with leading(place) as peers:
            await place.delete(f"{JOBS}/{name}")
            gone = await peers.ask(PatchJobStatus(**guards(old), operations=INIT))
            assert gone == Missing()
            new = await place.job(name)
            for version in (old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"], ""):
                request = PatchJobStatus(
                    name=name, uid=old["metadata"]["uid"], resource_version=version, operations=INIT
                )
                assert await peers.ask(request) == Missing()
            assert "status" not in await place.get(f"{JOBS}/{name}")

    async def test_what_the_schema_forbids_is_denied_for_good(self, place: Place) -> None:
        job = await place.job()
        async with leading(place) as peers:
            wrong = (op("add", "/status", {"phase": "Init", "total": "many"}),)
            answer = await peers.ask(PatchJobStatus(**guards(job), operations=wrong))
            assert isinstance(answer, Denied)
            assert "status.total" in answer.reason
            broken = (op("add", "status", {}),)
            answer = await peers.ask(PatchJobStatus(**guards(job), operations=broken))
            assert isinstance(answer, Denied | Stale), answer

    async def test_finalizers_go_to_the_object_and_not_to_its_status(self, place: Place) -> None:
        job = await place.job()
        name = job["metadata"]["name"]
        async with leading(place) as peers:
            add = (op("add", "/metadata/finalizers", ["kubeedge.io/nodeupgradejob-controller"]),)
            held = job_of(await peers.ask(PatchJob(**guards(job), operations=add)))
            assert held.metadata.finalizers == ("kubeedge.io/nodeupgradejob-controller",)
            await place.delete(f"{JOBS}/{name}")
            going = await hear(
                peers,
                JobChanged,
                lambda said: said.job.metadata.name == name and bool(said.job.metadata.deletion_timestamp),
            )
            drop = (op("remove", "/metadata/finalizers"),)
            request = PatchJob(
                name=name,
                uid=going.job.metadata.uid,
                resource_version=going.job.metadata.resource_version,
                operations=drop,
            )
            answer = await peers.ask(request)
            assert isinstance(answer, Patched)
            await hear(peers, JobGone, lambda said: said.name == name)

    async def test_one_condition_is_written_and_the_others_stay(self, place: Place) -> None:
        name = (await place.node())["metadata"]["name"]
        voter = NodeCondition(
            type="EtcdIsVoter",
            status="True",
            reason="MemberNotLearner",
            message="Node is a voting member of the etcd cluster",
            last_heartbeat_time="2026-01-01T00:00:00Z",
            last_transition_time="2026-01-01T00:00:00Z",
        )
        async with leading(place) as peers:
            node = node_of(await peers.ask(PatchNodeCondition(name=name, condition=voter)))
            assert {one.type for one in node.status.conditions or ()} == {"Ready", "EtcdIsVoter"}
            assert voter in (node.status.conditions or ())
            assert await peers.ask(PatchNodeCondition(name=fresh("none"), condition=voter)) == Missing()

    async def test_many_writes_at_once_are_all_answered(self, place: Place) -> None:
        nodes = [await place.node() for _ in range(60)]
        async with leading(place, writes=16) as peers:
            cordon = (op("add", "/spec/unschedulable", True),)
            asks = [peers.ask(PatchNode(**guards(node), operations=cordon), timeout=30) for node in nodes]
            answers = await asyncio.gather(*asks)
            assert all(isinstance(answer, Patched) for answer in answers)
            assert all(node_of(answer).spec.unschedulable for answer in answers)
