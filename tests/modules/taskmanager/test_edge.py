"""The node's task manager on a real bus with a real journal, in virtual time."""

import asyncio
import errno
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from beehive.api.nodeupgradejob import BACK_UP, CHECK, UPGRADE
from beehive.config import Duration
from beehive.errors import PeerFailed
from beehive.journal import Journal
from beehive.log import TextFormatter
from beehive.message import Message
from beehive.messages.host import Evidence, Inspect, RunStep, StopStep, WatchStep
from beehive.messages.tasks import Hello, ReportSeen, TaskReport
from beehive.messages.uplink import CloudReached, Say
from beehive.world import World
from modules.taskmanager.config import EdgeConfig
from modules.taskmanager.edge import RECORD, EdgeTaskManager
from modules.taskmanager.record import Moment, Record
from tests.fakes.alone import Peers, alone
from tests.rules.playing import done, start, start_task_cancel

pytestmark = pytest.mark.virtual_time

OLD = Evidence(installed="v1.22.0", healthy=True, complete=True, unit_runs=False)


class Clock:
    """The host's boot clock: the loop's time, on a boot that a test may end; the wall clock may be set."""

    def __init__(self) -> None:
        self.boot = "boot-1"

    def __call__(self, wall: float) -> Moment:
        return Moment(wall, self.boot, asyncio.get_running_loop().time())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def edge(tmp_path: Path, world: World, clock: Clock) -> Callable[..., EdgeTaskManager]:
    """Makes the module anew, as after a restart: on the same journal."""

    def make(**settings: Duration) -> EdgeTaskManager:
        return EdgeTaskManager(EdgeConfig(**settings), world, Journal(tmp_path / "journal"), clock)

    return make


def on_disk(tmp_path: Path) -> Record:
    record = Journal(tmp_path / "journal").load(RECORD, Record)
    assert record is not None
    return record


async def report(peers: Peers) -> TaskReport:
    """The next report that is said."""
    while True:
        body = (await peers.heard(Say)).body
        if isinstance(body, TaskReport):
            return body


async def to_upgrade(peers: Peers) -> None:
    """Begin, and come as far as the upgrade."""
    await peers.send(start())
    assert (await peers.heard(RunStep)).step == CHECK
    peers.publish(done(CHECK, from_version="v1.22.0"))
    assert (await peers.heard(RunStep)).step == BACK_UP
    peers.publish(done(BACK_UP))


async def test_an_upgrade_from_start_to_end(edge: Callable[..., EdgeTaskManager], world: World, tmp_path: Path) -> None:
    async with alone(edge(), world=world) as peers:
        await to_upgrade(peers)
        step = await peers.heard(RunStep)
        assert (step.step, step.uid, step.attempt, step.spec.version) == (UPGRADE, "u1", 1, "v1.23.0")
        peers.publish(done(UPGRADE, to_version="v1.23.0"))
        said = [await report(peers) for _ in range(4)]
        assert [one.revision for one in said] == [1, 2, 3, 4]
        assert said[-1].final
        await peers.send(ReportSeen(job="job-u1", uid="u1", attempt=1, revision=4))
        peers.publish(CloudReached(url="x"))
        await peers.send(start())
        assert await report(peers) == said[-1], "seen: not said again when the cloud is reached, but to a repeated task"
    assert on_disk(tmp_path).finished[0].seen


async def test_a_restart_in_the_upgrade_watches_what_still_runs(
    edge: Callable[..., EdgeTaskManager], world: World, tmp_path: Path
) -> None:
    async with alone(edge(), world=world) as peers:
        await to_upgrade(peers)
        await peers.heard(RunStep)
    async with alone(edge(), world=world, ready=False) as peers:
        peers.answer(Inspect, lambda _: msgspec.structs.replace(OLD, unit_runs=True))
        watched = await peers.heard(WatchStep)
        assert (watched.step, watched.attempt) == (UPGRADE, 1)
        assert peers.all_of(Inspect) == [Inspect(uid="u1", attempt=1, version="v1.23.0")]
        peers.publish(done("RollBack", code="RolledBack", reason="it crashed", to_version="v1.22.0"))
        assert not (await report(peers)).final
        assert (await report(peers)).code == "RolledBack"
        assert peers.all_of(RunStep) == []
    assert on_disk(tmp_path).attempt is None


async def test_a_reboot_ends_the_lease_so_it_asks_until_it_is_told(
    edge: Callable[..., EdgeTaskManager], world: World, clock: Clock
) -> None:
    async with alone(edge(), world=world) as peers:
        await peers.send(start(lease=3600.0))
        peers.publish(done(CHECK))
        await peers.heard(RunStep)
    clock.boot = "boot-2"
    async with alone(edge(ask_again=Duration(30)), world=world, ready=False) as peers:
        peers.answer(Inspect, lambda _: OLD)
        assert (await peers.heard(RunStep)).step == BACK_UP
        peers.publish(done(BACK_UP))
        began = asyncio.get_running_loop().time()
        hellos = 0
        while hellos < 3:
            hellos += isinstance((await peers.heard(Say, timeout=100)).body, Hello)
        assert asyncio.get_running_loop().time() - began == pytest.approx(60, abs=1)
        assert len(peers.all_of(RunStep)) == 1, "the upgrade was not begun"
        await peers.send(start(lease=60.0))
        assert (await peers.heard(RunStep)).step == UPGRADE


async def test_a_wall_clock_that_is_set_back_by_a_year_does_not_stop_it_from_asking(
    edge: Callable[..., EdgeTaskManager], world: World, tmp_path: Path, clock: Clock
) -> None:
    loop = asyncio.get_running_loop()
    jumping = World(now=lambda: 1.8e9 + loop.time() - (365 * 86400 if loop.time() > 50 else 0), new_id=world.new_id)
    module = EdgeTaskManager(EdgeConfig(ask_again=Duration(30)), jumping, Journal(tmp_path / "journal"), clock)
    async with alone(module, world=jumping) as peers:
        await peers.send(start(lease=0.0))
        peers.publish(done(CHECK))
        peers.publish(done(BACK_UP))
        hellos = 0
        while hellos < 5:
            hellos += isinstance((await peers.heard(Say, timeout=400)).body, Hello)
        assert loop.time() < 300


async def test_a_cancelled_action_is_told_to_stop_until_it_ends(
    edge: Callable[..., EdgeTaskManager], world: World
) -> None:
    async with alone(edge(stop_again=Duration(10)), world=world) as peers:
        await peers.send(start())
        await peers.send(start_task_cancel())
        for _ in range(3):
            await peers.heard(StopStep)
        peers.publish(done(CHECK, ok=False, reason="stopped"))
        said = [await report(peers) for _ in range(3)]
        assert (said[-1].action, said[-1].final) == ("", False)
        words = [type(one).__name__ for one in peers.said if isinstance(one, RunStep | StopStep)]
        assert words == ["RunStep", "StopStep", "RunStep", "StopStep", "RunStep", "StopStep"]


async def test_missed_messages_are_found_out_from_evidence(edge: Callable[..., EdgeTaskManager], world: World) -> None:
    async with alone(edge(), world=world, inbox=2) as peers:
        await peers.send(start())
        await peers.heard(RunStep)
        evidence: list[Evidence] = [OLD]
        peers.answer(Inspect, lambda _: evidence[0])
        for _ in range(20):
            peers.publish(CloudReached(url="x"))
        await peers.heard(Inspect)
        again = await peers.heard(RunStep)
        assert again.step == CHECK
        peers.publish(done(CHECK, ok=False, reason="no"))
        while not (await report(peers)).final:
            pass


# ---- the journal -------------------------------------------------------------------------------------------------


class Full(Journal):
    """A disk that is full at first."""

    def __init__(self, directory: Path, refusals: int) -> None:
        super().__init__(directory)
        self.refusals = refusals

    def save(self, key: str, record: object) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        super().save(key, record)


async def test_with_a_full_disk_nothing_is_done_and_nothing_is_lost(
    tmp_path: Path, world: World, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    module = EdgeTaskManager(EdgeConfig(save_again=Duration(5)), world, Full(tmp_path / "j", 3), clock)
    async with alone(module, world=world) as peers:
        await peers.send(start())
        await asyncio.sleep(12)
        assert peers.said == [], "it acts before it saved"
        assert peers.module.waits_for == f"the journal in {tmp_path / 'j'}: No space left on device"
        assert (await peers.heard(RunStep)).step == CHECK
        assert peers.module.waits_for == ""
    assert "cannot save what comes next" in caplog.text


@pytest.mark.parametrize(
    "bad",
    [b"", b'{"attempt": {"job": "half a rec', b"\0" * 512, b'{"schema": 2, "attempt": null}', b'{"schema": "x"}'],
    ids=["empty", "half", "zeros", "newer schema", "another shape"],
)
async def test_a_record_that_cannot_be_used_is_kept_aside_told_of_and_the_next_task_is_taken(
    edge: Callable[..., EdgeTaskManager], world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: bytes
) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / f"{RECORD}.json").write_bytes(bad)
    async with alone(edge(), world=world) as peers:
        await asyncio.sleep(1)
    async with alone(edge(), world=world) as peers:
        await peers.send(start())
        assert (await peers.heard(RunStep)).step == CHECK
        said = (await report(peers)).reason
        peers.publish(done(CHECK, code="CheckFailed", ok=False))
        assert (await report(peers)).final
        await peers.send(start(attempt=2))
        assert "journal" not in (await report(peers)).reason, "told once"
    kept = tmp_path / "journal" / f"{RECORD}.bad"
    assert kept.read_bytes() == bad
    assert caplog.text.count(f"it is kept as {kept.name}") == 1
    assert said.startswith("this node's journal had a fault, so it began anew: ")
    assert f"{RECORD}.json" in said


async def test_a_record_of_a_newer_version_with_more_in_it_can_be_read(
    edge: Callable[..., EdgeTaskManager], world: World, tmp_path: Path
) -> None:
    async with alone(edge(), world=world) as peers:
        await peers.send(start())
        await peers.heard(RunStep)
    path = tmp_path / "journal" / f"{RECORD}.json"
    newer = msgspec.json.decode(path.read_bytes())
    newer["attempt"]["novelty"] = newer["novelty"] = {"a": 1}
    path.write_bytes(msgspec.json.encode(newer))
    async with alone(edge(), world=world, ready=False) as peers:
        peers.answer(Inspect, lambda _: OLD)
        assert (await peers.heard(RunStep)).step == CHECK


async def test_nothing_is_written_when_nothing_changed(
    edge: Callable[..., EdgeTaskManager], world: World, tmp_path: Path
) -> None:
    async with alone(edge(), world=world) as peers:
        await peers.send(start())
        await peers.heard(RunStep)
        before = (tmp_path / "journal" / f"{RECORD}.json").stat().st_ino
        for _ in range(10):
            peers.publish(CloudReached(url="x"))
        while len(peers.all_of(Say)) < 11:
            await report(peers)
        assert (tmp_path / "journal" / f"{RECORD}.json").stat().st_ino == before


async def test_it_begins_and_ends_in_the_log(
    edge: Callable[..., EdgeTaskManager], world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with alone(edge(), world=world) as peers:
        await peers.send(start())
        peers.publish(done(CHECK, ok=False, reason="disk: 1.2 GB free"))
        while not (await report(peers)).final:
            pass
    lines = [TextFormatter().format(one) for one in caplog.records if one.name.startswith("modules.taskmanager")]
    assert [" ".join(line.split()[2:]) for line in lines] == [
        "taskmanager upgrade begun job=job-u1 attempt=1 version=v1.23.0",
        'taskmanager upgrade ended job=job-u1 attempt=1 code=CheckFailed reason="disk: 1.2 GB free"',
    ]


async def test_an_upgrader_that_fails_on_the_question_fails_the_module(
    edge: Callable[..., EdgeTaskManager], world: World
) -> None:
    async with alone(edge(), world=world) as peers:
        await peers.send(start())
        await peers.heard(RunStep)

    def gone(_: Message) -> Evidence:
        raise PeerFailed("the upgrader failed")

    async def restart() -> None:
        async with alone(edge(), world=world, ready=False) as peers:
            peers.answer(Inspect, gone)
            await asyncio.sleep(100)

    with pytest.raises(ExceptionGroup) as failure:
        await restart()
    assert failure.group_contains(PeerFailed)
