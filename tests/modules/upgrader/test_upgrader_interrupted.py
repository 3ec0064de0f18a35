"""The module when it is interrupted, stopped, kept waiting: agent, tool and keeper die, owners speak or do not."""

import os
import signal
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import pytest

from beehive.errors import Unavailable
from beehive.messages.host import OwnerSaid, StepDone, StopStep, WatchStep
from modules.upgrader import confirmation
from modules.upgrader.host import keeper
from modules.upgrader.host.lock import Holder, held
from modules.upgrader.host.service import Service
from modules.upgrader.tool import orders
from modules.upgrader.tool.phases import Phase
from modules.upgrader.tool.record import Record, save_record
from tests.fakes.alone import alone
from tests.fakes.edge_host import NEW, OLD, EdgeHost, program, until
from tests.modules.upgrader.driving import UID, Make, done, look, order, upgrader


async def test_a_restarted_agent_finds_the_running_tool_and_waits_for_its_word(edge: Make) -> None:
    host = edge(soak=1.5)
    async with alone(upgrader(host)) as peers:
        assert (await done(peers, "Check")).ok
        await peers.send(order("Upgrade"))
        await anyio.to_thread.run_sync(until, lambda: host.starts() == [OLD, NEW], "the new version's start")
    async with alone(upgrader(host)) as peers:
        evidence = await look(peers)
        assert evidence.unit_runs
        assert evidence.verdict is None
        assert evidence.busy_with == "", "it is this attempt itself that holds the host"
        await peers.send(WatchStep(job="north", uid=UID, attempt=0, step="Upgrade", spec=order("Upgrade").spec))
        assert (await peers.heard(StepDone, 60)).ok
    assert host.starts() == [OLD, NEW]


async def test_a_killed_tool_is_taken_up_even_when_its_keeper_died_too(edge: Make) -> None:
    host = edge(soak=1.5)
    async with alone(upgrader(host)) as peers:
        assert (await done(peers, "Check")).ok
        await peers.send(order("Upgrade"))
        await anyio.to_thread.run_sync(until, lambda: host.starts() == [OLD, NEW], "the new version's start")
        unit = host.host.tool_unit(UID, 0)
        pid = host.host.services.status(unit).pid
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        for one in (parent, pid):
            os.kill(one, signal.SIGKILL)
        assert (await peers.heard(StepDone, 60)).ok
    assert host.starts() == [OLD, NEW], "somebody is left to act, and nothing is doubled"


def kill_with_its_keeper(host: EdgeHost) -> None:
    """The next tool that runs, and whoever would start it again."""
    unit = host.host.tool_unit(UID, 0)
    until(lambda: host.host.services.status(unit).active, "the next tool", 30)
    pid = host.host.services.status(unit).pid
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    for one in (parent, pid):
        os.kill(one, signal.SIGKILL)
    until(lambda: not keeper.start_ticks(pid), "its end")


async def test_a_tool_that_was_killed_at_each_of_its_starts_is_asked_to_roll_back(edge: Make) -> None:
    """Nobody may be left on a version that nobody has verified."""
    host = edge(soak=4.0)
    async with alone(upgrader(host)) as peers:
        assert (await done(peers, "Check")).ok
        await peers.send(order("Upgrade"))
        await anyio.to_thread.run_sync(until, lambda: host.starts() == [OLD, NEW], "the new version's start", 30)
        for _ in range(3):
            await anyio.to_thread.run_sync(kill_with_its_keeper, host)
        ended = await peers.heard(StepDone, 60)
        assert (ended.ok, ended.code, ended.to_version) == (False, "RolledBack", OLD)
    assert host.layout.executable.read_bytes() == program(OLD)
    assert host.runs() == OLD
    assert host.starts() == [OLD, NEW, OLD]


async def test_a_tool_that_cannot_even_roll_back_is_told_with_what_to_type(edge: Make, tmp_path: Path) -> None:
    """It dies each time, but not before it has written its record: in place of the tool a line of shell."""
    host = edge()
    record = Record(order=orders.upgrade_by_hand(host.host, UID, OLD, NEW, "0" * 64), phase=Phase.VERIFY)
    save_record(host.host.files, host.layout, f"{UID}-0", record)
    asked = tmp_path / "asked"
    tool = ("/bin/sh", "-c", f'cat "$5" >> {asked}; echo >> {asked}; exit 1', "tool")
    async with alone(upgrader(host, tool=tool)) as peers:
        await peers.send(order("Upgrade"))
        ended = await peers.heard(StepDone, 60)
    assert (ended.ok, ended.code) == (False, "RollbackFailed")
    assert "the tool exited with code 1" in ended.reason
    assert ended.reason.endswith(f"runs: {OLD}; on disk: {OLD}; mend it: keadm recover edge")
    undone = [msgspec.json.decode(line)["undo"] for line in asked.read_text().splitlines()]
    assert undone == [False] * 3 + [True] * 3


async def test_a_rescue_of_this_very_attempt_is_waited_for_and_not_taken_for_somebody_else(edge: Make) -> None:
    """The boot unit's recovery holds the host: the tool that the agent starts is turned away, the job is not."""
    host = edge(soak=0.1)
    unit = host.host.tool_unit(UID, 0)
    async with alone(upgrader(host)) as peers:
        assert (await done(peers, "Check")).ok
        with held(host.layout.lock, Holder(job="north", uid=UID, attempt=0, step="Recover")):
            await peers.send(order("Upgrade"))
            turned_away = lambda: host.host.services.status(unit).exit_code == 3  # noqa: E731
            await anyio.to_thread.run_sync(until, turned_away, "the tool is turned away")
            with pytest.raises(AssertionError):
                await peers.heard(StepDone, 1.5)
        assert (await peers.heard(StepDone, 60)).ok
    assert host.starts() == [OLD, NEW]


async def test_a_tool_that_cannot_run_is_told_and_nothing_is_changed(edge: Make) -> None:
    host = edge()
    async with alone(upgrader(host, tool=("/bin/false",))) as peers:
        assert (await done(peers, "Check")).ok
        failed = await done(peers, "Upgrade")
        assert (failed.ok, failed.code) == (False, "RolledBack")
        assert "the tool exited with code 1" in failed.reason
        assert (await done(peers, "RollBack")).reason == "nothing was changed"
    assert host.starts() == [OLD]


@pytest.mark.parametrize(("failures", "good"), [(2, True), (9, False)])
async def test_a_start_that_fails_is_tried_again(
    edge: Make, failures: int, good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = edge()
    module = upgrader(host)
    services, left = module._host.services, [failures]
    begin = services.start

    def start(service: Service) -> None:
        if left[0]:
            left[0] -= 1
            raise Unavailable("its keeper failed")
        begin(service)

    monkeypatch.setattr(services, "start", start)
    async with alone(module) as peers:
        assert (await done(peers, "Check")).ok
        ended = await done(peers, "Upgrade")
        assert ended.ok is good
        if not good:
            assert (ended.code, ended.reason) == ("RolledBack", "the tool could not be started: its keeper failed")
    assert host.starts() == ([OLD, NEW] if good else [OLD])


async def test_a_rollback_without_a_word_of_an_upgrade_restores_a_broken_program(edge: Make) -> None:
    """Neither old nor new is complete: the backup is brought back."""
    host = edge()
    async with alone(upgrader(host)) as peers:
        assert (await done(peers, "BackUp")).ok
        host.host.services.stop(host.host.service)
        host.layout.executable.write_bytes(program(OLD)[:100])
        evidence = await look(peers)
        assert not evidence.complete
        assert not evidence.healthy
        back = await done(peers, "RollBack")
        assert (back.ok, back.code) == (True, "RolledBack")
    assert host.layout.executable.read_bytes() == program(OLD)
    assert host.runs() == OLD


async def test_an_upgrade_whose_program_is_gone_changes_nothing(edge: Make) -> None:
    host = edge()
    async with alone(upgrader(host)) as peers:
        assert (await done(peers, "Check")).ok
        host.layout.artefact(NEW).write_bytes(b"tampered")
        failed = await done(peers, "Upgrade")
        assert (failed.ok, failed.code) == (False, "RolledBack")
        assert "the new program is not there whole" in failed.reason
    assert host.starts() == [OLD]


# ---- one at a time, and stopping ------------------------------------------------------------------------------------


async def test_one_step_at_a_time_and_the_loop_stays_free(edge: Make) -> None:
    host = edge()
    async with alone(upgrader(host)) as peers:
        await peers.send(order("WaitingConfirmation", require_confirmation=True))
        await peers.send(order("WaitingConfirmation", require_confirmation=True))
        assert (await look(peers)).installed == OLD
        busy = await done(peers, "Check", uid="another")
        assert (busy.code, busy.reason) == ("Busy", "job north, attempt 0, step WaitingConfirmation")
        waiting = confirmation.waiting(host.layout)
        assert waiting
        confirmation.say(host.host.files, host.layout, waiting, confirmed=True)
        assert (await peers.heard(OwnerSaid)).confirmed
        assert (await peers.heard(StepDone)).ok
        assert len(peers.all_of(StepDone)) == 2, "the same step said twice is one step"


async def test_the_owner_may_say_no_and_once_only(edge: Make) -> None:
    host = edge()
    async with alone(upgrader(host)) as peers:
        await peers.send(order("WaitingConfirmation", require_confirmation=True))
        await look(peers)
        waiting = confirmation.waiting(host.layout)
        assert waiting
        confirmation.say(host.host.files, host.layout, waiting, confirmed=False, reason="shift \x1b[31mhas begun")
        confirmation.say(host.host.files, host.layout, waiting, confirmed=True)
        said = await peers.heard(OwnerSaid)
        assert (said.confirmed, said.reason) == (False, "shift has begun")
        ended = await peers.heard(StepDone)
        assert (ended.ok, ended.code, ended.reason) == (False, "Rejected", "shift has begun")
    assert confirmation.waiting(host.layout) is None


async def test_a_wait_survives_restarts_and_ends_by_a_word(edge: Make) -> None:
    host = edge()
    async with alone(upgrader(host)) as peers:
        await peers.send(order("WaitingConfirmation", require_confirmation=True))
        await look(peers)
    first = confirmation.waiting(host.layout)
    assert first
    assert peers.all_of(StepDone) == [], "an agent that ends has not decided for the owner"
    async with alone(upgrader(host)) as peers:
        await peers.send(order("WaitingConfirmation", require_confirmation=True))
        await look(peers)
        assert confirmation.waiting(host.layout) == first
        confirmation.say(host.host.files, host.layout, first, confirmed=True)
        assert (await peers.heard(StepDone)).ok
    assert confirmation.waiting(host.layout) is None


async def test_stop_ends_a_wait_but_never_an_upgrade(edge: Make) -> None:
    host = edge(soak=1.0)
    async with alone(upgrader(host)) as peers:
        await peers.send(order("WaitingConfirmation", require_confirmation=True))
        await peers.send(StopStep(uid="another", attempt=0))
        await look(peers)
        assert peers.all_of(StepDone) == [], "another attempt's cancel is not ours"
        await peers.send(StopStep(uid=UID, attempt=0))
        assert (await peers.heard(StepDone)).code == "Aborted"
        assert confirmation.waiting(host.layout) is None, "nobody is asked for a yes to what was called off"
        assert (await done(peers, "Check")).ok
        await peers.send(order("Upgrade"))
        await peers.send(StopStep(uid=UID, attempt=0))
        assert (await peers.heard(StepDone, 60)).ok
    assert host.starts() == [OLD, NEW]


async def test_a_rollback_waits_for_the_end_of_the_upgrade_that_is_under_way(edge: Make) -> None:
    host = edge(soak=1.0)
    async with alone(upgrader(host)) as peers:
        assert (await done(peers, "Check")).ok
        await peers.send(order("Upgrade"))
        await peers.send(order("RollBack"))
        first, second = await peers.heard(StepDone, 60), await peers.heard(StepDone, 60)
        assert (first.step, first.ok) == ("Upgrade", True)
        assert (second.step, second.ok, second.to_version) == ("RollBack", True, NEW), "what the tool said stands"
    assert host.starts() == [OLD, NEW]


async def test_an_upgrade_that_is_begun_waits_for_whoever_holds_the_host(edge: Make) -> None:
    """Busy would say that nothing was changed."""
    host = edge(soak=4.0)
    async with alone(upgrader(host)) as peers:
        assert (await done(peers, "Check")).ok
        await peers.send(order("Upgrade"))
        await anyio.to_thread.run_sync(until, lambda: host.starts() == [OLD, NEW], "the new version's start", 30)
        await anyio.to_thread.run_sync(kill_with_its_keeper, host)
        with held(host.layout.lock, Holder(step="Upgrade", pid=7)):
            turned_away = lambda: host.host.services.status(host.host.tool_unit(UID, 0)).exit_code == 3  # noqa: E731
            await anyio.to_thread.run_sync(until, turned_away, "the tool is turned away", 30)
            with pytest.raises(AssertionError):
                await peers.heard(StepDone, 1.5)
        assert (await peers.heard(StepDone, 60)).ok
    assert host.starts() == [OLD, NEW]


async def test_a_rollback_waits_for_whoever_holds_the_host(edge: Make) -> None:
    host = edge()
    async with alone(upgrader(host)) as peers:
        with held(host.layout.lock, Holder(job="", step="Upgrade")):
            await peers.send(order("RollBack"))
            await look(peers)
            assert peers.all_of(StepDone) == [], "busy is no failed rollback"
        back = await peers.heard(StepDone)
        assert (back.ok, back.code, back.reason) == (True, "RolledBack", "nothing was changed")
    assert host.starts() == [OLD]
