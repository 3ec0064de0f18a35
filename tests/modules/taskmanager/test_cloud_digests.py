"""A job that names a registry in place of digests: asked once, kept in the status, told to every node; or refused."""

import pytest

from beehive.api.meta import condition
from beehive.api.nodeupgradejob import ImageDigests, RegistryAPI
from beehive.messages.images import Digests, DigestsAnswer, LookUpDigests, NoDigests
from beehive.messages.tasks import StartTask
from beehive.world import World
from tests.modules.taskmanager.cluster import Cluster

pytestmark = pytest.mark.virtual_time
PINS = ImageDigests(registry_api=RegistryAPI(host="r.io:5000", token="secret"))
FOUND = {"amd64": f"sha256:{'a' * 64}"}


def sentence(cluster: Cluster) -> str:
    accepted = condition(cluster.status().conditions or (), "Accepted")
    return accepted.message if accepted else ""


async def test_it_is_asked_once_and_every_node_is_told_the_digests_alone(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    async with cluster.planner():
        cluster.peers.answer(LookUpDigests, lambda _: Digests(FOUND))
        cluster.apply("a", "b", concurrency=2, image_digest_gatter=PINS, image="x.io/kubeedge/pack")
        await cluster.until(lambda: len(cluster.started()) == 2, "both are told")
        asked = cluster.peers.all_of(LookUpDigests)
        assert asked == [LookUpDigests(host="r.io:5000", token="secret", image="x.io/kubeedge/pack", version="v1.23.0")]
    assert cluster.status().digests == FOUND
    orders = [body for _, body in cluster.told if isinstance(body, StartTask)]
    assert [one.spec.digests for one in orders] == [FOUND, FOUND]
    assert not any(word in repr(orders) for word in ("secret", "r.io"))


async def test_a_new_leader_keeps_what_was_found(world: World) -> None:
    """The tag may have moved meanwhile; all nodes of a job get the same image."""
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    async with cluster.planner():
        cluster.peers.answer(LookUpDigests, lambda _: Digests(FOUND))
        cluster.apply("a", "b", image_digest_gatter=PINS)
        await cluster.until(cluster.started, "the first is told")
    async with cluster.planner():
        cluster.peers.answer(LookUpDigests, lambda _: Digests({"amd64": f"sha256:{'b' * 64}"}))
        await cluster.until(lambda: len(cluster.started()) == 2, "it is told again")
        assert cluster.peers.all_of(LookUpDigests) == []
    assert [one.spec.digests for _, one in cluster.told if isinstance(one, StartTask)] == [FOUND, FOUND]


async def test_what_is_refused_ends_the_job_with_the_sentence_and_starts_nobody(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.peers.answer(LookUpDigests, lambda _: NoDigests("registry r.io:5000 may not be asked"))
        cluster.apply("a", image_digest_gatter=PINS)
        await cluster.until(lambda: cluster.status().phase == "Failure", "it is refused", limit=5)
        await cluster.rest(30)
        assert len(cluster.peers.all_of(LookUpDigests)) == 1
        assert cluster.events() == ["Invalid"]
    assert sentence(cluster) == "spec.imageDigestGatter.registryAPI: registry r.io:5000 may not be asked"
    assert cluster.started() == []


async def test_what_may_pass_is_asked_again_and_said_meanwhile(world: World) -> None:
    cluster = Cluster(world, "a", "b")
    cluster.connect("a", "b")
    answers: list[DigestsAnswer] = [NoDigests("registry r.io did not answer", may_pass=True)] * 2
    async with cluster.planner():
        cluster.peers.answer(LookUpDigests, lambda _: answers.pop() if answers else Digests(FOUND))
        cluster.apply("a", image_digest_gatter=PINS)
        cluster.apply("b", name="south")
        await cluster.until(lambda: "DigestsAwaited" in cluster.events(), "it is said", limit=2)
        assert cluster.status().phase == ""
        await cluster.until(
            lambda: cluster.started() == ["b#1", "a#1"], "the others go on, and then it begins", limit=9
        )


async def test_what_does_not_pass_ends_the_job_after_some_tries(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.peers.answer(LookUpDigests, lambda _: NoDigests("registry r.io did not answer", may_pass=True))
        cluster.apply("a", image_digest_gatter=PINS)
        await cluster.until(lambda: cluster.status().phase == "Failure", "it gives up", limit=60)
        assert len(cluster.peers.all_of(LookUpDigests)) == 5
    assert sentence(cluster).endswith("registry r.io did not answer; asked 5 times")


async def test_a_job_that_is_deleted_while_it_waits_goes(world: World) -> None:
    cluster = Cluster(world, "a")
    cluster.connect("a")
    async with cluster.planner():
        cluster.peers.answer(LookUpDigests, lambda _: NoDigests("registry r.io did not answer", may_pass=True))
        cluster.apply("a", image_digest_gatter=PINS)
        await cluster.rest(2)
        cluster.delete()
        await cluster.until(lambda: not cluster.store.jobs, "it is gone", limit=5)
        asked = len(cluster.peers.all_of(LookUpDigests))
        await cluster.rest(60)
        assert len(cluster.peers.all_of(LookUpDigests)) == asked
