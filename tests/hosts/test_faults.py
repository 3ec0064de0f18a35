"""What else can be wrong with a host or a new version: it is borne, said in a sentence, and leaves a host that runs."""

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from modules.upgrader.config import Config
from modules.upgrader.host.files import digest_of
from tests.hosts.running.cuts import at_rest, judged
from tests.hosts.running.edge import NEW, OLD, Edge
from tests.hosts.running.machine import wait_until
from tests.hosts.running.rounds import Rounds, fill, over, sound
from tests.hosts.running.stepping import Stepping
from tests.real.running.standins import Variant, standin

Make = Callable[..., Edge]
_ALL = os.environ.get("BEEHIVE_CUTS") == "all"


def taken_back(host: Edge, seconds: float = 60.0) -> str:
    """The reason of the rollback."""
    host.upgrade()
    record = host.until_verdict(seconds)
    assert record.verdict
    assert (record.verdict.step, record.verdict.ok) == ("RollBack", True), record
    assert host.running() == OLD
    assert digest_of(host.layout.executable) == digest_of(standin(OLD))
    assert not host.layout.lock.exists()
    return record.verdict.reason


# ---- the new version -----------------------------------------------------------------------------------------------


def test_a_crash_after_twenty_seconds_is_within_the_default_soak(edge: Make) -> None:
    host = edge(standin(NEW, Variant.DYING, lives="20s"), soak=Config().soak)
    reason = taken_back(host, 90)
    assert reason.startswith(f"{NEW} exited with code 1 after 20.")
    assert "out of memory" in reason
    assert host.starts() == [OLD, NEW, OLD]


def test_another_version_than_was_asked_for_is_taken_back(edge: Make) -> None:
    assert taken_back(edge(standin("v1.24.0"))) == f"edgecore runs v1.24.0, not {NEW}"


def test_one_that_finds_its_port_taken_is_taken_back_with_that_reason(edge: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        def listen(host: Edge) -> None:
            host.machine.path("/var/lib/kubeedge/listen").write_text(address)

        reason = taken_back(edge(standin(NEW, Variant.LISTENING), prepare=listen))
    assert f"listen tcp {address}: bind: address already in use" in reason


# ---- the old version -----------------------------------------------------------------------------------------------


def test_an_old_version_that_will_not_stop_is_killed(edge: Make) -> None:
    """It ignores SIGTERM, and its unit would let systemd wait for ever."""

    def patient(host: Edge) -> None:
        drop_in(host, "edgecore.service", "[Service]\nTimeoutStopSec=infinity\n")

    host = edge(standin(NEW), old=standin(OLD, Variant.HANGING), prepare=patient)
    host.upgrade()
    record = host.until_verdict()
    assert record.verdict
    assert record.verdict.ok
    assert host.running() == NEW
    assert host.starts() == [OLD, NEW]
    assert record.down >= host.config.stop_timeout


def drop_in(host: Edge, unit: str, text: str) -> None:
    place = host.machine.path(f"/etc/systemd/system/{unit}.d/test.conf")
    place.parent.mkdir(parents=True)
    place.write_text(text)


# ---- the disk ------------------------------------------------------------------------------------------------------


def test_a_disk_that_fills_up_at_any_write_leaves_a_host_that_runs(edge: Make) -> None:
    """From not a block to enough for all; every attempt ends by itself, and the next one finds a host as before."""
    host = edge(standin(NEW), soak=0.3)
    rounds, ends = Rounds(host), dict[int, str]()
    program = digest_blocks(standin(NEW))
    small = range(16) if _ALL else (0, 1, 2, 3, 5, 8)
    for leave in (*small, 24, program, program + 24, 2 * program + 8, 2 * program + 64):
        before, version = host.running(), rounds.ask()
        host.machine.run("rm", "-rf", "/etc/kubeedge/backup")
        filler = fill(host, leave)
        host.machine.say("systemctl", "start", host.unit)
        wait_until(lambda: over(host), f"the tool ends with {leave} blocks", 90, host.explain)
        runs = host.running()
        filler.unlink()
        if not (record := host.record()) or record.verdict is None:  # not even that could be written
            assert runs == before, f"with {leave} blocks {runs or 'nothing'} runs"
            host.machine.say("/usr/local/bin/keadm", "recover", "edge")
        wait_until(lambda: over(host), f"the attempt with {leave} blocks is settled", 60, host.explain)
        assert sound(host) == "", f"with {leave} blocks: {host.explain()}"
        ends[leave] = host.running()
        assert ends[leave] in (before, version)
        host.machine.run("systemctl", "reset-failed")
    assert ends[0] == OLD, "with no block at all nothing can have happened"
    assert NEW in ends.values(), f"in the end there was room for all: {host.explain()}"


def digest_blocks(program: Path) -> int:
    return -(-program.stat().st_size // 4096)


@pytest.mark.parametrize("moment", ["before _perform save", "before _perform swap", "after _perform swap"])
def test_a_disk_that_turns_read_only_leaves_a_target_that_runs(edge: Make, moment: str) -> None:
    """As ext4 does after an error of the disk (`errors=remount-ro`); then somebody turns the power off and on."""
    stepping = Stepping(moment)
    host = edge(standin(NEW), soak=0.3, prepare=stepping.share)
    subprocess.run(["mount", "-o", "remount,errors=remount-ro", str(host.machine.root)], check=True)
    host.machine.run("systemctl", "start", "--no-block", host.unit)
    stepping.wait(host)
    stepping.no_more()
    break_disk(host)
    stepping.go()
    wait_until(lambda: over(host), "the tool gives up", 120, host.explain)
    assert host.state("edgecore.service") in ("active", "activating"), "systemd tries to start it again and again"
    host.machine.pull_the_plug()
    host.machine.boot()
    wait_until(lambda: at_rest(host), "the end", 60, host.explain)
    assert judged(host, standin(NEW), standin(OLD)) in ("old", "new")


def break_disk(host: Edge) -> None:
    devices = subprocess.run(
        ["findmnt", "-n", "-o", "SOURCE", str(host.machine.root)], capture_output=True, text=True, check=True
    )
    Path(f"/sys/fs/ext4/{Path(devices.stdout.strip()).name}/trigger_fs_error").write_text("1")
    wait_until(lambda: host.machine.say("touch", "/etc/kubeedge/here").returncode, "the disk is read-only", 10)


def test_a_tmp_from_which_nothing_may_be_executed_is_no_matter(edge: Make) -> None:
    def mounted(host: Edge) -> None:
        drop_in(host, "beehive-edge.service", "[Unit]\nRequires=noexec.service\nAfter=noexec.service\n")
        host.machine.path("/etc/systemd/system/noexec.service").write_text(
            "[Service]\nType=oneshot\nRemainAfterExit=yes\n"
            "ExecStart=mount -t tmpfs -o noexec,nosuid,nodev tmpfs /tmp\n"
            "ExecStart=mount -t tmpfs -o noexec,nosuid,nodev tmpfs /var/tmp\n"
        )

    host = edge(standin(NEW), agent=True, prepare=mounted)
    assert "noexec" in host.machine.run("findmnt", "-n", "-o", "OPTIONS", "/tmp")
    wait_until(lambda: host.agent().attempt is None, "the agent has its final word", 90, host.explain)
    assert host.running() == NEW


# ---- many times ----------------------------------------------------------------------------------------------------


def test_many_upgrades_leave_no_more_than_one(edge: Make) -> None:
    """By default six to and fro; `BEEHIVE_UPGRADES=50` is the promise."""
    host = edge(standin(NEW), soak=0.2)
    rounds, many = Rounds(host), int(os.environ.get("BEEHIVE_UPGRADES", "6"))
    for _ in range(2):
        rounds.upgrade()
    before, units, bystander = used(host), unit_list(host), host.machine.show("bystander.service", "MainPID")
    for _ in range(many):
        rounds.upgrade()
    assert used(host) <= before + 8 * min(many, 20), "a record of 1 KB each, and never more than 20 of them"
    assert unit_list(host) == units
    assert host.machine.show("bystander.service", "MainPID") == bystander
    assert sound(host) == ""


def used(host: Edge) -> int:
    """KB of what is ours on the disk."""
    places = ("/etc/kubeedge", "/var/lib/beehive", "/usr/local", "/var/lib/kubeedge/edgecore.db")
    done = host.machine.run("du", "-skxc", *places)
    return int(done.splitlines()[-1].split()[0])


def unit_list(host: Edge) -> set[str]:
    """Names of all units that systemd knows, but for what comes and goes by itself."""
    listed = host.machine.run("systemctl", "list-units", "--all", "--plain", "--no-legend").splitlines()
    return {name for line in listed if (name := line.split()[0]).partition(".")[2] in ("service", "timer", "path")}


# ---- no systemd ----------------------------------------------------------------------------------------------------


def test_without_systemd_the_tool_says_what_to_set_and_changes_nothing(edge: Make) -> None:
    host = edge(standin(NEW))
    host.machine.shut_down()
    before = host.starts()
    done = host.machine.alone("/usr/local/bin/keadm", "upgrade", "edge", "--toVersion", NEW, "--force")
    assert done.returncode == 1
    assert "set upgrader.serviceManager to process" in done.stderr
    assert "Traceback" not in done.stderr
    assert digest_of(host.layout.executable) == digest_of(standin(OLD))
    assert host.starts() == before
    assert not host.layout.lock.exists()


def test_without_systemd_it_upgrades_and_rolls_back_by_processes(edge: Make) -> None:
    host = edge(standin(NEW))
    host.machine.shut_down()
    settings = host.machine.mount() / "etc/beehive/edge.yaml"
    settings.write_text(settings.read_text().replace('"upgrader": {', '"upgrader": {"serviceManager": "process", '))
    script = "keadm upgrade edge --toVersion $0 --force && edgecore --version && keadm rollback edge"
    done = host.machine.alone("/bin/sh", "-c", script, NEW)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith(("edgecore is", "KubeEdge", "Rolled"))]
    assert said[:2] == [f"edgecore is upgraded: {OLD} → {NEW}.", f"KubeEdge {NEW}"]
    assert digest_of(host.layout.executable) == digest_of(standin(OLD))
    assert host.starts() == [OLD, NEW, OLD]
    assert not host.layout.lock.exists()


# ---- clocks --------------------------------------------------------------------------------------------------------

_A_YEAR = 366 * 86400.0


@pytest.mark.parametrize("jump", ["on from 1970", "back to 1970", "a year on", "a year back"])
def test_a_clock_that_stands_in_1970_or_jumps_changes_nothing(edge: Make, jump: str) -> None:
    """The jump comes while the target stands still."""
    stepping, year_1970 = Stepping("before _perform start"), 60.0 - time.time()
    first, then = {
        "on from 1970": (year_1970, 0.0),
        "back to 1970": (0.0, year_1970),
        "a year on": (0.0, _A_YEAR),
        "a year back": (_A_YEAR, 0.0),
    }[jump]

    def clock(host: Edge) -> None:
        stepping.share(host)
        stepping.clock(first)
        drop_in(host, "beehive-edge.service", "[Service]\nReadWritePaths=/cut\n")

    host = edge(standin(NEW), agent=True, prepare=clock)
    stepping.wait(host)
    record = host.record()
    assert record
    assert record.began == pytest.approx(time.time() + first, abs=120), "the tool's clock is that one"
    stepping.no_more()
    stepping.clock(then)
    stepping.go()
    wait_until(lambda: host.agent().attempt is None, "the agent has its final word", 90, host.explain)
    assert host.running() == NEW
    record = host.record()
    assert record
    assert record.verdict
    assert (record.verdict.step, record.verdict.ok) == ("Upgrade", True)
    assert 0 < record.down < 60, "measured by a clock that cannot jump"
