"""The host's own clocks: a lease is counted on one that nobody can set (product.md 3.4.7)."""

import time
from functools import lru_cache
from pathlib import Path

from modules.taskmanager.record import Moment

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def host_moment(wall: float) -> Moment:
    """Now, where the wall clock says `wall`."""
    return Moment(wall, _boot(), time.clock_gettime(time.CLOCK_BOOTTIME))


@lru_cache
def _boot() -> str:
    return _BOOT_ID.read_text().strip()
