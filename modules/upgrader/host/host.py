"""One host, put together from its configuration."""

import contextlib
import os
import sys
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

import modules
from beehive.api.version import same
from beehive.errors import Refused, Unavailable
from modules.upgrader.config import Config
from modules.upgrader.host.asking import version_by_word
from modules.upgrader.host.backup import Backup, make_backup
from modules.upgrader.host.files import Files
from modules.upgrader.host.layout import EXECUTABLE, Layout
from modules.upgrader.host.names import unit_key
from modules.upgrader.host.process import ProcessServices
from modules.upgrader.host.program import program_of
from modules.upgrader.host.programs import runs_from, version_of, version_of_running
from modules.upgrader.host.service import Service, ServiceManager, Status
from modules.upgrader.host.systemd import SystemdServices

_TOOL_RESTARTS = 3


class Host:
    """Its places, its disk, its services."""

    def __init__(self, config: Config, *, files: Files | None = None, services: ServiceManager | None = None) -> None:
        self.services = services or _services(config, Layout(config))
        self.config = config = _with_executable(config, self.services)
        self.layout = Layout(config)
        self.files = files or Files()
        self.program = program_of(self.files, self.layout)
        self.service = Service(config.target.service, _start_command(config, self.layout))

    def tool_unit(self, uid: str, attempt: int) -> Service:
        """The tool's own unit for one attempt (product.md 6.1)."""
        key = unit_key(uid, attempt)
        program = self.config.tool or (sys.executable, "-m", "modules.upgrader.tool")
        argv = (*program, "upgrade", "edge", "--force", "--request", str(self.layout.request(key)))
        ours = str(Path(modules.__file__).parents[1])  # where it is found, however this process found it
        path = os.pathsep.join((ours, *filter(None, (os.environ.get("PYTHONPATH"),))))
        return Service(f"beehive-tool@{key}", argv, _TOOL_RESTARTS, () if self.config.tool else (("PYTHONPATH", path),))

    def back_up(self, version: str) -> Backup:
        """Save the installed version, with the service's unit. Raises Refused, Unavailable, OSError."""
        return make_backup(self.files, self.layout, version, self.services.unit(self.service))

    def installed(self) -> str:
        """What the installed program answers. Refused if it does not."""
        return version_of(self.layout.executable, self.config.version_timeout)

    def installed_or_none(self) -> str:
        """The same, or an empty text."""
        try:
            return self.installed()
        except Refused:
            return ""

    def running(self, status: Status) -> str:
        """What the running program answers. Refused if it does not, or is not the one that is installed."""
        if not self._runs_program(status):
            raise Refused(f"{self.service.name} (pid {status.pid}) does not run {self.layout.executable}")
        if self.layout.control:
            return version_by_word(self.layout.control, status.pid, self.config.start_timeout)
        timeout = self.config.version_timeout
        return version_of_running(status.pid, self.config.target, self.layout.executable, timeout)

    def running_or_none(self) -> str:
        """What runs now, in a word or two; empty: nothing does, or nobody can tell."""
        try:
            status = self.services.status(self.service)
        except Unavailable:
            return ""
        if not (status.active and status.pid):
            return ""
        try:
            return self.running(status)
        except Refused:
            return f"pid {status.pid}, another program"

    def runs_installed(self, status: Status) -> bool:
        """Is the service active, with the program that lies at the target's place now?"""
        if not (status.active and self._runs_program(status)):
            return False
        if not self.layout.runs_from:
            return True
        try:  # it runs a copy of itself: which one only it can say
            return same(self.running(status), self.installed())
        except Refused:
            return False

    def check_unit(self) -> None:
        """Refused when the service's unit starts another program than the one that we would replace."""
        starts = self.services.unit(self.service).starts
        if starts and self.layout.below(starts).resolve() != self.layout.executable.resolve():
            raise Refused(
                f"{self.service.name}.service starts {starts}, not {self.layout.executable}; "
                "set upgrader.target.executable, or restart the agent if that changed"
            )

    def _runs_program(self, status: Status) -> bool:
        return runs_from(status.pid, self.config.target, self.layout.executable, self.layout.runs_from)


def _with_executable(config: Config, services: ServiceManager) -> Config:
    """The target's program is the one that its unit starts, never a guess (product.md 6.2)."""
    if config.target.executable:
        return config
    with contextlib.suppress(Unavailable):
        starts = services.unit(Service(config.target.service)).starts
        if PurePosixPath(starts).name == PurePosixPath(EXECUTABLE).name:  # and not a shell that starts it
            return replace(config, target=replace(config.target, executable=starts))
    return config


def _services(config: Config, layout: Layout) -> ServiceManager:
    if config.service_manager == "systemd":
        return SystemdServices(start_timeout=config.start_timeout, stop_timeout=config.stop_timeout)
    return ProcessServices(layout.running, layout.logs, stop_timeout=config.stop_timeout)


def _start_command(config: Config, layout: Layout) -> tuple[str, ...]:
    places = {
        "{executable}": str(layout.executable),
        "{config}": str(layout.config or ""),
        "{database}": str(layout.database or ""),
        "{root}": str(layout.root),
    }
    return tuple(_filled(word, places) for word in config.target.start)


def _filled(word: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        word = word.replace(name, place)
    return word
