"""A port that is bound once, at the start, and stays bound whoever leads.

While it is shut, every connection is closed as soon as it is accepted, before TLS: an edge that tries a standby knows
at once and goes on to the next address. While it is open, connections are received a few at a time and fairly
(`line.py`): TLS costs milliseconds, and those who are connected must not wait for those who come.
"""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable

from beehive.errors import RuntimeFailed
from modules.cloudhub.line import Line, Room, origin

Receive = Callable[[socket.socket, str], Awaitable[None]]
"""Takes over a connection from an address; its place is free again when this returns. Raises nothing."""

BACKLOG = 1024
_AT_ONCE = 100
_PAUSE = 1.0
"""Seconds without accepting after the process ran out of file descriptors."""
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Gate:
    """See above. Raises RuntimeFailed when the port cannot be bound."""

    def __init__(self, what: str, address: str, port: int) -> None:
        self._socket = _bound(what, address, port)
        self.port: int = self._socket.getsockname()[1]
        self.turned_away = 0
        """Closed as they came: nobody leads here, or too many came from one address."""
        self._receive: Receive | None = None
        self._line: Line[socket.socket] = Line(Room(0, 0))
        self._busy: set[asyncio.Task[None]] = set()
        self._fresh: set[socket.socket] = set()
        """Whose task has not run yet: cancelled now, it would close nothing."""
        self._listening = False
        self._timer: asyncio.TimerHandle | None = None

    def shut(self) -> None:
        """Close every connection that comes from now on, and those that wait or are being received."""
        self._receive = None
        self._end()
        self._listen()

    def open(self, room: Room, receive: Receive) -> None:
        """Receive who comes."""
        self._end()
        self._line, self._receive = Line(room), receive
        self._listen()

    def close(self) -> None:
        """Give the port up."""
        self._receive = None
        self._end()
        if self._listening:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
        if self._timer:
            self._timer.cancel()
        self._socket.close()

    def _end(self) -> None:
        for waiting in self._line.clear():
            waiting.close()
        for task in self._busy:
            task.cancel()
        for connection in self._fresh:
            connection.close()
        self._busy, self._fresh = set(), set()

    # ---- accepting ---------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        self._timer = None
        if not self._listening:
            self._listening = True
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)

    def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket.fileno())
        self._listening = False
        self._timer = self._timer or loop.call_later(_PAUSE, self._listen)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._socket.accept()
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._pause()
                break
            if self._receive is None or not self._line.arrive(origin(address[0]), connection):
                connection.close()
                self.turned_away += 1
            self._go_on()

    def _go_on(self) -> None:
        receive, line = self._receive, self._line
        while receive and (first := line.next()):
            self._fresh.add(first[1])
            task = asyncio.get_running_loop().create_task(self._attend(receive, line, *first))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)

    async def _attend(self, receive: Receive, line: Line[socket.socket], address: str, one: socket.socket) -> None:
        self._fresh.discard(one)
        one.setblocking(False)
        try:
            await receive(one, address)
        finally:
            line.left(address)
            if line is self._line:
                self._go_on()


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
