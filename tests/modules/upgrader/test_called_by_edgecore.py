"""A real EdgeCore calls `keadm`, is stopped by it, and reads the report when it connects (spec/kubeedge.md 7.5-7.7)."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from modules.upgrader.tool import main
from modules.upgrader.tool.attempts import conclude
from modules.upgrader.tool.phases import Phase
from modules.upgrader.tool.record import Record, load_record
from modules.upgrader.tool.recovery import at_boot
from modules.upgrader.tool.work import Tool
from tests.fakes.edge_host import IMAGE, NEW, OLD, EdgeHost, program
from tests.fakes.memory_host import Killed, MemoryHost
from tests.modules.upgrader.test_tool_commands import settings

Make = Callable[..., EdgeHost]
KEY = "6b1f-0"
READS = (
    'cat "$state/../../../etc/kubeedge/upgrade_report.json" >> "$state/reports" 2>/dev/null; echo >> "$state/reports"'
)
TAKES = f'{READS}; rm -f "$state/../../../etc/kubeedge/upgrade_report.json"'


def upgrade(host: EdgeHost) -> int:
    """As EdgeCore's flow calls it."""
    command = ["upgrade", "edge", "--force", "--toVersion", NEW, "--image", IMAGE]
    return main([*command, "--settings", settings(host)])


def reports(host: EdgeHost) -> list[dict[str, object]]:
    """What the program found at each of its starts after the first."""
    assert host.layout.database
    lines = host.layout.database.with_name("reports").read_text().splitlines()
    return [json.loads(line) if line else {} for line in lines]


def edgecore(edge: Make, new: bytes) -> EdgeHost:
    host = edge(new)
    host.host.services.stop(host.host.service)
    host.install(program(OLD, manner=TAKES))
    host.start()
    return host


def test_the_new_version_finds_its_success_and_takes_it_away(edge: Make) -> None:
    host = edgecore(edge, program(NEW, manner=TAKES))
    assert upgrade(host) == 0
    success = {"event": "Upgrade", "success": True, "fromVersion": OLD, "toVersion": NEW}
    assert reports(host) == [{}, success]
    assert not host.layout.report.exists(), "what was read is not said a second time"


@pytest.mark.parametrize("new", [f"{TAKES}; exit 1", f"{READS}; sleep 0.05; exit 1"])
def test_a_rollback_is_said_before_the_old_version_starts(edge: Make, new: str) -> None:
    """A failed `Upgrade` would make EdgeCore roll back once more."""
    host = edgecore(edge, program(NEW, manner=new))
    assert upgrade(host) == 1
    first, second, third = reports(host)
    assert (first, second["event"]) == ({}, "Upgrade")
    assert (third["event"], third["success"], third["fromVersion"], third["toVersion"]) == ("Rollback", True, NEW, OLD)
    assert str(third["errorMessage"]).startswith(f"{NEW} exited with code 1")
    assert not host.layout.report.exists()


def test_a_rollback_that_fails_is_said_at_the_end(edge: Make) -> None:
    broken = f'if [ -e "$state/broken" ]; then exit 5; fi; {TAKES}'
    host = edgecore(edge, program(NEW, manner='touch "$state/broken"; exit 1'))
    host.host.services.stop(host.host.service)
    host.install(program(OLD, manner=broken))
    host.start()
    assert upgrade(host) == 1
    report = host.report()
    assert (report["event"], report["success"]) == ("Rollback", False)
    assert "runs: nothing; on disk: v1.22.0; mend it: keadm rollback edge" in str(report["errorMessage"])


def test_a_rollback_by_itself_is_said_before_the_start_too(edge: Make) -> None:
    host = edgecore(edge, program(NEW, manner=TAKES))
    assert upgrade(host) == 0
    assert main(["rollback", "edge", "--settings", settings(host)]) == 0
    assert reports(host)[-1] == {"event": "Rollback", "success": True, "fromVersion": NEW, "toVersion": OLD}
    assert not host.layout.report.exists()


@pytest.mark.parametrize(
    ("phase", "event"),
    [(Phase.PREPARE, ""), (Phase.SWAP, "Upgrade"), (Phase.START, "Upgrade"), (Phase.UNDO_RESTORE, "Rollback")],
)
def test_after_a_cut_it_is_there_before_the_boot_starts_the_service(
    tmp_path: Path, phase: Phase, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    host = MemoryHost(tmp_path, f"{NEW} crash" if event == "Rollback" else f"{NEW} good")
    host.files.directory(host.layout.etc)
    record = Record(order=msgspec.structs.replace(host.order(), job=""))

    class Cut(Tool):
        def save(self) -> None:
            super().save()
            if self.record.phase is phase:
                raise Killed

    with pytest.raises(Killed):
        Cut(host, KEY, record).run()
    host.layout.report.unlink(missing_ok=True)
    host.memory.running = ""
    at_boot(host)
    found = json.loads(host.layout.report.read_bytes())["event"] if host.layout.report.exists() else ""
    assert found == event
    host.memory.boot()
    saved = load_record(host.layout, KEY)
    assert saved
    assert conclude(host, Tool(host, KEY, saved)).ok


def test_a_disk_that_takes_no_report_does_not_stop_a_rollback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    host = MemoryHost(tmp_path, f"{NEW} crash")
    host.files.directory(host.layout.etc)
    write = host.files.write

    def full(path: Path, data: bytes, mode: int) -> None:
        if "upgrade_report" in path.name:
            raise OSError(28, "No space left on device")
        write(path, data, mode)

    monkeypatch.setattr(host.files, "write", full)
    record = Record(order=msgspec.structs.replace(host.order(), job=""))
    verdict = Tool(host, KEY, record).run()
    assert (verdict.code, verdict.ok) == ("RolledBack", True)
    assert host.memory.running == OLD


def test_after_an_upgrade_that_had_not_begun_nothing_is_rolled_back(
    edge: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """EdgeCore then calls `keadm rollback edge` all the same; the backup of an older version must not be restored."""
    host = edge(program(NEW))
    older = "v1.21.0"
    host.install(program(older))
    assert main(["backup", "edge", "--settings", settings(host)]) == 0
    host.install(program(OLD))
    assert main(["backup", "edge", "--settings", settings(host)]) == 0
    monkeypatch.setattr("modules.upgrader.tool.moving._control_group", lambda: "0::/system.slice/edgecore.service\n")
    assert main(["rollback", "edge", "--settings", settings(host)]) == 0
    assert f"edgecore is at {OLD}, as it was saved last; nothing to roll back." in capsys.readouterr().out
    assert (host.host.installed(), host.starts()) == (OLD, [OLD])
    assert host.report() == {"event": "Rollback", "success": True, "fromVersion": OLD, "toVersion": OLD}
    monkeypatch.setattr("modules.upgrader.tool.moving._control_group", lambda: "0::/user.slice/session-1.scope\n")
    assert main(["rollback", "edge", "--settings", settings(host)]) == 0
    assert host.host.installed() == older, "a person means the version before"
