"""What a test session must not leave behind: processes, listening ports, temporary files."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "BEEHIVE_TEST_SESSION"
"""The environment variable by which every descendant of a session is known, whoever its parent is now."""


def processes(mark: str) -> list[str]:
    """``PID COMMAND`` of every process but this one that carries the session's mark in its environment."""
    return [f"{pid} {command}" for pid, command in _marked(mark) if pid != os.getpid()]


def _marked(mark: str) -> Iterator[tuple[int, str]]:
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except (OSError, ProcessLookupError):
            continue
        if wanted in environment:
            yield int(folder.name), command


def listening(ports: set[int]) -> list[int]:
    """Those of ``ports`` on which somebody still listens."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == "0A":
                found.add(int(local.rpartition(":")[2], 16))
    return sorted(ports & found)


def files(folder: Path) -> list[str]:
    """What lies in a folder that should be empty."""
    return sorted(path.name for path in folder.iterdir())


def found(mark: str, ports: set[int], temporary: Path, patience: float = 0) -> list[str]:
    """A sentence for each thing left, empty if all is clean; what is just ending gets ``patience`` seconds to do so."""
    end = time.monotonic() + patience
    while (left := _found(mark, ports, temporary)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def _found(mark: str, ports: set[int], temporary: Path) -> list[str]:
    return [
        *(f"process {process} still runs" for process in processes(mark)),
        *(f"port {port} is still listened on" for port in listening(ports)),
        *(f"temporary file {temporary / name} is still there" for name in files(temporary)),
    ]
