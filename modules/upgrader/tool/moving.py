"""Moves what a person or EdgeCore asked for into the tool's own unit, and brings its exit code back.

Who calls `keadm` may be ended by what keadm does: EdgeCore with its whole cgroup, a shell with its connection. The unit
is not. Without systemd, or without our units, the tool goes on where it is.
"""

import time
from pathlib import Path

from beehive.errors import EXIT_BUSY, Unavailable
from beehive.messages.host import Verdict
from modules.upgrader.config import Config
from modules.upgrader.host.host import Host
from modules.upgrader.host.layout import Layout
from modules.upgrader.host.lock import Busy, Holder, Lock, who_holds
from modules.upgrader.host.names import attempt_key, unit_key
from modules.upgrader.host.service import ended
from modules.upgrader.host.systemd import has_unit
from modules.upgrader.tool.attempts import carry_out
from modules.upgrader.tool.record import Order, load_record
from modules.upgrader.tool.request import Request, settings_of, write_request

_POLL = 0.1
_PATIENCE = 15.0
"""Seconds from the tool's end without a verdict to the moment when nobody is expected to take it up any more."""


def carry_out_elsewhere(host: Host, order: Order, lock: Lock) -> Verdict:
    """The verdict of an attempt that its own unit carries out. Raises Busy, Unavailable, OSError."""
    if not _can_move(host):
        return carry_out(host, order)
    unit = host.tool_unit(order.uid, order.attempt)
    write_request(host.files, host.layout, request_of(order, host.config))
    lock.release()  # from here on it is the unit's to take
    host.services.start(unit)
    print(f"Goes on in {unit.name}.service, whatever becomes of this terminal: journalctl -u {unit.name}", flush=True)
    return _followed(host, order)


def request_of(order: Order, config: Config) -> Request:
    """The order as a request to the tool's unit."""
    undo = order.event == "Rollback"
    return Request(
        job=order.job,
        uid=order.uid,
        attempt=order.attempt,
        undo=undo,
        from_version=order.backup,
        to_version=order.backup if undo else order.to_version,
        digest="" if undo else order.new_digest,
        tool=order.tool,
        image=order.image,
        settings=settings_of(config),
    )


def _can_move(host: Host) -> bool:
    if host.config.service_manager != "systemd" or host.layout.requests != Layout(Config()).requests:
        return False  # the shipped unit reads its request at this place
    return "/beehive-tool@" not in _control_group() and has_unit("beehive-tool@.service")


def is_called_by_target(host: Host) -> bool:
    """Is our caller a process of the very service that is to be upgraded, such as a real EdgeCore?"""
    return f"/{host.service.name}.service" in _control_group()


def _control_group() -> str:
    return Path("/proc/self/cgroup").read_text(encoding="utf-8")


def _followed(host: Host, order: Order) -> Verdict:
    unit, key = host.tool_unit(order.uid, order.attempt), attempt_key(order.uid, order.attempt)
    alive = time.monotonic()
    while True:
        status = host.services.status(unit)
        record = load_record(host.layout, key)
        if record and record.verdict and not status.active:
            return record.verdict
        if status.active or who_holds(host.layout.lock):
            alive = time.monotonic()
        if not status.active and status.exit_code == EXIT_BUSY and record is None:
            raise Busy(who_holds(host.layout.lock) or Holder(), time.time())
        if time.monotonic() - alive > _PATIENCE:
            raise Unavailable(
                f"The tool {ended(status)} without a verdict (unit {unit_key(order.uid, order.attempt)}); "
                "bring it to its end: keadm recover edge"
            )
        time.sleep(_POLL)
