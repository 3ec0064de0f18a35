"""A control group for each host: without one, hosts of one machine would share the groups of their units."""

import contextlib
import os
from pathlib import Path

_TOP = Path("/sys/fs/cgroup")
_HIERARCHIES = ("systemd", "unified", "cpu", "cpuacct", "memory", "devices", "blkio", "pids")
"""Those of cgroup v1 that a systemd looks after."""
ENTER = 'for group in $GROUPS_OF_HOST; do echo $$ > "$group/cgroup.procs"; done; exec "$@"'
"""Shell: enter the groups that the environment names, then become the arguments."""


def make(name: str) -> list[Path]:
    """The host's groups, one in each hierarchy."""
    tops = [_TOP] if (_TOP / "cgroup.controllers").exists() else [_TOP / one for one in _HIERARCHIES]
    groups = [top / name for top in tops if (top / "cgroup.procs").exists()]
    for group in groups:
        group.mkdir(exist_ok=True)
    return groups


def remove(groups: list[Path]) -> None:
    """Take them away, from the innermost on; the host has ended."""
    for group in groups:
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def left(name: str) -> list[str]:
    """Groups whose name begins so."""
    return [str(group) for group in (*_TOP.glob(f"{name}*"), *_TOP.glob(f"*/{name}*"))]
