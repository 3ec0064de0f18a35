"""The service manager of most hosts: `systemctl` and `journalctl`, called with argument lists."""

import contextlib
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from beehive.errors import Unavailable
from modules.upgrader.host.names import checked_name
from modules.upgrader.host.service import Service, Status, Unit
from modules.upgrader.sentences import with_last_words

_ASKING = 20.0
_RELOADING = 90.0
_SPARE = 15.0
_POLL = 0.1
_FEW = 20
_ACTIVE = ("active", "activating", "reloading", "deactivating")
_SHOWN = (
    "ActiveState,SubState,MainPID,NRestarts,ExecMainCode,ExecMainStatus,ExecMainStartTimestampMonotonic,"
    "ExecMainExitTimestampMonotonic,InvocationID"
)
_OF_UNIT = "FragmentPath,DropInPaths,UnitFileState,ExecStart"
_EXITED = "1"  # CLD_EXITED; the others (killed, dumped) mean that ExecMainStatus is a signal
_KILLED = ("2", "3")
_BOOTED = Path("/run/systemd/system")
"""There where systemd is at work (sd_booted(3))."""
_BY_SYSTEMD = range(200, 244)
"""Exit codes with which systemd says that it could not execute the program (systemd.exec(5))."""


class SystemdServices:
    """`ServiceManager` by systemd. Time limits of start and stop are the unit's; ours only guard against silence."""

    def __init__(self, *, start_timeout: float, stop_timeout: float, out_of_order: bool = False) -> None:
        self._start_timeout = start_timeout
        # For who runs in a unit that the service is ordered after, and would wait for itself.
        self._start = ("systemctl", "start", *(("--job-mode=ignore-dependencies",) if out_of_order else ()))
        self._stop_timeout = stop_timeout

    def start(self, service: Service) -> None:
        with contextlib.suppress(Unavailable):  # one that failed too often refuses to start
            _run(("systemctl", "reset-failed", _unit(service)), _ASKING)
        try:
            _run((*self._start, _unit(service)), self._start_timeout + _SPARE)
        except Unavailable as error:
            if not self._ended_at_once(service):
                raise Unavailable(self._why(service, error.reason)) from error

    def launch(self, service: Service) -> None:
        _run(("systemctl", "start", "--no-block", _unit(service)), _ASKING)

    def stop(self, service: Service) -> None:
        try:
            _run(("systemctl", "stop", _unit(service)), self._stop_timeout)
        except Unavailable:
            with contextlib.suppress(Unavailable):
                _run(("systemctl", "kill", "--signal=SIGKILL", _unit(service)), _ASKING)
        deadline = time.monotonic() + _SPARE
        while self.status(service).active:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{_unit(service)} does not end, not even by SIGKILL; see systemctl status {service.name}"
                )
            time.sleep(_POLL)

    def status(self, service: Service) -> Status:
        return read_status(_run(("systemctl", "show", f"--property={_SHOWN}", _unit(service)), _ASKING))

    def log_tail(self, service: Service, lines: int) -> list[str]:
        run = self._last_run(service)
        said = _journal(lines, (f"_SYSTEMD_INVOCATION_ID={run}",)) if run else []
        if said:
            return said
        # The journal could not tell any more to which run the lines of so short a life belong.
        began = self._shown(service, "ExecMainStartTimestamp")
        since = (f"--since={began}",) if began else ()
        return _journal(lines, (*since, f"_SYSTEMD_UNIT={_unit(service)}"))

    def forget(self, service: Service) -> None:
        with contextlib.suppress(Unavailable):
            _run(("systemctl", "reset-failed", _unit(service)), _ASKING)

    def unit(self, service: Service) -> Unit:
        return read_unit(_run(("systemctl", "show", f"--property={_OF_UNIT}", _unit(service)), _ASKING))

    def reload(self) -> None:
        _run(("systemctl", "daemon-reload"), _RELOADING)

    def enable(self, service: Service, *, at_boot: bool) -> None:
        if at_boot:
            _run(("systemctl", "unmask", "--quiet", _unit(service)), _RELOADING)
        _run(("systemctl", "enable" if at_boot else "disable", "--quiet", _unit(service)), _RELOADING)

    def _ended_at_once(self, service: Service) -> bool:
        """It did start: the rest is for who asks for its status."""
        with contextlib.suppress(Unavailable):
            code = self.status(service).exit_code
            return code is not None and code not in _BY_SYSTEMD
        return False

    def _last_run(self, service: Service) -> str:
        return self._shown(service, "InvocationID")

    def _shown(self, service: Service, name: str) -> str:
        return _properties(_run(("systemctl", "show", f"--property={name}", _unit(service)), _ASKING)).get(name, "")

    def _why(self, service: Service, said: str) -> str:
        """`systemctl` itself only says that it failed; the rest is in the journal."""
        with contextlib.suppress(Unavailable):
            run = self._last_run(service)
            of_systemd = _journal(_FEW, (f"INVOCATION_ID={run}",)) if run else []
            told = [line for line in of_systemd if "Failed at step" in line or "timed out" in line]
            if told:
                return with_last_words(told[-1].rstrip("."), self.log_tail(service, _FEW))
            if run:
                return with_last_words(f"{_unit(service)} did not start", self.log_tail(service, _FEW) or [said])
        return said


def has_unit(name: str) -> bool:
    """Is there a systemd, and does it know this unit (or template)?"""
    try:
        _run(("systemctl", "cat", name), _ASKING)
    except Unavailable:
        return False
    return True


def read_status(text: str) -> Status:
    """What `systemctl show` says, one `Name=value` a line."""
    shown = _properties(text)
    code, status = shown.get("ExecMainCode", ""), _number(shown, "ExecMainStatus")
    began, end = _number(shown, "ExecMainStartTimestampMonotonic"), _number(shown, "ExecMainExitTimestampMonotonic")
    active = shown.get("ActiveState") in _ACTIVE
    # In a pause between two runs, for as long as its unit says, the last one is known (two states since systemd 254).
    ended = not active or shown.get("SubState", "").startswith("auto-restart")
    return Status(
        active=active,
        pid=_number(shown, "MainPID") if active else 0,
        restarts=_number(shown, "NRestarts"),
        exit_code=status if ended and code == _EXITED else None,
        signal=status if ended and code in _KILLED else 0,
        lasted=(end - began) / 1_000_000 if 0 < began <= end else None,
        run=shown.get("InvocationID", ""),
    )


def read_unit(text: str) -> Unit:
    """As `read_status`; drop-ins that systemd makes up itself (in /run) are nobody's to keep."""
    shown = _properties(text)
    files = [shown.get("FragmentPath", ""), *shown.get("DropInPaths", "").split()]
    # ExecStart={ path=/usr/bin/edgecore ; argv[]=/usr/bin/edgecore --config … ; … }
    started = shown.get("ExecStart", "").partition("path=")[2].partition(" ;")[0]
    return Unit(
        tuple(file for file in files if file and not file.startswith("/run/")), shown.get("UnitFileState", ""), started
    )


def _journal(lines: int, which: Sequence[str]) -> list[str]:
    """The last lines, oldest first; what was said a moment ago may not have been written yet."""
    with contextlib.suppress(Unavailable):
        _run(("journalctl", "--sync"), _ASKING)
    text = _run(("journalctl", "--no-pager", "--quiet", "--output=cat", f"--lines={lines}", *which), _ASKING)
    return text.splitlines()[-lines:]


def _properties(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, equals, value in pairs if equals}


def _number(shown: dict[str, str], name: str) -> int:
    text = shown.get(name, "")
    return int(text) if text.isdigit() else 0


def _unit(service: Service) -> str:
    name, at, instance = service.name.partition("@")
    return f"{checked_name(name)}{at}{checked_name(instance) if at else ''}.service"


def _run(argv: Sequence[str], timeout: float) -> str:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
    except FileNotFoundError as error:
        raise Unavailable(f"This host has no {argv[0]}; set upgrader.serviceManager to process") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{' '.join(argv)} gave no answer within {timeout:g} s") from error
    if done.returncode:
        if not _BOOTED.is_dir():
            raise Unavailable("This host was not booted with systemd; set upgrader.serviceManager to process")
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Unavailable(f"{' '.join(argv)} failed: {said[0] if said else f'exit code {done.returncode}'}")
    return done.stdout.decode(errors="replace")
