"""A port that is bound once, at the start, and stays bound whoever leads.

While it is shut, every connection is closed as soon as it is accepted, before TLS: an edge that tries a standby knows
at once and goes on to the next address. While it is open, a duplicate of the socket is lent to a server; the server may
close it without giving up the port.
"""

import asyncio
import errno
import socket

from beehive.errors import RuntimeFailed

BACKLOG = 1024
_AT_ONCE = 100
_PAUSE = 1.0
"""Seconds without accepting after the process ran out of file descriptors."""


class Gate:
    """See above. Raises RuntimeFailed when the port cannot be bound."""

    def __init__(self, what: str, address: str, port: int) -> None:
        self._what = what
        self._socket = _bound(what, address, port)
        self.port: int = self._socket.getsockname()[1]
        self.turned_away = 0
        self._shut = False
        self._timer: asyncio.TimerHandle | None = None

    def shut(self) -> None:
        """Close every connection that comes, from now on."""
        self._shut = True
        self._listen()

    def open(self) -> socket.socket:
        """A duplicate for a server to listen on; turning away ends."""
        self._stop()
        self._shut = False
        return self._socket.dup()

    def close(self) -> None:
        """Give the port up."""
        self._stop()
        self._socket.close()

    def _listen(self) -> None:
        self._timer = None
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._turn_away)

    def _stop(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._shut:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())

    def _turn_away(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _address = self._socket.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    loop = asyncio.get_running_loop()
                    loop.remove_reader(self._socket.fileno())
                    self._timer = loop.call_later(_PAUSE, self._listen)
                return
            connection.close()
            self.turned_away += 1


def _bound(what: str, address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        bound = socket.create_server((address, port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = "another program has it" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise RuntimeFailed(
            f"cloudhub cannot listen on port {port} of {address} ({what}): {why}; "
            f"set cloudhub.{what}.port to a free one"
        ) from None
    bound.setblocking(False)
    return bound
