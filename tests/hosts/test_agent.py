"""The agent as it is shipped, without a cloud in reach: it ends what it was told, whoever is killed meanwhile."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from beehive.messages.tasks import TaskReport
from tests.hosts.running.edge import NEW, OLD, UNIT, Edge
from tests.hosts.running.machine import wait_until
from tests.real.running.standins import Variant, standin

Make = Callable[..., Edge]
AGENT = "beehive-edge.service"


def final_word(host: Edge) -> TaskReport:
    """The agent's one report of the attempt's end."""
    wait_until(lambda: host.agent().attempt is None, "the agent has its final word", 90, host.explain)
    (kept,) = host.agent().finished
    assert kept.report.final
    return kept.report


def owned(host: Edge) -> list[Path]:
    layout = host.layout
    assert layout.database
    return [layout.database, layout.executable]


def give_away(host: Edge) -> None:
    for place in owned(host):
        os.chown(place, 1234, 1235)
        place.chmod(0o640 if place.suffix else 0o755)


def access(place: Path) -> tuple[int, int, int]:
    found = place.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


def test_it_checks_backs_up_and_upgrades_with_no_more_power_than_its_unit_gives(edge: Make) -> None:
    host = edge(standin(NEW), agent=True)
    report = final_word(host)
    assert [(one.action, one.status) for one in report.results] == [
        ("Check", "True"),
        ("BackUp", "True"),
        ("Upgrade", "True"),
    ]
    assert host.running() == NEW
    assert host.starts() == [OLD, NEW]
    assert host.machine.show(AGENT, "NRestarts", "Type", "WatchdogUSec") == {
        "NRestarts": "0",
        "Type": "notify",
        "WatchdogUSec": "1min",
    }
    assert "not permitted" not in host.machine.journal("-u", AGENT)
    assert "not supported" not in host.machine.journal("-u", AGENT), "it hears of changed routes"


def test_it_reports_a_rollback_with_the_reason(edge: Make) -> None:
    """Data stay their owner's, though the agent that saved them could not give a file away."""
    host = edge(standin(NEW, Variant.CRASHING), agent=True, prepare=give_away)
    report = final_word(host)
    assert [access(place) for place in owned(host)] == [(1234, 1235, 0o640), (1234, 1235, 0o755)]
    assert [one.action for one in report.results] == ["Check", "BackUp", "Upgrade", "RollBack"]
    assert "nil pointer" in report.results[2].reason + report.results[3].reason
    assert host.running() == OLD


def test_an_agent_that_hangs_is_ended_and_started_anew(edge: Make) -> None:
    """It stands still, as one does whose event loop is held; one that only waits for its cloud is left alone."""

    def short(host: Edge) -> None:
        place = host.machine.path(f"/etc/systemd/system/{AGENT}.d/short.conf")
        place.parent.mkdir()
        place.write_text("[Service]\nWatchdogSec=5\nRestartSec=0.2\n")

    host = edge(standin(NEW), agent=True, prepare=short)
    final_word(host)
    before = host.machine.show(AGENT, "MainPID", "NRestarts")
    assert before["NRestarts"] == "0"
    host.machine.run("systemctl", "kill", "--kill-whom=main", "--signal=SIGSTOP", AGENT)
    wait_until(
        lambda: host.machine.show(AGENT, "NRestarts")["NRestarts"] == "1", "it is started anew", 60, host.explain
    )
    wait_until(lambda: host.state(AGENT) == "active", "it is ready again", 60, host.explain)
    assert host.machine.show(AGENT, "MainPID")["MainPID"] != before["MainPID"]
    assert "Watchdog timeout" in host.machine.journal("-u", AGENT)
    assert host.running() == NEW


def test_it_cannot_replace_a_program_itself(edge: Make) -> None:
    """The power is the tool's: the agent's unit sees /usr and /etc read-only."""
    host = edge(standin(NEW), agent=True)
    final_word(host)
    pid = host.machine.show(AGENT, "MainPID")["MainPID"]
    touch = ("nsenter", "-t", pid, "-m", "/usr/bin/touch")
    done = host.machine.say(*touch, "/usr/local/bin/mine", "/etc/systemd/system/mine.service", "/etc/passwd")
    assert done.returncode == 1
    assert done.stderr.count("Read-only file system") == 3, done.stderr
    assert host.machine.say(*touch, "/etc/kubeedge/mine").returncode == 0
    capabilities = (host.machine.run("grep", "CapBnd", f"/proc/{pid}/status")).split()[1]
    assert int(capabilities, 16) < 1 << 21, "neither CAP_SYS_ADMIN nor what comes after it"


@pytest.mark.parametrize("killed", [(AGENT,), (UNIT,), (AGENT, UNIT)], ids=["agent", "tool", "both"])
def test_whoever_is_killed_somebody_brings_it_to_its_end(edge: Make, killed: tuple[str, ...]) -> None:
    host = edge(standin(NEW), agent=True, soak=3.0)
    wait_until(lambda: host.starts() == [OLD, NEW], "the new version's start", 60, host.explain)
    for unit in killed:
        host.machine.kill_main(unit)
    report = final_word(host)
    assert [(one.action, one.status) for one in report.results] == [
        ("Check", "True"),
        ("BackUp", "True"),
        ("Upgrade", "True"),
    ]
    assert host.running() == NEW
    assert host.starts() == [OLD, NEW], "the new version was not started twice"
    assert host.state(AGENT) == "active"
    if UNIT in killed:
        record = host.record()
        assert record
        assert record.starts == 2
    if AGENT in killed:
        assert host.machine.show(AGENT, "NRestarts") == {"NRestarts": "1"}
