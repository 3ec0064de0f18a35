"""How busy and how full this host is."""

import os
import time
from pathlib import Path

from beehive.errors import Unavailable

_INTERVAL = 0.1


def cpu_percent() -> float:
    """Use of all processors over 0.1 s."""
    first = _cpu_ticks()
    time.sleep(_INTERVAL)
    second = _cpu_ticks()
    total = second[0] - first[0]
    return 100.0 * (1 - (second[1] - first[1]) / total) if total else 0.0


def mem_percent() -> float:
    """Use of the memory, without what the kernel can free."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return 100.0 * (1 - found["MemAvailable"] / found["MemTotal"])
    except (OSError, KeyError, ValueError) as error:
        raise Unavailable(f"The memory's use cannot be read from /proc/meminfo: {error}") from error


def disk_percent(path: Path) -> float:
    """Use of the file system that holds `path`, as `df` counts it."""
    found = _file_system(path)
    used = found.f_blocks - found.f_bfree
    return 100.0 * used / (used + found.f_bavail) if used + found.f_bavail else 100.0


def disk_free(path: Path) -> int:
    """Bytes that may still be written to the file system that holds `path` (or will)."""
    found = _file_system(path)
    return found.f_bavail * found.f_frsize


def _file_system(path: Path) -> os.statvfs_result:
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return os.statvfs(path)
    except OSError as error:
        raise Unavailable(f"The room on {path} cannot be read: {error.strerror}") from error


def _cpu_ticks() -> tuple[int, int]:
    """All ticks and the idle ones (idle and iowait)."""
    try:
        numbers = [int(text) for text in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError) as error:
        raise Unavailable(f"The processors' use cannot be read from /proc/stat: {error}") from error
    return sum(numbers), numbers[3] + numbers[4]
