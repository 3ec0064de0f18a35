"""The real tool or agent, one moment at a time: ``python -m tests.hosts.inside.stepping ARGUMENTS`` for ``beehive``.

A moment lies before and after whatever the tool does to the disk or to a service, before each fsync, and before and
after each phase of the tool and each step of the agent. At each that /cut/stepping names (a part of a name on a line;
when it is empty: at each but those of phases) it writes the moment's number and name to /cut/at and waits for /cut/go
to hold that number: meanwhile somebody outside may copy the disk, pull the plug, or kill whom he likes.
"""

import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beehive_cli.root import run as beehive
from modules.upgrader.host.files import Files
from modules.upgrader.host.systemd import SystemdServices
from modules.upgrader.steps import Steps
from modules.upgrader.tool import main
from modules.upgrader.tool.phases import Phase
from modules.upgrader.tool.work import Tool

CUT = Path("/cut")
_DISK = ("write", "copy", "make", "rename", "sync", "remove", "make_directory", "remove_tree")
_SERVICES = ("start", "stop")


class Moments:
    """Counts them."""

    def __init__(self) -> None:
        self.number = 0
        self.only = (CUT / "stepping").read_text().split("\n")

    def pause(self, name: str) -> None:
        """Say where we are; wait for leave to go on."""
        if not any(wanted in name for wanted in self.only):
            return
        at, beside = CUT / "at", CUT / "at.new"
        beside.write_text(f"{self.number} {name}")
        beside.rename(at)
        go = CUT / "go"
        while not (go.exists() and int(go.read_text() or "-1") >= self.number):
            time.sleep(0.002)
        self.number += 1


def _named(one: Path | Phase) -> str:
    return one.name if isinstance(one, Path) else one.value


def around(moments: Moments, owner: Any, name: str, *, after: bool) -> None:
    """Put a moment before (and after) a function."""
    function: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(function)
    def paused(*arguments: Any, **named: Any) -> Any:
        about = next((f" {_named(one)}" for one in arguments if isinstance(one, Path | Phase)), "")
        moments.pause(f"before {name}{about}")
        done = function(*arguments, **named)
        if after:
            moments.pause(f"after {name}{about}")
        return done

    setattr(owner, name, paused)


def around_steps(moments: Moments) -> None:
    """Put a moment before and after each step of the agent."""
    function = Steps.run

    @functools.wraps(function)
    async def paused(self: Steps, task: Any) -> Any:
        moments.pause(f"before step {task.step}")
        done = await function(self, task)
        moments.pause(f"after step {task.step}")
        return done

    setattr(Steps, "run", paused)  # noqa: B010 - a method is not assigned to in plain sight


def run() -> int:
    """The exit code."""
    moments, arguments = Moments(), sys.argv[1:]
    if arguments[:1] != ["keadm"]:
        around_steps(moments)
        return beehive(arguments)
    if moments.only == [""]:
        around(moments, os, "fsync", after=False)
        for name in _DISK:
            around(moments, Files, name, after=True)
        for name in _SERVICES:
            around(moments, SystemdServices, name, after=True)
    else:
        around(moments, Tool, "_perform", after=True)
    return main(arguments[1:])


if __name__ == "__main__":
    sys.exit(run())
