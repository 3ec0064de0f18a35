"""The service manager's contract on a booted systemd: run by pytest inside a test host, never outside."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.upgrader.host.service import Service, ServiceManager
from modules.upgrader.host.systemd import SystemdServices
from tests.fakes.edge_host import until
from tests.modules.upgrader.test_service_managers import Contract, script

_UNITS = Path("/run/systemd/system")


class UnitWriting(SystemdServices):
    """Writes the unit that a service's `argv` asks for; otherwise the product's own."""

    extra = ""

    def start(self, service: Service) -> None:
        unit = _UNITS / f"{service.name}.service"
        if service.argv and not unit.exists():
            command = " ".join(f'"{word}"' for word in service.argv)
            unit.write_text(f"[Service]\nType=exec\nExecStart={command}\n{self.extra}")
            subprocess.run(["systemctl", "daemon-reload"], check=True)
        super().start(service)


class TestSystemdServices(Contract):
    @pytest.fixture
    def manager(self) -> Iterator[UnitWriting]:
        _UNITS.mkdir(exist_ok=True)
        before = set(_UNITS.glob("*.service"))
        yield UnitWriting(start_timeout=5, stop_timeout=0.5)
        for unit in set(_UNITS.glob("*.service")) - before:
            subprocess.run(["systemctl", "kill", "-s", "KILL", unit.name], check=False)
            subprocess.run(["systemctl", "stop", unit.name], check=False)
            unit.unlink()
            subprocess.run(["systemctl", "reset-failed", unit.name], check=False, capture_output=True)
        subprocess.run(["systemctl", "daemon-reload"], check=True)

    def test_one_that_systemd_will_start_again_later_has_ended_for_now(
        self, manager: UnitWriting, tmp_path: Path
    ) -> None:
        """`Restart=always` with its pause: the unit is "activating", and nobody must wait out the pause to know."""
        manager.extra = "Restart=always\nRestartSec=60\n"
        service = Service("again", (str(script(tmp_path, "echo 'last words'\nexit 7")),))
        manager.start(service)
        until(lambda: manager.status(service).exit_code == 7, "the end is seen")
        status = manager.status(service)
        assert (status.pid, status.restarts) == (0, 0)
        assert manager.log_tail(service, 1) == ["last words"]
        manager.stop(service)
        assert not manager.status(service).active

    def test_restarts_are_counted_since_somebody_started_it(self, manager: UnitWriting, tmp_path: Path) -> None:
        manager.extra = "Restart=always\nRestartSec=0\nStartLimitBurst=100\n"
        service = Service("dies", (str(script(tmp_path, "sleep 0.1\nexit 1")),))
        manager.start(service)
        until(lambda: manager.status(service).restarts >= 2, "two restarts")
        manager.stop(service)
        manager.start(service)
        assert manager.status(service).restarts == 0
        manager.stop(service)

    def test_one_that_failed_too_often_can_be_started_all_the_same(self, manager: UnitWriting, tmp_path: Path) -> None:
        service = Service("limited", (str(script(tmp_path, "exit 1")),))
        for _ in range(8):  # systemd's own limit is five within ten seconds
            manager.start(service)
            until(lambda: not manager.status(service).active, "the end")
        assert manager.status(service).exit_code == 1

    def test_a_launch_does_not_wait_for_what_must_come_before(self, manager: UnitWriting, tmp_path: Path) -> None:
        first = _UNITS / "first.service"
        first.write_text("[Service]\nType=oneshot\nExecStart=/bin/sleep 60\n")
        later = _UNITS / "later.service"
        later.write_text("[Unit]\nAfter=first.service\n[Service]\nExecStart=/bin/sleep 60\n")
        subprocess.run(["systemctl", "daemon-reload"], check=True)
        subprocess.run(["systemctl", "start", "--no-block", "first"], check=True)
        manager.launch(Service("later"))
        assert not manager.status(Service("later")).active
        subprocess.run(["systemctl", "stop", "first"], check=True)
        until(lambda: manager.status(Service("later")).active, "its turn")


def test_the_manager_is_one(tmp_path: Path) -> None:
    manager: ServiceManager = SystemdServices(start_timeout=1, stop_timeout=1)
    assert not manager.status(Service("nobody")).active
