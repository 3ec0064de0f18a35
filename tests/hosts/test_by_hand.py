"""`keadm` called by a person or by EdgeCore on a systemd host: it moves into its own unit, and outlives its caller."""

from collections.abc import Callable

from tests.hosts.running.edge import NEW, OLD, Edge
from tests.hosts.running.machine import wait_until
from tests.real.running.standins import Variant, standin

Make = Callable[..., Edge]
KEADM = "/usr/local/bin/keadm"
UPGRADE = (KEADM, "upgrade", "edge", "--toVersion", NEW, "--force")


def test_a_person_has_the_exit_code_and_the_unit_has_the_work(edge: Make) -> None:
    host = edge(standin(NEW), agent=True)
    host.machine.run("systemctl", "stop", "beehive-edge")
    done = host.machine.say(*UPGRADE, timeout=90)
    assert done.returncode == 0, done.stderr + host.explain()
    assert "Goes on in beehive-tool@" in done.stdout
    assert f"edgecore is upgraded: {OLD} → {NEW}." in done.stdout
    assert host.running() == NEW
    back = host.machine.say(KEADM, "rollback", "edge", timeout=90)
    assert back.returncode == 0, back.stderr + host.explain()
    assert host.running() == OLD
    assert not host.layout.lock.exists()


def test_a_rolled_back_upgrade_is_exit_code_1_with_the_reason(edge: Make) -> None:
    host = edge(standin(NEW, Variant.CRASHING), agent=True)
    host.machine.run("systemctl", "stop", "beehive-edge")
    done = host.machine.say(*UPGRADE, timeout=90)
    assert done.returncode == 1
    assert "nil pointer" in done.stderr
    assert host.running() == OLD


def test_it_outlives_who_called_it(edge: Make) -> None:
    """A real EdgeCore calls it as its child and is then stopped, with its whole cgroup unless `KillMode=process`."""
    host = edge(standin(NEW), agent=True, soak=2.0)
    host.machine.run("systemctl", "stop", "beehive-edge")
    caller = host.machine.begin(*UPGRADE)
    try:
        wait_until(lambda: NEW in host.starts(), "the new version's start", 60, host.explain)
    finally:
        caller.kill()
        caller.wait()
    units = host.machine.run("systemctl", "list-units", "beehive-tool@*", "--plain", "--no-legend").split()
    assert "active" in units, "the tool is at work in its own unit"
    wait_until(host.layout.report.exists, "the upgrade ends all the same", 60, host.explain)
    assert host.report() == {"event": "Upgrade", "success": True, "fromVersion": OLD, "toVersion": NEW}
    assert host.running() == NEW
