"""What a service manager is told by a process of `Type=notify` (man sd_notify): that it is ready, alive, stopping.

Nothing happens where nobody asked for it. A word that cannot be said is not said: no process ends because of that.
"""

import contextlib
import os
import socket
from collections.abc import Mapping, MutableMapping

_MICRO = 1_000_000


class ServiceManager:
    """Whoever started this process, if it wants to hear from it."""

    def __init__(self, address: str = "", watchdog: float = 0.0) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.every = watchdog / 2
        """Seconds between two signs of life, half of what the unit allows; 0: none is asked for."""

    def say(self, *words: str) -> None:
        """Such as `READY=1`. Never waits, never raises."""
        if not self._address:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as channel,
        ):
            channel.sendto("\n".join(words).encode(), self._address)


def service_manager(environment: MutableMapping[str, str], pid: int = 0) -> ServiceManager:
    """From what it put into the environment, which is taken out there: children must not speak in our name."""
    address, watchdog = environment.get("NOTIFY_SOCKET", ""), _watchdog(environment, pid or os.getpid())
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        environment.pop(name, None)
    return ServiceManager(address, watchdog)


def _watchdog(environment: Mapping[str, str], pid: int) -> float:
    """Seconds after which a silent process is ended; 0: never, or another process is meant."""
    allowed, meant = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not allowed.isdigit() or meant not in ("", str(pid)):
        return 0.0
    return int(allowed) / _MICRO
