"""One at a time on this host: `flock` on KubeEdge's `idempotency_record`, with its holder inside (product.md 6.2).

The lock is the kernel's and is gone with its holder; the content only says who it is. A file that a killed process left
behind blocks nobody.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from beehive.errors import BeehiveError
from beehive.files import named

_TRIES = 20
_PAUSE = 0.025


class Holder(Struct, frozen=True, kw_only=True):
    """Who holds this host."""

    job: str = ""
    """Empty: a person."""
    uid: str = ""
    attempt: int = 0
    step: str = ""
    pid: int = 0
    boot: str = ""
    since: float = 0.0
    """Seconds since the epoch."""

    def phrase(self, now: float) -> str:
        """`job north, attempt 1, pid 4021, step Upgrade, since 12 s`."""
        who = f"job {self.job}, attempt {self.attempt}" if self.job else "somebody on this host"
        parts = [who, f"pid {self.pid}" if self.pid else "", f"step {self.step}" if self.step else ""]
        if self.since:
            parts.append(f"since {max(0.0, now - self.since):.0f} s")
        return ", ".join(part for part in parts if part)


class Busy(BeehiveError):  # noqa: N818 - the answer, as `Refused`
    """Somebody else holds this host (exit 3)."""

    def __init__(self, holder: Holder, now: float) -> None:
        self.holder = holder
        super().__init__(
            f"Another upgrade holds this host: {holder.phrase(now)}. Wait for it, or look: beehive edge logs."
        )


class Lock:
    """Held until it is released or its process ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def say(self, holder: Holder) -> None:
        """Write down who holds it, and what for."""
        data = msgspec.json.encode(holder) + b"\n"
        with named(self._path):
            os.pwrite(self._descriptor, data, 0)
            os.ftruncate(self._descriptor, len(data))

    def release(self) -> None:
        """The file goes first: KubeEdge's own keadm takes its mere existence for a lock. A second time is nothing."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        os.close(self._descriptor)
        self._descriptor = -1


@contextlib.contextmanager
def held(path: Path, holder: Holder) -> Iterator[Lock]:
    """Hold the host, or raise Busy at once."""
    lock = _take(path, holder)
    try:
        lock.say(holder)
        yield lock
    finally:
        lock.release()


@contextlib.contextmanager
def lent(path: Path) -> Iterator[None]:
    """Held as before, under another name: for a KubeEdge's keadm, which must find no file at this one, and makes it.

    Whoever calls this holds the lock.
    """
    path.rename(_aside(path))
    try:
        yield
    finally:
        _aside(path).rename(path)


def who_holds(path: Path) -> Holder | None:
    """Who holds the host now; None: nobody."""
    return _who_holds(_aside(path)) or _who_holds(path)


def _who_holds(path: Path) -> Holder | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _take(path: Path, holder: Holder) -> Lock:
    """Tries a few times: who only looks (`who_holds`) has the lock for a moment too."""
    found = Holder()
    for _ in range(_TRIES):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found = _read(descriptor)
            os.close(descriptor)
            time.sleep(_PAUSE)
            continue
        lending = _who_holds(_aside(path))
        if _is_still(path, descriptor) and lending is None:
            with contextlib.suppress(FileNotFoundError):
                _aside(path).unlink()  # of somebody who was killed while it was lent
            return Lock(path, descriptor)
        found = lending or found
        os.close(descriptor)  # its last holder took the file away between our open and our lock, or has lent it
    raise Busy(found, holder.since)


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}.lent")


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        named, ours = path.stat(follow_symlinks=False), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)


def _read(descriptor: int) -> Holder:
    try:
        return msgspec.json.decode(os.pread(descriptor, 4096, 0), type=Holder)
    except (msgspec.MsgspecError, OSError):
        return Holder()
