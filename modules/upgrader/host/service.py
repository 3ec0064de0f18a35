"""The service manager's port: two implementations (`systemd.py`, `process.py`), one contract test for both."""

import signal as signals
from typing import Protocol

from msgspec import Struct


class Service(Struct, frozen=True):
    """A service, or one run of the tool."""

    name: str
    """Without `.service`."""
    argv: tuple[str, ...] = ()
    """How the process manager starts it; under systemd the unit says it."""
    restarts: int = 0
    """How often the process manager starts it again after a failure; under systemd the unit says it."""
    environment: tuple[tuple[str, str], ...] = ()
    """What the process manager adds to its own environment for it."""


class Status(Struct, frozen=True):
    """What the service manager knows of a service now."""

    active: bool = False
    pid: int = 0
    """Of its main process while it is active."""
    restarts: int = 0
    """How often it was started again by its manager since somebody started it."""
    exit_code: int | None = None
    """Of its last main process, if that ended by itself and anybody saw it."""
    signal: int = 0
    """Number of the signal that ended it."""
    lasted: float | None = None
    """Seconds from its start to its end."""
    run: str = ""
    """Names its last start in this boot, by whomever; empty: none is known."""


class Unit(Struct, frozen=True):
    """How a service is started, as its manager knows it; empty where there are no units."""

    files: tuple[str, ...] = ()
    """The unit file, then its drop-ins, as paths of the host."""
    enablement: str = ""
    """Whether it starts at boot, in systemd's words: `enabled`, `disabled`, `static`, …"""
    starts: str = ""
    """The program that it starts, as a path of the host; empty: it cannot be told."""


class ServiceManager(Protocol):
    """Starts and stops services; blocking. Every method raises `Unavailable` with a sentence when it could not."""

    def start(self, service: Service) -> None:
        """Start it unless it is active; returns when its process runs (or has ended again already)."""

    def launch(self, service: Service) -> None:
        """Start it as soon as nothing that must come before is still under way; does not wait for that."""

    def stop(self, service: Service) -> None:
        """End it, by force if it will not; returns when it has ended. Nothing happens when it does not run."""

    def status(self, service: Service) -> Status:
        """What is known of it; an unknown service is not active."""

    def log_tail(self, service: Service, lines: int) -> list[str]:
        """The last lines that it wrote since its last start, oldest first."""

    def forget(self, service: Service) -> None:
        """Keep nothing about a service that has ended."""

    def unit(self, service: Service) -> Unit:
        """How it is started; empty where the manager has no files for that."""

    def reload(self) -> None:
        """Read all units again."""

    def enable(self, service: Service, *, at_boot: bool) -> None:
        """Start it at boot, or not."""


def ended(status: Status) -> str:
    """How it ended, as the second half of a sentence: `exited with code 1 after 0.3 s`."""
    digits = 1 if (status.lasted or 0.0) >= 0.1 else 2
    after = f" after {status.lasted:.{digits}f} s" if status.lasted is not None else ""
    if status.signal:
        return f"was ended by {_signal_name(status.signal)}{after}"
    if status.exit_code is None:
        return f"stopped{after}; nobody saw with which code"
    return f"exited with code {status.exit_code}{after}"


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
