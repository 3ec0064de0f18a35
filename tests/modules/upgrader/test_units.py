"""The service's unit: saved with drop-ins and enablement, put back by a rollback (spec/kubeedge.md K2, K9)."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from modules.upgrader.host.backup import load_backup
from modules.upgrader.host.layout import MANIFEST
from modules.upgrader.host.systemd import read_unit
from modules.upgrader.tool.attempts import conclude
from modules.upgrader.tool.orders import rollback
from modules.upgrader.tool.phases import Phase
from modules.upgrader.tool.record import Record, load_record
from modules.upgrader.tool.recovery import at_boot
from modules.upgrader.tool.work import Tool
from tests.fakes.memory_host import NEW, OLD, Killed, MemoryHost

GOOD, CRASHING = f"{NEW} good", f"{NEW} crash"
KEY = "6b1f-0"
UNITS = "etc/systemd/system"
UNIT = f"{UNITS}/edgecore.service"
DROP_IN = f"{UNIT}.d/10-limits.conf"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    caplog.set_level("CRITICAL", logger="beehive.tool")


def host_with_unit(root: Path, new: str = GOOD) -> MemoryHost:
    host = MemoryHost(root, new)
    host.files.directory(host.layout.etc)
    for name, text in ((UNIT, "[Service]\nExecStart=edgecore\n"), (DROP_IN, "[Service]\nLimitNOFILE=7\n")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return host


def meddling(host: MemoryHost, root: Path) -> None:
    """What the start of the new version does to its unit, as KubeEdge's own keadm may."""
    boot = host.memory.boot

    def meddle() -> None:
        if host.installed() == NEW:
            (root / UNIT).write_text("[Service]\nExecStart=other\n")
            (root / DROP_IN).unlink(missing_ok=True)
            (root / f"{UNIT}.d/99-new.conf").write_text("[Service]\nUser=nobody\n")
            host.memory.enablement = "disabled"
        boot()

    host.memory.boot = meddle  # type: ignore[method-assign]


def assert_as_before(host: MemoryHost, root: Path) -> None:
    assert (root / UNIT).read_text() == "[Service]\nExecStart=edgecore\n"
    assert [path.name for path in (root / f"{UNIT}.d").glob("*.conf")] == ["10-limits.conf"]
    assert (root / DROP_IN).read_text() == "[Service]\nLimitNOFILE=7\n"
    assert host.memory.enablement == "enabled"


def run(host: MemoryHost, record: Record | None = None) -> str:
    verdict = conclude(host, Tool(host, KEY, load_record(host.layout, KEY) or record or host.record()))
    assert verdict.ok, verdict
    return verdict.step


def test_a_backup_holds_unit_drop_ins_and_enablement(tmp_path: Path) -> None:
    host = host_with_unit(tmp_path)
    host.back_up(OLD)
    backup = load_backup(host.layout, OLD)
    assert backup.enablement == "enabled"
    saved = {file.name: file.origin for file in backup.files if file.role == "unit"}
    assert saved == {"edgecore.service": f"/{UNIT}", "edgecore.service.d-10-limits.conf": f"/{DROP_IN}"}
    assert (host.layout.backup(OLD) / "edgecore.service").read_text() == (tmp_path / UNIT).read_text()


def test_a_rollback_puts_the_unit_back_before_it_starts_the_old_version(tmp_path: Path) -> None:
    host = host_with_unit(tmp_path, CRASHING)
    meddling(host, tmp_path)
    assert run(host) == "RollBack"
    assert_as_before(host, tmp_path)
    steps = host.disk.steps
    assert steps.count("reload") == 1
    last_start = len(steps) - 1 - steps[::-1].index("start edgecore")
    assert steps.index("rename edgecore.service") < steps.index("reload") < last_start
    assert steps.index("enable edgecore") < last_start
    assert (tmp_path / f"{UNIT}.d/99-new.conf.failed").exists(), "what somebody wrote is not lost"


def test_an_upgrade_leaves_the_unit_alone(tmp_path: Path) -> None:
    host = host_with_unit(tmp_path)
    assert run(host) == "Upgrade"
    assert_as_before(host, tmp_path)
    assert not {"reload", "enable edgecore", "disable edgecore"} & set(host.disk.steps)


def test_a_rollback_that_changes_no_unit_reloads_nothing(tmp_path: Path) -> None:
    host = host_with_unit(tmp_path, CRASHING)
    assert run(host) == "RollBack"
    assert "reload" not in host.disk.steps


@pytest.mark.parametrize("now", ["enabled", "disabled"])
def test_a_service_that_was_not_started_at_boot_is_not_afterwards(tmp_path: Path, now: str) -> None:
    host = host_with_unit(tmp_path)
    host.memory.enablement = "disabled"
    host.back_up(OLD)
    host.memory.enablement = now
    assert run(host, Record(order=rollback(host, "6b1f", NEW, OLD))) == "RollBack"
    assert host.memory.enablement == "disabled"


def test_an_operators_rollback_leaves_drop_ins_of_others(tmp_path: Path) -> None:
    """They may have been written since, by people, and are no part of what goes wrong."""
    host = host_with_unit(tmp_path)
    host.back_up(OLD)
    mine = tmp_path / f"{UNIT}.d/50-mine.conf"
    mine.write_text("[Service]\n")
    assert run(host, Record(order=rollback(host, "6b1f", NEW, OLD))) == "RollBack"
    assert mine.exists()


@pytest.mark.parametrize("origin", ["/etc/passwd", "/etc/systemd/system/../../passwd", "/etc/systemd/systemd.service"])
def test_a_backup_cannot_write_a_unit_elsewhere(tmp_path: Path, origin: str) -> None:
    host = host_with_unit(tmp_path)
    host.back_up(OLD)
    manifest = host.layout.backup(OLD) / MANIFEST
    text = json.loads(manifest.read_bytes())
    (unit,) = [file for file in text["files"] if file["name"] == "edgecore.service"]
    unit["origin"] = origin
    manifest.write_text(json.dumps(text))
    verdict = conclude(host, Tool(host, KEY, Record(order=rollback(host, "6b1f", NEW, OLD))))
    assert not verdict.ok
    assert "where no unit belongs" in verdict.reason
    assert not (tmp_path / "etc/passwd").exists()
    assert host.memory.running == OLD, "all else is put back"


@pytest.mark.parametrize(
    "edit",
    [
        lambda root: (root / "etc/kubeedge/config/edgecore.yaml").write_text("kind: EdgeCore # edited\n"),
        lambda root: (root / UNIT).write_text("[Service]\nExecStart=edgecore --edited\n"),
        lambda root: (root / DROP_IN).unlink(),
    ],
)
def test_what_was_edited_since_the_last_backup_survives_a_failed_upgrade(
    tmp_path: Path, edit: Callable[[Path], object]
) -> None:
    host = host_with_unit(tmp_path, CRASHING)
    host.back_up(OLD)
    edit(tmp_path)
    files = ("etc/kubeedge/config/edgecore.yaml", UNIT, DROP_IN)
    before = {name: (tmp_path / name).read_text() if (tmp_path / name).exists() else "" for name in files}
    meddling(host, tmp_path)
    assert run(host) == "RollBack"
    after = {name: (tmp_path / name).read_text() if (tmp_path / name).exists() else "" for name in files}
    assert after == before


def test_the_tool_that_an_image_brought_is_taken_back_too(tmp_path: Path) -> None:
    """A real EdgeCore overwrites `/usr/local/bin/keadm` in its check; the backup of before has the right one."""
    host = host_with_unit(tmp_path)
    host.layout.keadm.write_text("keadm of before")
    host.layout.keadm.chmod(0o755)
    host.back_up(OLD)
    host.layout.keadm.write_text("keadm of the image")
    assert run(host, Record(order=rollback(host, "6b1f", NEW, OLD))) == "RollBack"
    assert host.layout.keadm.read_text() == "keadm of before"
    assert host.layout.keadm.stat().st_mode & 0o777 == 0o755


def test_the_boot_puts_the_unit_back_too(tmp_path: Path) -> None:
    host = host_with_unit(tmp_path, CRASHING)
    meddling(host, tmp_path)

    class Cut(Tool):
        def save(self) -> None:
            super().save()
            if self.record.phase is Phase.UNDO_RESTORE:
                raise Killed

    with pytest.raises(Killed):
        Cut(host, KEY, host.record()).run()
    host.memory.running = ""
    at_boot(host)
    assert_as_before(host, tmp_path)
    assert "reload" in host.disk.steps
    host.memory.boot()
    assert run(host) == "RollBack"


def test_what_systemctl_shows_is_read() -> None:
    text = (
        "ExecStart={ path=/usr/bin/edgecore ; argv[]=/usr/bin/edgecore --config /etc/x ; ignore_errors=no ; pid=0 }\n"
        "FragmentPath=/etc/systemd/system/edgecore.service\nUnitFileState=enabled\n"
        "DropInPaths=/etc/systemd/system/edgecore.service.d/a.conf /run/systemd/system/edgecore.service.d/50-x.conf\n"
    )
    unit = read_unit(text)
    assert unit.files == ("/etc/systemd/system/edgecore.service", "/etc/systemd/system/edgecore.service.d/a.conf")
    assert (unit.enablement, unit.starts) == ("enabled", "/usr/bin/edgecore")
    assert msgspec.structs.astuple(read_unit("FragmentPath=\nUnitFileState=\nDropInPaths=\n")) == ((), "", "")
