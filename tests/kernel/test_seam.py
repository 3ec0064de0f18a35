"""One bad thing spoils only itself: it is set aside, counted, logged under the id that is in the answer."""

import asyncio
import logging

import pytest

from beehive.seam import Guard, Seam
from beehive.world import World

LOG = logging.getLogger("beehive.test-seam")


@pytest.fixture
def seam() -> Seam:
    ids = iter(["incident-1", "incident-2"])
    return Seam("a message of a node", World(new_id=lambda: next(ids)), LOG)


def handled(seam: Seam, item: int) -> Guard:
    with seam.guarding(node="edge-7") as outcome:
        _ = 1 // item
    return outcome


def test_what_goes_well_leaves_no_trace(seam: Seam, caplog: pytest.LogCaptureFixture) -> None:
    outcome = handled(seam, 1)
    assert (outcome.incident, outcome.error, seam.set_aside) == ("", None, 0)
    assert caplog.records == []


def test_a_bug_is_set_aside_and_the_next_item_is_handled(seam: Seam, caplog: pytest.LogCaptureFixture) -> None:
    outcomes = [handled(seam, item) for item in (0, 1, 0)]
    assert [outcome.incident for outcome in outcomes] == ["incident-1", "", "incident-2"]
    assert isinstance(outcomes[0].error, ZeroDivisionError)
    assert seam.set_aside == 2
    first = caplog.records[0]
    assert first.getMessage() == "a message of a node was set aside (incident-1)"
    assert vars(first)["node"] == "edge-7"
    assert first.exc_info is not None


async def test_being_cancelled_is_nothing_to_set_aside(seam: Seam) -> None:
    async def work() -> None:
        with seam.guarding():
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seam.set_aside == 0


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_process_is_nothing_to_set_aside(seam: Seam, ending: type[BaseException]) -> None:
    with pytest.raises(ending), seam.guarding():
        raise ending
    assert seam.set_aside == 0
