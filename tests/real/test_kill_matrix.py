"""The cloud is killed at every API write and every word of a job of twenty nodes, before it and after it.

What the hosts saw and what stands in the API server must be what an undisturbed run comes to. All points in memory and
in virtual time (the real informer and planner on the embedded API); a sample on a real kube-apiserver follows in
`test_kill_sample.py`.
"""

import asyncio
from collections import Counter

import pytest

from beehive.world import World
from tests.contracts.place import JOBS, NODES
from tests.fakes.edges import names
from tests.fakes.jobs import NEW, OLD
from tests.fakes.killable_cloud import Deeds, Theatre
from tests.fakes.virtual_time import VirtualLoop, virtual_world

TWENTY = names(20)
FAILING = TWENTY[3:4]
HISTORY = "nodeupgradejob.operations.kubeedge.io/history"


async def played(world: World, kill_at: int, after: bool) -> tuple[Theatre, Deeds]:
    """A job whose first cloud is killed around its `kill_at`th deed; the next carries on to the end."""
    theatre = Theatre(world, TWENTY, FAILING)
    await theatre.furnish(concurrency=7)
    deeds = Deeds(kill_at, after)
    over = await theatre.life(deeds)
    if not over:
        assert await theatre.life(Deeds(0, False))
    return theatre, deeds


async def must_be_right(theatre: Theatre, where: str) -> None:
    """One run on each host, no slot too many, every word heard, every flag and history as it should be."""
    job = await theatre.get(f"{JOBS}/north")
    uid = job["metadata"]["uid"]
    assert {tuple(host.runs) for host in theatre.hosts.values()} == {(f"{uid}#1",)}, f"{where}: each ran once"
    assert not theatre.early, f"{where}: acknowledged before it stood"
    assert theatre.most_running <= 7, f"{where}: {theatre.most_running} at once"
    phases = Counter((one["phase"], one.get("reasonCode", "")) for one in job["status"]["nodeStatus"])
    assert phases == {("Successful", ""): 19, ("Failure", "RolledBack"): 1}, where
    assert job["status"]["phase"] == "Completed", where
    for node in (await theatre.get(NODES))["items"]:
        name, notes = node["metadata"]["name"], node["metadata"].get("annotations", {})
        expected = None if name in FAILING else f"{OLD}->{NEW}"
        assert (notes.get(HISTORY), node["spec"].get("unschedulable")) == (expected, None), f"{where}: {name}"


def play(kill_at: int, after: bool) -> list[str]:
    """One play on a loop of its own, checked; what its first cloud did."""

    async def whole() -> list[str]:
        theatre, deeds = await played(virtual_world(), kill_at, after)
        await must_be_right(theatre, f"killed {'after' if after else 'before'} {deeds.done[-1]} ({kill_at})")
        return deeds.done

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(whole())


@pytest.mark.timeout(400)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_around_every_write_and_word(after: bool) -> None:
    deeds = play(0, False)
    kinds = Counter(one.split()[0] for one in deeds)
    assert kinds["StartTask"] == kinds["ReportSeen"] == 20
    assert sum("/nodes/" in one for one in deeds) == 40, "a cordon and its undoing for each"
    for kill_at in range(1, len(deeds) + 1):
        play(kill_at, after)
