"""The only impurities that rules may be given: the wall clock, new ids, and chance."""

import random
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from msgspec import Struct


class World(Struct, frozen=True):
    """Built once for a process; tests build their own. Waiting uses the event loop's clock, never this one."""

    now: Callable[[], float] = time.time
    """Seconds since the epoch, by the wall clock: it may jump."""
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    """A new UUID as text."""
    random: Callable[[], float] = random.random
    """Evenly from [0, 1): jitter, nothing secret."""


def rfc3339(seconds: float) -> str:
    """Kubernetes' spelling of a time: UTC, whole seconds, `Z` (spec/kubeedge.md 11.4)."""
    return _spelled(int(seconds))


@lru_cache(maxsize=256)
def _spelled(seconds: int) -> str:
    """The same second is spelled for thousands of nodes."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def from_rfc3339(text: str) -> float:
    """The inverse, tolerant of fractions and offsets; raises ValueError for anything else."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment.timestamp()
