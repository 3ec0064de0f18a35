"""One server process: started, watched, and ended by its own handle."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

STARTED: list["Daemon"] = []
"""Every server of this session, for the check at its end."""
PORTS: set[int] = set()
"""Every port that this session asked for."""


# setpriv makes the process die with its parent; a parent that died before that is noticed by the shell.
_UNLESS_ORPHANED = '[ "$PPID" -eq "$0" ] && exec "$@"'


class StartError(Exception):
    """A server ended or stayed silent; the text holds the end of its log."""


class PortTakenError(StartError):
    """Another process took the port between asking and binding."""


class Daemon:
    """A server process whose output goes to ``FOLDER/NAME.log``. It dies with the thread that started it."""

    def __init__(
        self, name: str, argv: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._argv = [str(word) for word in argv]
        self._folder = folder
        self._environment = {**os.environ, "HOME": str(folder), **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        STARTED.append(self)

    @property
    def pid(self) -> int:
        """The process id; ``StartError`` if it does not run."""
        if self._process is None:
            raise StartError(f"{self.name} does not run")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, ready: Callable[[], object] | None = None, seconds: float = 30) -> None:
        """Starts the process and waits as ``wait_ready`` does, if there is something to wait for."""
        with self.log.open("ab") as log:
            command = [
                "setpriv",
                "--pdeathsig",
                "KILL",
                "--",
                "sh",
                "-c",
                _UNLESS_ORPHANED,
                str(os.getpid()),
                *self._argv,
            ]
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for pytest alone
            )
        if ready is not None:
            self.wait_ready(ready, seconds)

    def wait_ready(self, ready: Callable[[], object], seconds: float = 30) -> None:
        """Waits until ``ready`` answers something true; an OSError (no connection) counts as not yet.

        A process that ends or is not ready in time is killed: ``StartError`` says so, with the end of its log.
        """
        try:
            self._wait(ready, seconds)
        except BaseException:
            self.kill()
            raise

    def _wait(self, ready: Callable[[], object], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not _quietly(ready):
            if not self.running:
                kind = PortTakenError if "address already in use" in self.tail() else StartError
                raise kind(f"{self.name} ended before it was ready:\n{self.tail()}")
            if time.monotonic() > end:
                raise StartError(f"{self.name} was not ready after {seconds:g} s:\n{self.tail()}")
            time.sleep(0.02)

    def tail(self, characters: int = 3000) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""

    def pause(self) -> None:
        """Stops it in its tracks: its sockets stay open and silent.

        Waits until every thread stands: on a busy machine the others run on until the one that got the signal is woken.
        """
        os.kill(self.pid, signal.SIGSTOP)
        wait_until(lambda: _stands(self.pid), 10, f"{self.name} stands")

    def resume(self) -> None:
        """Lets a paused one go on."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self, seconds: float = 10) -> None:
        """Asks it to end, waits, and kills it after ``seconds``."""
        if self._process is None:
            return
        if self.running:
            self._process.terminate()
            self.resume()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """Ends it without asking."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _stands(pid: int) -> bool:
    states = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
    return set(states) <= {"T", "Z", "X"}


def _quietly(ready: Callable[[], object]) -> object:
    try:
        return ready()
    except OSError:
        return None


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that are free now and that this session has not asked for before."""
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in PORTS:
            PORTS.add(port)
            found.append(port)
    return found


def with_free_ports(start: Callable[[list[int]], T], count: int) -> T:
    """What ``start`` makes with ``count`` free ports; it is asked again, with others, when one was taken meanwhile."""
    for _ in range(5):
        try:
            return start(free_ports(count))
        except PortTakenError:
            continue
    return start(free_ports(count))


def wait_until(check: Callable[[], T], seconds: float, what: str) -> T:
    """The first true answer of ``check``, asked again and again; ``AssertionError`` with the last after ``seconds``."""
    end = time.monotonic() + seconds
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}; seen instead: {answer!r}")
        time.sleep(0.02)
