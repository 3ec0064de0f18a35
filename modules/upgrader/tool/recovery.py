"""What `beehive-recover.service` does with attempts that have no verdict (product.md 6.2; architecture.md 11 B).

At boot, before the target starts: what concerns the disk alone is finished or undone, so that the target starts once,
from a whole program; then the tool's unit verifies it. When the tool's unit has failed too often: a rollback, here.
Called by a person: whatever is open is brought to its end, here.
"""

import argparse
import contextlib
import enum
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from beehive.errors import EXIT_FAILED, EXIT_OK, BeehiveError, ConfigError
from modules.upgrader.config import Config
from modules.upgrader.host.host import Host
from modules.upgrader.host.lock import Holder, held
from modules.upgrader.host.names import unit_key
from modules.upgrader.host.process import boot_id
from modules.upgrader.host.service import Service, ServiceManager, Status
from modules.upgrader.host.systemd import SystemdServices
from modules.upgrader.tool.attempts import conclude, settle
from modules.upgrader.tool.moving import request_of
from modules.upgrader.tool.phases import MOST_INTERRUPTIONS, Phase
from modules.upgrader.tool.providers import is_ours
from modules.upgrader.tool.record import Order, Record, open_records, untold_records
from modules.upgrader.tool.request import read_request, write_request
from modules.upgrader.tool.work import Tool

_ON_DISK = frozenset({Phase.STOP, Phase.SAVE, Phase.SWAP, Phase.UNDO_STOP, Phase.UNDO_RESTORE})
"""Phases that need nothing but a service that stands still, as it does before it starts at boot."""
_GAVE_UP = "the tool ended again and again without a verdict"


class Occasion(enum.Enum):
    """Why it runs."""

    BOOT = "boot"
    TOOL_FAILED = "tool failed"
    PERSON = "person"


def occasion(environment: Mapping[str, str]) -> Occasion:
    """By what systemd says. Its own folder in /run is empty once per boot; MONITOR_UNIT (systemd ≥ 251) names a failed
    unit that asked for us."""
    folder = environment.get("RUNTIME_DIRECTORY", "")
    if not folder:
        return Occasion.PERSON
    again = environment.get("MONITOR_UNIT") or _marker(folder).exists()
    return Occasion.TOOL_FAILED if again else Occasion.BOOT


def command(arguments: argparse.Namespace, config: Config | None) -> int:
    """`keadm recover edge`. Raises Busy while a tool is at work."""
    del arguments
    assert config is not None
    host, why = Host(config), occasion(os.environ)
    if why is Occasion.BOOT:
        _marker(os.environ["RUNTIME_DIRECTORY"]).touch()
        return at_boot(host)
    host.files.directory(host.layout.etc)
    with held(host.layout.lock, _holder(open_records(host.layout))):
        if why is Occasion.TOOL_FAILED:
            _roll_back(host)
        settle(host)
    return EXIT_OK


def at_boot(host: Host) -> int:
    """The disk's part of every open attempt, then the tool's units. Nothing that goes wrong here may stop the boot."""
    code, found = EXIT_OK, open_records(host.layout)
    _sweep(host)
    if not (found or untold_records(host.layout) or host.layout.lock.exists()):
        return code
    try:
        with held(host.layout.lock, _holder(found)):
            for key, record in found.items():
                AtBoot(host, key, record).mend()
            for key, record in untold_records(host.layout).items():
                conclude(host, Tool(host, key, record))
    except (BeehiveError, OSError) as error:
        print(f"{error}: left to the tool", file=sys.stderr)
        code = EXIT_FAILED
    for record in found.values():
        _launch(host, record)
    return code


def _holder(found: Mapping[str, Record]) -> Holder:
    """Named after the attempt, so that its agent waits for us as for its tool."""
    us = Holder(step="Recover", pid=os.getpid(), boot=boot_id(), since=time.time())
    order = next((record.order for record in found.values()), None)
    return replace(us, job=order.job, uid=order.uid, attempt=order.attempt) if order else us


def _sweep(host: Host) -> None:
    """What was being written beside its place when the power went; nobody is at work now."""
    layout = host.layout
    with contextlib.suppress(OSError):
        for folder in (layout.records, layout.requests, layout.etc):
            for left in folder.glob(".*.new"):
                host.files.remove(left)
        for left in layout.backups.glob(".*.new"):
            host.files.remove_tree(left)
        host.program.sweep()


class AtBoot(Tool):
    """The tool before the target starts."""

    def __init__(self, host: Host, key: str, record: Record) -> None:
        own = _host_of(host, record)
        super().__init__(Host(own.config, files=host.files, services=_Still(own.services)), key, record)

    def mend(self) -> None:
        """Bring the disk to the next state from which the target may start; count the boot. Raises OSError."""
        boots = self.record.boots + 1
        undo = boots >= MOST_INTERRUPTIONS and self.record.order.event != "Rollback"
        reason = self.record.reason
        if undo and not reason:
            reason = f"this host came up {boots} times without a verdict, last in {self.record.phase.value}"
        # It is not the tool that starts here: its own count stays as it is.
        self.record = replace(self.record, boots=boots, starts=self.record.starts - 1, reason=reason)
        self.program.sweep()
        self._take_up(undo)
        while self.record.phase in _ON_DISK and not self._needs_more():
            phase = self.record.phase
            self._go_on(phase, self._perform(phase))
        self.announce()  # it is the boot that starts it

    def _needs_more(self) -> bool:
        """Would a provider be run, which may need what is not up yet? The old program lies there whole: that boots."""
        return self.record.phase is Phase.SWAP and not is_ours(self.record.order)


class _Still:
    """The services of a host that has not started them yet; their units are there already."""

    def __init__(self, services: ServiceManager) -> None:
        self.unit = services.unit
        self.reload = services.reload
        self.enable = services.enable

    def start(self, service: Service) -> None:
        """Its own boot does that."""

    def launch(self, service: Service) -> None:
        """Its own boot does that."""

    def stop(self, service: Service) -> None:
        """It stands still."""

    def status(self, service: Service) -> Status:
        del service
        return Status()

    def log_tail(self, service: Service, lines: int) -> list[str]:
        del service, lines
        return []

    def forget(self, service: Service) -> None:
        """There is nothing."""


def _roll_back(host: Host) -> None:
    for key, record in open_records(host.layout).items():
        own = _out_of_order(_host_of(host, record))
        conclude(own, Tool(own, key, replace(record, reason=record.reason or _GAVE_UP)), undo=True)


def _out_of_order(host: Host) -> Host:
    """The target is ordered after the unit that we run in: its start must not wait for our end."""
    config = host.config
    if config.service_manager != "systemd":
        return host
    services = SystemdServices(start_timeout=config.start_timeout, stop_timeout=config.stop_timeout, out_of_order=True)
    return Host(config, files=host.files, services=services)


def _launch(host: Host, record: Record) -> None:
    """Start the tool's unit as soon as we have ended; an attempt by hand gets the request that it never had."""
    order, own = record.order, _host_of(host, record)
    place = host.layout.request(unit_key(order.uid, order.attempt))
    request = request_of(order, own.config)
    try:
        if not _is_request(place, order):
            write_request(host.files, host.layout, request)
        own.services.launch(own.tool_unit(order.uid, order.attempt))
    except (BeehiveError, OSError) as error:
        print(f"The tool cannot be started again: {error}", file=sys.stderr)


def _is_request(place: Path, order: Order) -> bool:
    with contextlib.suppress(ConfigError):
        request, _ = read_request(place)
        return (request.uid, request.attempt) == (order.uid, order.attempt)
    return False


def _host_of(host: Host, record: Record) -> Host:
    """The host by the settings under which the attempt began."""
    order = record.order
    with contextlib.suppress(ConfigError):
        _, config = read_request(host.layout.request(unit_key(order.uid, order.attempt)))
        if config.root == host.config.root and config != host.config:
            return Host(config, files=host.files, services=None)
    return host


def _marker(folder: str) -> Path:
    return Path(folder) / "recovered"
