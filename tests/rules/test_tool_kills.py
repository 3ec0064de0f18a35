"""The tool killed before each single change that it makes to the disk or to the service, and taken up again."""

from pathlib import Path

import pytest

from beehive.messages.host import Verdict
from modules.upgrader.tool.phases import Phase
from modules.upgrader.tool.record import Record, load_record
from modules.upgrader.tool.work import Tool
from tests.fakes.memory_host import NEW, OLD, Killed, MemoryHost

pytestmark = pytest.mark.long

GOOD, CRASHING, MIGRATING = f"{NEW} good", f"{NEW} crash", f"{NEW} migrates"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A killed process, unlike a power cut, loses nothing that it wrote: no need to wait for a disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    caplog.set_level("CRITICAL", logger="beehive.tool")


def lives(host: MemoryHost, record: Record, kills: list[int], *, reboots: bool) -> Verdict:
    """One attempt, killed before the steps named, each counted from the start of that run."""
    host.disk.steps = []
    pending = list(kills)
    while True:
        host.disk.kill_before = len(host.disk.steps) + pending.pop(0) if pending else -1
        key = "6b1f-0"
        try:
            return Tool(host, key, load_record(host.layout, key) or record).run()
        except Killed:
            if reboots:
                host.memory.running = ""
                host.memory.boot()


def steps_of(host: MemoryHost) -> int:
    lives(host, host.record(), [], reboots=False)
    return len(host.disk.steps)


def assert_good(host: MemoryHost, verdict: Verdict, new: str) -> None:
    """Old-good or new-good, whole, running, and the verdict says which."""
    layout = host.layout
    assert layout.config
    assert layout.database
    assert layout.config.read_text() == "kind: EdgeCore\n"
    assert layout.executable.stat().st_mode & 0o777 == 0o750, "the mode of the replaced program is kept"
    assert not list(layout.executable.parent.glob(".*.new")), "nothing half is left beside it"
    if verdict.step == "Upgrade":
        assert layout.executable.read_text() == new
        assert host.memory.running == NEW
        assert verdict.to_version == NEW
    else:
        assert (verdict.ok, verdict.code) == (True, "RolledBack"), verdict.reason
        assert layout.executable.read_text() == f"{OLD} good"
        assert host.memory.running == OLD
        assert layout.database.read_text() == "data of the owner"
        assert not layout.saved_database("6b1f-0").exists()


@pytest.mark.parametrize("reboots", [False, True], ids=["killed", "power cut"])
@pytest.mark.parametrize(("new", "ends"), [(GOOD, "Upgrade"), (MIGRATING, "Upgrade"), (CRASHING, "RollBack")])
def test_killed_once_before_every_step(tmp_path: Path, new: str, ends: str, reboots: bool) -> None:
    count = steps_of(MemoryHost(tmp_path / "measured", new))
    assert count > 30
    for point in range(count):
        host = MemoryHost(tmp_path / f"host-{point}", new)
        verdict = lives(host, host.record(), [point], reboots=reboots)
        assert verdict.step == ends, f"killed before step {point} ({host.disk.steps[point:]}): {verdict}"
        assert_good(host, verdict, new)
        swaps = host.disk.steps.count("rename edgecore")
        assert swaps == (1 if ends == "Upgrade" else 2), "swapped once, restored once, however it was interrupted"
        assert host.memory.starts.count(NEW) <= (2 if reboots else 1), "never started again but by the host's own boot"


def test_each_phase_begins_with_a_record_that_was_replaced_whole(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path)
    lives(host, host.record(), [], reboots=False)
    steps = host.disk.steps
    written = [number for number, step in enumerate(steps) if step == "rename 6b1f-0.json"]
    assert len(written) == 7, "prepare, stop, save, swap, start, verify, and the verdict"
    for after, what in ((1, "stop edgecore"), (3, "rename edgecore"), (4, "start edgecore")):
        assert written[after] < steps.index(what) < written[after + 1]


def test_killed_again_and_again_it_goes_back_after_the_third_time(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path)
    verdict = lives(host, host.record(), [25, 6, 6], reboots=False)
    assert verdict.code == "RolledBack"
    assert "interrupted 3 times" in verdict.reason
    assert_good(host, verdict, GOOD)


@pytest.mark.parametrize("first", [8, 25, 33])
@pytest.mark.parametrize("new", [GOOD, CRASHING])
def test_killed_twice_also_while_it_takes_the_attempt_up_again(tmp_path: Path, first: int, new: str) -> None:
    for second in range(0, 40, 2):
        host = MemoryHost(tmp_path / f"host-{second}", new)
        assert_good(host, lives(host, host.record(), [first, second], reboots=True), new)


def test_an_attempt_with_a_verdict_is_never_run_again(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path)
    first = lives(host, host.record(), [], reboots=False)
    before = list(host.memory.starts)
    host.layout.executable.write_text("v9.9.9 somebody else's")
    assert lives(host, host.record(), [], reboots=False) == first
    assert host.memory.starts == before


def test_a_verdict_survives_a_full_disk_in_the_middle_by_going_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record cannot be written when `verify` is to begin: the old version is brought back, unrecorded."""
    host = MemoryHost(tmp_path)
    tool = Tool(host, "6b1f-0", host.record())
    saved = tool.save

    def full() -> None:
        if tool.record.phase.value in ("verify", "undo-stop", "undo-restore", "undo-start", "undo-verify"):
            raise OSError(28, "No space left on device")
        saved()

    monkeypatch.setattr(tool, "save", full)
    verdict = tool.run()
    assert verdict.code == "RolledBack"
    assert "No space left on device" in verdict.reason
    assert_good(host, verdict, GOOD)


def test_a_damaged_backup_is_made_again_before_anything_is_touched(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path, CRASHING)
    lives(host, host.record(), [3], reboots=False)
    host = MemoryHost(tmp_path / "second", CRASHING)
    backup = host.layout.backup(OLD)
    backup.mkdir(parents=True)
    (backup / "manifest.json").write_text("{}")
    verdict = lives(host, host.record(), [], reboots=False)
    assert_good(host, verdict, CRASHING)


def test_the_artefact_is_checked_again_just_before_the_swap(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path)
    record = host.record()
    host.layout.artefact(NEW).write_text(f"{NEW} somebody else's bytes")
    verdict = lives(host, record, [], reboots=False)
    assert verdict.code == "RolledBack"
    assert "is not the program that was checked" in verdict.reason
    assert host.memory.starts == [OLD], "the old version was not even stopped"
    assert host.layout.executable.read_text() == f"{OLD} good"


def test_a_host_without_a_database_has_none_after_a_rollback(tmp_path: Path) -> None:
    host = MemoryHost(tmp_path, CRASHING, database=None)
    verdict = lives(host, host.record(), [], reboots=False)
    assert verdict.code == "RolledBack"
    assert host.layout.database
    assert not host.layout.database.exists()
    assert host.layout.database.with_name("edgecore.db.failed").exists(), (
        "what the new version wrote is kept for people"
    )


def test_a_rollback_that_fails_says_what_is_there_and_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = MemoryHost(tmp_path, CRASHING)
    tool = Tool(host, "6b1f-0", host.record())

    def broken() -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setitem(tool._phases, Phase.UNDO_RESTORE, broken)
    verdict = tool.run()
    assert (verdict.step, verdict.ok, verdict.code) == ("RollBack", False, "RollbackFailed")
    assert "Input/output error" in verdict.reason
    assert f"on disk: {NEW}" in verdict.reason
    assert f"keadm rollback edge --historical-version {OLD}" in verdict.reason
    assert len(verdict.reason) <= 256
