"""The service manager of a host without systemd: a keeper process for each service (`keeper.py`), and /proc."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from beehive.errors import Unavailable
from modules.upgrader.host import keeper
from modules.upgrader.host.files import Files
from modules.upgrader.host.names import checked_name
from modules.upgrader.host.service import Service, Status, Unit

_LARGEST_LOG = 1024 * 1024
_TAIL = 64 * 1024
_STARTING = 30.0
_POLL = 0.01
_AFTER_KILL = 10.0
_ENOUGH = (0, 1, 2, 3, 78)
"""Exit codes with which a process means it: starting it again would change nothing (`beehive/errors.py`)."""


class _State(Struct, frozen=True):
    """What the keeper wrote."""

    keeper: int = 0
    keeper_ticks: int = 0
    boot: str = ""
    pid: int = 0
    ticks: int = 0
    restarts: int = 0
    offset: int = 0
    exit_code: int | None = None
    signal: int = 0
    lasted: float | None = None
    again: bool = False
    """It ended, and the keeper is about to start it again."""

    @property
    def run(self) -> str:
        """`Status.run`."""
        return f"{self.keeper}.{self.keeper_ticks}.{self.restarts}" if self.keeper else ""


class ProcessServices:
    """`ServiceManager` for hosts that are a directory, or have no systemd."""

    def __init__(self, running: Path, logs: Path, *, stop_timeout: float) -> None:
        self._running = running
        self._logs = logs
        self._stop_timeout = stop_timeout

    def start(self, service: Service) -> None:
        if self.status(service).active:
            return
        files = Files()
        for directory in (self._running, self._logs):
            files.directory(directory)
        log, spec = self._log(service), self._spec(service)
        _rotate(log)
        state = str(self._state_file(service))
        what = {"argv": service.argv, "log": str(log), "state": state, "restarts": service.restarts}
        files.write(spec, msgspec.json.encode({**what, "no_restart": _ENOUGH}), 0o600)
        _keep(service, spec)

    def launch(self, service: Service) -> None:
        self.start(service)

    def stop(self, service: Service) -> None:
        state = self._load(service)
        if state.keeper and keeper.start_ticks(state.keeper) == state.keeper_ticks:
            _signal(state.keeper, signal.SIGTERM)  # from now on it starts nothing again
        self._end(service, signal.SIGTERM)
        if self._wait(service, self._stop_timeout):
            return
        self._end(service, signal.SIGKILL)
        if not self._wait(service, _AFTER_KILL):
            raise Unavailable(f"{service.name} (pid {self._load(service).pid}) does not end, not even by SIGKILL")

    def status(self, service: Service) -> Status:
        state = self._load(service)
        if _runs(state.pid, state.ticks):
            return Status(active=True, pid=state.pid, restarts=state.restarts, run=state.run)
        if state.pid and _runs(state.keeper, state.keeper_ticks):
            state = self._seen(service, state)
        if state.pid and _runs(state.pid, state.ticks):  # it was started again just now
            return Status(active=True, pid=state.pid, restarts=state.restarts, run=state.run)
        return Status(
            active=state.again and _runs(state.keeper, state.keeper_ticks),
            restarts=state.restarts,
            exit_code=state.exit_code,
            signal=state.signal,
            lasted=state.lasted,
            run=state.run,
        )

    def log_tail(self, service: Service, lines: int) -> list[str]:
        try:
            with self._log(service).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                start = self._load(service).offset
                file.seek(max(start if start <= size else 0, size - _TAIL))
                text = file.read(_TAIL).decode("utf-8", "replace")
        except FileNotFoundError:
            return []
        return text.splitlines()[-lines:]

    def forget(self, service: Service) -> None:
        for path in (self._state_file(service), self._spec(service)):
            path.unlink(missing_ok=True)

    def unit(self, service: Service) -> Unit:
        del service
        return Unit()

    def reload(self) -> None:
        """There are no units."""

    def enable(self, service: Service, *, at_boot: bool) -> None:
        """Nothing is started at boot here."""

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _state_file(self, service: Service) -> Path:
        return self._running / f"{checked_name(service.name.replace('@', '_'))}.json"

    def _spec(self, service: Service) -> Path:
        return self._state_file(service).with_suffix(".spec")

    def _log(self, service: Service) -> Path:
        return self._logs / f"{checked_name(service.name.partition('@')[0])}.log"

    def _load(self, service: Service) -> _State:
        try:
            state = msgspec.json.decode(self._state_file(service).read_bytes(), type=_State)
        except (FileNotFoundError, msgspec.MsgspecError):
            return _State()
        return state if state.boot == boot_id() else msgspec.structs.replace(state, pid=0, keeper=0, exit_code=None)

    def _seen(self, service: Service, before: _State) -> _State:
        """The process is gone and its keeper lives: wait the moment until that has written how it ended."""
        deadline = time.monotonic() + 2.0
        while (now := self._load(service)) == before and time.monotonic() < deadline:
            if not _runs(before.keeper, before.keeper_ticks):
                return self._load(service)
            time.sleep(_POLL)
        return now

    def _end(self, service: Service, number: signal.Signals) -> None:
        state = self._load(service)
        if _runs(state.pid, state.ticks):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(state.pid, number)

    def _wait(self, service: Service, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.status(service).active:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        return True


def boot_id() -> str:
    """Of this boot of the machine: a pid means nothing after the next."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def uptime() -> float:
    """Seconds since this boot, time asleep included; nobody can set this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _keep(service: Service, spec: Path) -> None:
    """Start the service's keeper; it returns when the service runs."""
    command = [sys.executable, "-I", "-S", keeper.__file__, str(spec)]
    environment = os.environ | dict(service.environment)
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=_STARTING, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{service.name} cannot be started: {error}") from error
    if done.returncode:
        raise Unavailable(f"{service.name}: {done.stderr.decode(errors='replace').strip() or 'its keeper failed'}")


def _runs(pid: int, ticks: int) -> bool:
    return pid > 0 and ticks > 0 and keeper.start_ticks(pid) == ticks


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _rotate(log: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > _LARGEST_LOG:
            log.replace(log.with_suffix(".log.1"))
