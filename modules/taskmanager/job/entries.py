"""The list of nodes of a job: counting and small changes."""

from collections.abc import Iterable, Sequence

import msgspec

from beehive.api.nodeupgradejob import FAILURE, IN_PROGRESS, PENDING, UNKNOWN, JobStatus, NodeEntry
from beehive.api.tolerance import tolerance
from beehive.world import from_rfc3339, rfc3339
from modules.taskmanager import codes

OPEN = (PENDING, IN_PROGRESS)


def in_flight(entries: Iterable[NodeEntry]) -> int:
    """How many slots are in use."""
    return sum(entry.phase == IN_PROGRESS for entry in entries)


def moved(entry: NodeEntry, now: float, phase: str, code: str = "", reason: str = "") -> NodeEntry:
    """The entry in another phase, from now on."""
    return msgspec.structs.replace(
        entry, phase=phase, reason_code=code, reason=reason, since=rfc3339(now), wait_seconds=0
    )


def since(entry: NodeEntry) -> float:
    """Seconds since the epoch; 0.0 where somebody wrote what is no time, so that it ends rather than hangs."""
    try:
        return from_rfc3339(entry.since)
    except (ValueError, OverflowError):
        return 0.0


def entries_of(status: JobStatus) -> tuple[NodeEntry, ...]:
    return status.node_status or ()


class Budget:
    """How many nodes may fail, in exact arithmetic.

    Once nodes were skipped because it was spent, it stays spent whatever late words say; only `retry` counts afresh.
    """

    def __init__(self, tolerate: str, entries: Sequence[NodeEntry]) -> None:
        self.tolerance = tolerance(tolerate)
        self.total = len(entries)
        self.failed = sum(entry.phase in (FAILURE, UNKNOWN) for entry in entries)
        self._cut = any(entry.reason_code == codes.BUDGET_EXCEEDED for entry in entries)

    def count(self, entry: NodeEntry) -> None:
        """One more entry was closed."""
        self.failed += entry.phase in (FAILURE, UNKNOWN)

    @property
    def exceeded(self) -> bool:
        return self._cut or self.tolerance.exceeded(self.failed, self.total)
