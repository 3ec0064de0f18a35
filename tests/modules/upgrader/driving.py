"""Drives the module alone on a real bus: orders a step and waits for its end."""

from collections.abc import Callable

import anyio
import msgspec

from beehive.messages.host import Evidence, Inspect, RunStep, StepDone
from beehive.messages.tasks import TaskSpec
from beehive.world import World
from modules.upgrader.module import Upgrader
from tests.fakes.alone import Peers
from tests.fakes.edge_host import IMAGE, NEW, EdgeHost, program

Make = Callable[..., EdgeHost]
UID = "6b1f2c34-0000-4000-8000-000000000000"
CRASHING = program(NEW, suits="9")


def upgrader(host: EdgeHost, **settings: object) -> Upgrader:
    return Upgrader(msgspec.structs.replace(host.config, **settings), World())


def order(step: str, *, attempt: int = 0, uid: str = UID, **spec: object) -> RunStep:
    wanted = {"version": NEW, "image": IMAGE} | spec
    return RunStep(job="north", uid=uid, attempt=attempt, step=step, spec=TaskSpec(**wanted))  # type: ignore[arg-type]


async def done(peers: Peers, step: str, **more: object) -> StepDone:
    await peers.send(order(step, **more))  # type: ignore[arg-type]
    ended = await peers.heard(StepDone, 60)
    assert (ended.step, ended.uid) == (step, more.get("uid", UID))
    return ended


async def look(peers: Peers, attempt: int = 0) -> Evidence:
    return await peers.ask(Inspect(uid=UID, attempt=attempt, version=NEW), 30)


async def at_rest(peers: Peers) -> Evidence:
    """The evidence once the tool has said its word to EdgeCore too and has ended."""
    with anyio.fail_after(10):
        while (evidence := await look(peers)).unit_runs:  # noqa: ASYNC110 - another process decides
            await anyio.sleep(0.01)
    return evidence
