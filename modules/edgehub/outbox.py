"""What the cloud has not yet seen: the newest snapshot of each (uid, attempt). Pure.

A later snapshot replaces an earlier one; a snapshot leaves when the cloud has seen its revision or a later one.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from beehive.api.nodeupgradejob import ActionResult
from beehive.messages.tasks import ReportSeen, TaskReport

Key = tuple[str, int]


class Kept(Struct, frozen=True, omit_defaults=True):
    """A record of the journal."""

    report: TaskReport
    said: int = 0
    """So many of its results were said to a cloud that acknowledges nothing."""


def key(message: TaskReport | ReportSeen) -> Key:
    """What a snapshot is of."""
    return message.uid, message.attempt


def record(of: Key) -> str:
    """Name of its record in the journal."""
    return f"report-{of[0]}-{of[1]}"


class Outbox:
    """The snapshots, oldest attempt first."""

    def __init__(self, kept: Iterable[Kept] = ()) -> None:
        self._kept: dict[Key, Kept] = {key(one.report): one for one in kept}

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, report: TaskReport) -> Kept | None:
        """Keep it: what to write down, or None when one at least as new is kept already."""
        former = self._kept.get(key(report))
        if former is not None and former.report.revision >= report.revision:
            return None
        made = Kept(report, former.said if former else 0)
        self._kept[key(report)] = made
        return made

    def seen(self, seen: ReportSeen) -> bool:
        """The cloud has seen this revision: is the snapshot done with?"""
        kept = self._kept.get(key(seen))
        if kept is None or kept.report.revision > seen.revision:
            return False
        del self._kept[key(seen)]
        return True

    def all(self) -> tuple[TaskReport, ...]:
        """Everything that is still to be acknowledged."""
        return tuple(kept.report for kept in self._kept.values())

    def unsaid(self, of: Key) -> tuple[ActionResult, ...]:
        """For a cloud that acknowledges nothing: the results that it was not told yet, in order."""
        kept = self._kept.get(of)
        return kept.report.results[kept.said :] if kept else ()

    def said(self, of: Key) -> Kept | None:
        """It was told one more result: what to write down, or None when it was told all, and nothing is kept."""
        kept = self._kept[of]
        told = replace(kept, said=kept.said + 1)
        if kept.report.final and told.said >= len(kept.report.results):
            del self._kept[of]
            return None
        self._kept[of] = told
        return told
