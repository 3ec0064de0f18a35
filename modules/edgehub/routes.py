"""The host's routes and addresses: Linux tells through a netlink socket when they change."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

log = logging.getLogger(__name__)

_LINK, _IPV4_ADDRESS, _IPV4_ROUTE, _IPV6_ADDRESS, _IPV6_ROUTE = 0x1, 0x10, 0x40, 0x100, 0x400
_GROUPS = _LINK | _IPV4_ADDRESS | _IPV4_ROUTE | _IPV6_ADDRESS | _IPV6_ROUTE
"""RTMGRP_* of linux/rtnetlink.h."""
_SETTLE = 0.3
"""Seconds: one change comes as several messages."""
_PAUSE = 2.0
"""Seconds: an interface that flaps is no reason to dial all the time."""


class Routes:
    """Calls `changed` soon after they changed, at most every two seconds. Where there is no netlink it never does."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._last = -_PAUSE
        self._timer: asyncio.TimerHandle | None = None
        self._socket: socket.socket | None = None
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
            self._socket.bind((0, _GROUPS))
        except (OSError, AttributeError) as error:
            log.info("changes of routes are not noticed: %s", error)
            self.close()
        else:
            self._loop.add_reader(self._socket.fileno(), self._read)

    def close(self) -> None:
        """Watch no more."""
        if self._timer:
            self._timer.cancel()
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # nothing more, or more was said than there was room for: it changed
            while self._socket is not None and self._socket.recv(1 << 16):
                pass
        self.something_changed()

    def something_changed(self) -> None:
        """A message came."""
        if self._timer is None:
            wait = max(_SETTLE, self._last + _PAUSE - self._loop.time())
            self._timer = self._loop.call_later(wait, self._tell)

    def _tell(self) -> None:
        self._timer = None
        self._last = self._loop.time()
        self._changed()
