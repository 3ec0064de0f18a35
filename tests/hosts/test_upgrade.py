"""A real service upgraded on a booted systemd by the shipped units: a good version stays, a bad one is taken back."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from modules.upgrader.host.files import digest_of
from modules.upgrader.tool.record import Record
from tests.hosts.running.edge import NEW, OLD, UNIT, Edge
from tests.hosts.running.machine import wait_until
from tests.real.running.standins import Variant, standin

Make = Callable[..., Edge]
_SEEN = ("MainPID", "NRestarts", "InvocationID", "ActiveState")


def upgraded(host: Edge) -> Record:
    """The record of the attempt after its verdict; nobody else was touched, nothing is left."""
    assert host.running() == OLD
    before, boot = host.machine.show("bystander.service", *_SEEN), host.machine.run("who", "-b")
    host.upgrade()
    record = host.until_verdict()
    assert host.machine.show("bystander.service", *_SEEN) == before
    assert host.machine.run("who", "-b") == boot
    assert host.state(UNIT) == "inactive"
    assert not host.layout.lock.exists()
    assert host.machine.run("systemctl", "--failed", "--plain", "--no-legend") == ""
    return record


def taken_back(host: Edge, record: Record) -> str:
    """The reason, after everything else of a rollback has been looked at."""
    assert record.verdict
    assert (record.verdict.step, record.verdict.ok, record.verdict.code) == ("RollBack", True, "RolledBack"), record
    assert host.running() == OLD
    assert digest_of(host.layout.executable) == digest_of(standin(OLD))
    assert schema(host) == 8
    report = host.report()
    assert (report["event"], report["success"]) == ("Rollback", True)
    assert (report["fromVersion"], report["toVersion"]) == (NEW, OLD)
    assert report["errorMessage"] == record.verdict.reason
    return record.verdict.reason


def schema(host: Edge) -> int:
    database = sqlite3.connect(f"file:{host.layout.database}?mode=ro", uri=True)
    try:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return int(database.execute("PRAGMA user_version").fetchone()[0])
    finally:
        database.close()


def test_a_good_version_is_installed_and_stays_up(edge: Make) -> None:
    host = edge(standin(NEW))
    record = upgraded(host)
    assert record.verdict
    assert (record.verdict.step, record.verdict.ok) == ("Upgrade", True), record
    assert host.running() == NEW
    assert host.starts() == [OLD, NEW]
    assert digest_of(host.layout.executable) == digest_of(standin(NEW))
    assert host.report() == {"event": "Upgrade", "success": True, "fromVersion": OLD, "toVersion": NEW}
    assert record.down < 3, f"the target was down for {record.down:.1f} s"


def test_one_that_crashes_at_start_is_taken_back_at_once(edge: Make) -> None:
    host = edge(standin(NEW, Variant.CRASHING))
    record = upgraded(host)
    reason = taken_back(host, record)
    assert reason.startswith(f"{NEW} exited with code 1 after 0.")
    assert "nil pointer" in reason
    assert host.starts() == [OLD, NEW, OLD], "systemd was not given the time to start it again"


def test_one_that_dies_after_a_while_is_taken_back(edge: Make) -> None:
    host = edge(standin(NEW, Variant.DYING, lives="700ms"), soak=2.0)
    reason = taken_back(host, upgraded(host))
    assert reason.startswith(f"{NEW} exited with code 1 after 0.")
    assert "out of memory" in reason
    assert host.starts() == [OLD, NEW, OLD]


def test_one_that_hangs_in_its_start_and_ignores_sigterm_is_taken_back(edge: Make) -> None:
    host = edge(standin(NEW, Variant.HANGING), kind="notify")
    reason = taken_back(host, upgraded(host))
    assert "timed out" in reason or "timeout" in reason, reason
    assert host.starts()[0] == OLD
    assert host.starts()[-1] == OLD


def test_one_that_lies_about_its_version_is_taken_back(edge: Make) -> None:
    host = edge(standin(NEW, Variant.LYING))
    assert taken_back(host, upgraded(host)) == f"edgecore runs v0.0.0-lie, not {NEW}"


def test_data_that_the_new_version_migrated_are_put_back(edge: Make, tmp_path: Path) -> None:
    old = standin(OLD, schema=8)
    host = edge(standin(NEW, Variant.MIGRATING, schema=9), old=old)
    host.upgrade()
    assert host.until_verdict().verdict
    assert schema(host) == 9
    back = host.machine.say("/usr/local/bin/keadm", "rollback", "edge", timeout=120)
    assert back.returncode == 0, back.stderr + host.explain()
    assert host.running() == OLD
    assert schema(host) == 8


def test_the_tools_unit_names_what_is_wrong_when_there_is_no_request(edge: Make) -> None:
    host = edge(standin(NEW))
    host.layout.request("6b1f2c34-0").unlink()
    host.machine.run("systemctl", "start", UNIT)
    wait_until(lambda: host.state(UNIT) == "failed", "the tool gives up", seen=host.explain)
    assert "cannot be read: No such file or directory" in host.machine.journal("-u", UNIT)
    assert host.machine.show(UNIT, "NRestarts") == {"NRestarts": "0"}, "starting it again would change nothing"
    assert host.running() == OLD
