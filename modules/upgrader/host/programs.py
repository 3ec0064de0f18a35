"""Asks a program for its version: never trusted, never as root if we are, never for long."""

import contextlib
import errno
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from beehive.errors import Refused
from modules.upgrader.config import Target

_NOBODY = 64321
"""A user id that owns nothing: below those that systemd gives away, above those of people."""
_MOST = 64 * 1024
_BUSY_PAUSE = 0.05
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/"}
_FOUND = re.compile(
    r"(?<![\w.])v?[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z_.-]*[0-9A-Za-z_])?(?:\+[0-9A-Za-z_.-]*[0-9A-Za-z_])?"
)


def version_in(output: str) -> str:
    """The first version that a program's answer names (`KubeEdge v1.23.0` → `v1.23.0`); empty: none. Pure."""
    found = _FOUND.search(output)
    if found is None:
        return ""
    return found[0] if found[0].startswith("v") else f"v{found[0]}"


def version_of(program: Path, timeout: float) -> str:
    """What the program at this path answers to `--version`. Refused, with the reason, if it does not."""
    try:
        descriptor = os.open(program, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(f"{program} cannot be opened: {error.strerror}") from error
    try:
        user = _NOBODY if os.geteuid() == 0 else None
        return _ask(f"/proc/self/fd/{descriptor}", program.name, timeout, user, (descriptor,))
    finally:
        os.close(descriptor)


def version_of_running(pid: int, target: Target, executable: Path, timeout: float) -> str:
    """What the *running* program answers: an ELF file by its `/proc/PID/exe`, a script by its path.

    As the user that the process has: it has these powers anyway, and a program may look at its own process.
    """
    if target.format != "elf":
        return version_of(executable, timeout)
    try:
        owner = os.stat(f"/proc/{pid}").st_uid if os.geteuid() == 0 else None  # noqa: PTH116
    except OSError as error:
        raise Refused(f"{executable.name} (pid {pid}) is gone") from error
    return _ask(f"/proc/{pid}/exe", executable.name, timeout, owner or None, ())


def runs_from(pid: int, target: Target, executable: Path, copies: Sequence[str] = ()) -> bool:
    """Does this process run the file that lies at the target's place now, or a copy of a program at one of `copies`?"""
    try:
        if target.format == "elf":
            running, placed = os.stat(f"/proc/{pid}/exe"), executable.stat()  # noqa: PTH116
            same_file = (running.st_dev, running.st_ino) == (placed.st_dev, placed.st_ino)
            return same_file or any(fnmatchcase(os.readlink(f"/proc/{pid}/exe"), one) for one in copies)  # noqa: PTH115
        return os.fsencode(executable) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _ask(executable: str, name: str, timeout: float, user: int | None, descriptors: tuple[int, ...]) -> str:
    child = _started(executable, name, timeout, user, descriptors)
    with child:
        try:
            output, in_time = _read(child, time.monotonic() + timeout)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    found = version_in(output)
    if not found and not in_time:
        raise Refused(f"{name} --version gave no answer within {timeout:g} s")
    if not found:
        raise Refused(f"{name} --version ended with code {child.returncode} and named no version")
    return found


def _started(
    executable: str, name: str, timeout: float, user: int | None, descriptors: tuple[int, ...]
) -> "subprocess.Popen[bytes]":
    """Between its fork and its exec, a child of another thread holds what we were writing a moment ago: ETXTBSY."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return subprocess.Popen(
                (name, "--version"),
                executable=executable,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=_ENVIRONMENT,
                pass_fds=descriptors,
                start_new_session=True,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )
        except OSError as error:
            if error.errno != errno.ETXTBSY or time.monotonic() > deadline:
                raise Refused(f"{name} cannot be run: {error.strerror}") from error
        time.sleep(_BUSY_PAUSE)


def _read(child: "subprocess.Popen[bytes]", deadline: float) -> tuple[str, bool]:
    """What it says until it ends, says enough, or has no time left; and whether it was in time."""
    assert child.stdout is not None
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while len(said) < _MOST:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return said.decode("utf-8", "replace"), False
            piece = os.read(child.stdout.fileno(), _MOST)
            if not piece:
                break
            said += piece
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(max(0.01, deadline - time.monotonic()))
    return said.decode("utf-8", "replace"), True
