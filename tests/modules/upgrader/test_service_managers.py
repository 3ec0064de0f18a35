"""The service manager's contract; the process manager is held to it here, systemd by the same class when booted."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.errors import Unavailable
from modules.upgrader.host import keeper
from modules.upgrader.host.process import ProcessServices
from modules.upgrader.host.service import Service, ServiceManager, ended
from tests.fakes.edge_host import until


def script(folder: Path, text: str) -> Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


STAYS = "trap 'exit 0' TERM\nwhile :; do sleep 60 & wait $!; done"


class Contract:
    """What both managers promise. `manager` is empty-handed, `service(text)` makes a service from a shell script."""

    def test_an_unknown_service_is_not_active_and_stopping_it_is_nothing(self, manager: ServiceManager) -> None:
        service = Service("nobody")
        assert not manager.status(service).active
        assert manager.status(service).exit_code is None
        manager.stop(service)

    def test_start_runs_it_once_and_stop_ends_it(self, manager: ServiceManager, tmp_path: Path) -> None:
        service = Service("good", (str(script(tmp_path, STAYS)),))
        manager.start(service)
        first = manager.status(service)
        assert first.active
        assert first.pid > 0
        os.kill(first.pid, 0)
        manager.start(service)
        assert manager.status(service).pid == first.pid, "starting what is active changes nothing"
        manager.stop(service)
        assert not manager.status(service).active
        with pytest.raises(ProcessLookupError):
            os.kill(first.pid, 0)

    def test_each_start_has_a_name_of_its_own(self, manager: ServiceManager, tmp_path: Path) -> None:
        service = Service("named", (str(script(tmp_path, STAYS)),))
        manager.start(service)
        first = manager.status(service).run
        assert first
        manager.stop(service)
        assert manager.status(service).run in (first, ""), "systemd forgets a unit that nothing wants"
        manager.start(service)
        assert manager.status(service).run not in ("", first)
        manager.stop(service)

    def test_a_crash_is_known_with_its_code_and_its_time(self, manager: ServiceManager, tmp_path: Path) -> None:
        service = Service("crash", (str(script(tmp_path, "echo first\necho 'last words' >&2\nsleep 0.2\nexit 7")),))
        manager.start(service)
        until(lambda: not manager.status(service).active, "the end")
        status = manager.status(service)
        assert (status.exit_code, status.signal) == (7, 0)
        assert status.lasted is not None
        assert 0.1 < status.lasted < 5
        assert manager.log_tail(service, 1) == ["last words"]
        assert ended(status).startswith("exited with code 7 after 0.")

    def test_a_signal_is_told_from_a_code(self, manager: ServiceManager, tmp_path: Path) -> None:
        service = Service("shot", (str(script(tmp_path, STAYS)),))
        manager.start(service)
        os.kill(manager.status(service).pid, signal.SIGKILL)
        until(lambda: not manager.status(service).active, "the end")
        assert (manager.status(service).exit_code, manager.status(service).signal) == (None, signal.SIGKILL)
        assert "was ended by SIGKILL" in ended(manager.status(service))

    def test_who_ignores_the_polite_signal_is_killed(self, manager: ServiceManager, tmp_path: Path) -> None:
        service = Service("stubborn", (str(script(tmp_path, "trap '' TERM\necho up\nwhile :; do sleep 60; done")),))
        manager.start(service)
        until(lambda: manager.log_tail(service, 5) == ["up"], "its first line")
        manager.stop(service)
        assert not manager.status(service).active

    def test_the_log_tail_begins_with_the_last_start(self, manager: ServiceManager, tmp_path: Path) -> None:
        service = Service("talks", (str(script(tmp_path, f"echo run $$\n{STAYS}")),))
        manager.start(service)
        until(lambda: manager.log_tail(service, 5), "its first line")
        before = manager.log_tail(service, 5)
        manager.stop(service)
        manager.start(service)
        until(lambda: manager.log_tail(service, 5) not in ([], before), "its line of the second run")
        assert len(manager.log_tail(service, 5)) == 1
        manager.stop(service)

    def test_what_cannot_be_started_says_why(self, manager: ServiceManager, tmp_path: Path) -> None:
        with pytest.raises(Unavailable, match="No such file or directory"):
            manager.start(Service("absent", (str(tmp_path / "absent"),)))
        assert not manager.status(Service("absent")).active


class TestProcessServices(Contract):
    @pytest.fixture
    def manager(self, tmp_path: Path) -> Iterator[ServiceManager]:
        services = ProcessServices(tmp_path / "running", tmp_path / "logs", stop_timeout=0.5)
        yield services
        for spec in (tmp_path / "running").glob("*.spec"):
            services.stop(Service(spec.stem))

    def test_it_outlives_who_started_it(self, manager: ServiceManager, tmp_path: Path) -> None:
        program = script(tmp_path, STAYS)
        starting = (
            "import sys; from pathlib import Path; from modules.upgrader.host.process import *;"
            "ProcessServices(Path(sys.argv[1]), Path(sys.argv[2]), stop_timeout=1).start(Service('x', (sys.argv[3],)))"
        )
        environment = os.environ | {"PYTHONPATH": str(Path.cwd())}
        arguments = (str(tmp_path / "running"), str(tmp_path / "logs"), str(program))
        subprocess.run([sys.executable, "-c", starting, *arguments], check=True, env=environment, timeout=30)
        status = manager.status(Service("x"))
        assert status.active
        assert os.getsid(status.pid) != os.getsid(0), "its own session: no terminal's and no agent's end takes it along"

    def test_a_reused_pid_is_not_taken_for_the_service(self, manager: ServiceManager, tmp_path: Path) -> None:
        service = Service("reused", (str(script(tmp_path, STAYS)),))
        manager.start(service)
        manager.stop(service)
        stranger = subprocess.Popen(["/bin/sleep", "60"])
        try:
            state = tmp_path / "running" / "reused.json"
            ticks = keeper.start_ticks(stranger.pid)
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            state.write_text(f'{{"pid": {stranger.pid}, "ticks": {ticks + 1}, "boot": "{boot}"}}')
            assert not manager.status(service).active
            manager.stop(service)
            assert stranger.poll() is None, "a stranger with the same pid is left alone"
            state.write_text(f'{{"pid": {stranger.pid}, "ticks": {ticks}, "boot": "another boot"}}')
            assert not manager.status(service).active
            state.write_text(f'{{"pid": {stranger.pid}, "ticks": {ticks}, "boot": "{boot}"}}')
            assert manager.status(service).active, "the test's own state is one that counts"
        finally:
            state.unlink()
            stranger.kill()
            stranger.wait()

    def test_a_killed_keeper_leaves_a_service_that_can_be_seen_and_stopped(
        self, manager: ServiceManager, tmp_path: Path
    ) -> None:
        service = Service("orphan", (str(script(tmp_path, STAYS)),))
        manager.start(service)
        pid = manager.status(service).pid
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
        assert manager.status(service).pid == pid
        manager.stop(service)
        assert not manager.status(service).active
        assert manager.status(service).exit_code is None, "nobody saw how it ended, and nobody says otherwise"

    @pytest.mark.parametrize(("code", "runs"), [("kill -9 $$", 3), ("exit 9", 3), ("exit 1", 1), ("exit 3", 1)])
    def test_what_was_killed_is_started_again_what_has_spoken_is_not(
        self, manager: ServiceManager, tmp_path: Path, code: str, runs: int
    ) -> None:
        log = tmp_path / "runs"
        service = Service("tool", (str(script(tmp_path, f"echo x >> {log}\n{code}")),), restarts=2)
        manager.start(service)
        until(lambda: not manager.status(service).active, "the last end")
        assert len(log.read_text().splitlines()) == runs
        assert manager.status(service).restarts == runs - 1

    def test_stop_between_two_tries_ends_the_tries(self, manager: ServiceManager, tmp_path: Path) -> None:
        log = tmp_path / "runs"
        service = Service("again", (str(script(tmp_path, f"echo x >> {log}\nexit 9")),), restarts=1000)
        manager.start(service)
        until(log.exists, "the first run")
        manager.stop(service)
        assert not manager.status(service).active
        assert len(log.read_text().splitlines()) < 20
