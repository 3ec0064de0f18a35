"""A job is deleted and made again under its name, while the node of the old one still speaks: in every order."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from beehive.api.meta import ObjectMeta
from beehive.api.nodeupgradejob import NodeUpgradeJob
from beehive.world import World, rfc3339
from tests.fakes.jobs import a_report, phases, rolled_back, success
from tests.modules.taskmanager.cluster import Cluster

pytestmark = pytest.mark.virtual_time
OLD_ONE: dict[str, Any] = {"uid": "uid-of-north"}
STEPS = ("deleted", "progress", "final", "post", "restart")
ORDERS = [
    (*order[:at], "made again", *order[at:])
    for order in itertools.permutations(STEPS)
    for at in range(order.index("deleted") + 1, len(STEPS) + 1)
]


def make_again(cluster: Cluster, old: NodeUpgradeJob) -> None:
    """Another job of the same name."""
    meta = ObjectMeta(
        name="north", uid="uid-2", generation=1, resource_version=cluster.store.next(),
        creation_timestamp=rfc3339(cluster.world.now()),
    )  # fmt: skip
    cluster._put(msgspec.structs.replace(old, metadata=meta, status=type(old.status)(phase="")))


async def play(world: World, order: Sequence[str]) -> None:
    """One order; a `restart` of the planner wherever it stands."""
    cluster = Cluster(world, "a")
    cluster.connect("a")
    at, tickets = 0, 0
    old: NodeUpgradeJob | None = None
    while at < len(order):
        async with cluster.planner():
            if at == 0:
                old = cluster.apply("a", timeout_seconds=3600)
                await cluster.until(cluster.started, "the old one is told")
            while at < len(order):
                step, at = order[at], at + 1
                if step == "restart":
                    break
                if step == "deleted":
                    cluster.delete()
                elif step == "made again":
                    await cluster.until(lambda: not cluster.store.jobs, f"{order}: the old one goes", limit=40)
                    assert old is not None
                    make_again(cluster, old)
                elif step == "progress":
                    await cluster.say("a", a_report(2, action="BackUp", **OLD_ONE))
                elif step == "final":
                    await cluster.say("a", rolled_back(5, **OLD_ONE))
                else:
                    tickets += 1
                    await cluster.say("a", rolled_back(5, **OLD_ONE), ticket=tickets)
                await cluster.rest(0.3)
            if at < len(order):
                continue
            await must_be_the_new_ones(cluster, order)


async def must_be_the_new_ones(cluster: Cluster, order: Sequence[str]) -> None:
    """The new job starts the node, and ends by what it says of the new job alone."""
    await cluster.until(lambda: cluster.status().phase == "InProgress", f"{order}: the new one is at work", limit=60)
    await cluster.rest(5)
    assert phases(cluster.status()) == {"a": "InProgress"}, order
    await cluster.say("a", success(4, uid="uid-2"))
    await cluster.until(lambda: cluster.status().phase == "Completed", f"{order}: by its own word", limit=60)
    await cluster.until(lambda: not cluster.is_cordoned("a"), f"{order}: the flag is as it was", limit=60)
    assert cluster.history("a") == "v1.22.0->v1.23.0", order


@pytest.mark.long
@pytest.mark.parametrize("first", STEPS)
async def test_late_words_of_the_old_one_never_touch_the_new_one(world: World, first: str) -> None:
    for order in ORDERS:
        if order[0] == first:
            await play(world, order)
