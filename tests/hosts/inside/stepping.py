"""The real tool, one moment at a time: ``python -m tests.hosts.inside.stepping ARGUMENTS`` instead of ``keadm``.

A moment lies before and after whatever the tool does to the disk or to a service, and before each fsync. At each it
writes the moment's number and name to /cut/at and waits for /cut/go to hold that number: meanwhile somebody outside may
copy the disk, or pull the plug.
"""

import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from modules.upgrader.host.files import Files
from modules.upgrader.host.systemd import SystemdServices
from modules.upgrader.tool import main

CUT = Path("/cut")
_DISK = ("write", "copy", "make", "rename", "sync", "remove", "make_directory", "remove_tree")
_SERVICES = ("start", "stop")


class Moments:
    """Counts them."""

    def __init__(self) -> None:
        self.number = 0

    def pause(self, name: str) -> None:
        """Say where we are; wait for leave to go on."""
        at, beside = CUT / "at", CUT / "at.new"
        beside.write_text(f"{self.number} {name}")
        beside.rename(at)
        go = CUT / "go"
        while not (go.exists() and int(go.read_text() or "-1") >= self.number):
            time.sleep(0.002)
        self.number += 1


def around(moments: Moments, owner: Any, name: str, *, after: bool) -> None:
    """Put a moment before (and after) a function."""
    function: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(function)
    def paused(*arguments: Any, **named: Any) -> Any:
        about = next((f" {Path(one).name}" for one in arguments if isinstance(one, Path)), "")
        moments.pause(f"before {name}{about}")
        done = function(*arguments, **named)
        if after:
            moments.pause(f"after {name}{about}")
        return done

    setattr(owner, name, paused)


def run() -> int:
    """The tool's exit code."""
    moments = Moments()
    around(moments, os, "fsync", after=False)
    for name in _DISK:
        around(moments, Files, name, after=True)
    for name in _SERVICES:
        around(moments, SystemdServices, name, after=True)
    arguments = sys.argv[1:]
    return main(arguments[1:] if arguments[:1] == ["keadm"] else arguments)


if __name__ == "__main__":
    sys.exit(run())
