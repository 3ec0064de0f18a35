"""UNIX sockets of this host: one line asked, one line answered, and who asks is what the kernel says of its process."""

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from beehive.errors import RuntimeFailed, Unavailable

LONGEST = 256 * 1024
"""Bytes of an answer."""
_SO_PEERGROUPS = 59
_CREDENTIALS = struct.Struct("3i")
_BACKLOG = 16


class Peer(Struct, frozen=True):
    """Who is at the other end (unix(7), SO_PEERCRED and SO_PEERGROUPS): as it was when it connected."""

    pid: int
    uid: int
    groups: frozenset[int]


def peer_of(connection: socket.socket) -> Peer:
    """Raises OSError."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(found)
    more = b""
    with contextlib.suppress(OSError):  # an old kernel, or somebody in more than 256 groups: then the first one counts
        more = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 1024)
    return Peer(pid, uid, frozenset((gid, *(number for (number,) in struct.iter_unpack("i", more)))))


def listen(path: Path, *, group: int | None = None) -> socket.socket:
    """Take the place: for its owner alone (0600), or also for a group (0660). One that nobody serves is replaced.

    Raises RuntimeFailed where somebody serves it, OSError where it cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if is_served(path):
        raise RuntimeFailed(f"Another process serves {path}; two agents on one host need two places: control.socket")
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        before = os.umask(0o177)  # from its first moment on it is nobody else's
        try:
            with _short(path) as place:
                made.bind(place)
        finally:
            os.umask(before)
        if group is not None:
            os.chown(path, -1, group)
            path.chmod(0o660)
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def is_served(path: Path) -> bool:
    """Does a process listen there?"""
    try:
        _connected(path, 1.0).close()
    except Unavailable:
        return False
    return True


def ask(path: Path, line: bytes, timeout: float) -> tuple[bytes, Peer]:
    """One line there, one line back, and whose it is; both without their end. Raises Unavailable."""
    deadline = time.monotonic() + timeout
    try:
        with _connected(path, timeout) as connection:
            peer = peer_of(connection)
            with contextlib.suppress(ConnectionError):  # it may have answered already: it did not want to hear more
                connection.sendall(line + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                connection.settimeout(max(0.01, deadline - time.monotonic()))
                piece = connection.recv(65536)
                if not piece or len(answer) > LONGEST:
                    raise Unavailable(f"{path} gave no whole answer")
                answer += piece
    except OSError as error:
        raise Unavailable(f"{path} gave no answer: {error.strerror or error}") from None
    return answer[:-1], peer


def _connected(path: Path, timeout: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    connection.settimeout(timeout)
    try:
        with _short(path) as place:
            connection.connect(place)
    except OSError as error:
        connection.close()
        raise Unavailable(f"nobody answers at {path}: {error.strerror or error}") from None
    return connection


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """The kernel takes no more than 107 bytes: the folder is named by a descriptor."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
