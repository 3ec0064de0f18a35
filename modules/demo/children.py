"""The demo's processes: each with its log, each ended by its own process id."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import httpx

from beehive.errors import RuntimeFailed

T = TypeVar("T")

COMMAND = (sys.executable, "-m", "beehive_cli")
"""How this installation's `beehive` is started."""


class Child:
    """One process that the demo started."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        self.name, self.arguments, self.log = name, tuple(arguments), log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self.arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def runs(self) -> bool:
        """It has not ended."""
        return self._process.poll() is None

    def must_run(self) -> None:
        """Raises RuntimeFailed, with the last lines of its log, when it has ended."""
        if not self.runs():
            raise RuntimeFailed(f"{self.name} ended with code {self._process.returncode}:\n{tail(self.log)}")

    def kill(self) -> None:
        """SIGKILL, as a power cut would."""
        self._process.kill()
        self._process.wait()

    def end(self, patience: float = 15.0) -> None:
        """SIGTERM, and SIGKILL when that did not help within `patience` seconds."""
        if not self.runs():
            return
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        if self.runs():
            self.kill()


def command(*arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Run one of beehive's own commands to its end: what it printed. Raises RuntimeFailed with its complaint."""
    done = subprocess.run(
        (*COMMAND, *arguments), check=False, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeFailed(f"beehive {' '.join(arguments)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def wait_until(look: Callable[[], T], seconds: float, what: str, *children: Child) -> T:
    """Look again and again until the answer is true. Raises RuntimeFailed that says what did not happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for child in children:
            child.must_run()
        with contextlib.suppress(OSError, httpx.HTTPError):
            found = look()
            if found:
                return found
        time.sleep(0.05)
    logs = "\n".join(f"  {child.name}:\n{tail(child.log)}" for child in children)
    raise RuntimeFailed(f"{what} did not happen within {seconds:g} s.\n{logs}")


def tail(log: Path, lines: int = 12) -> str:
    """The last lines of a log, indented."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "    (no log)"
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])
