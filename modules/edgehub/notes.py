"""The outbox on disk: one record of the journal for each snapshot."""

import logging
from collections import Counter

from beehive.journal import Journal
from modules.edgehub.outbox import Kept, Key, key, record

log = logging.getLogger(__name__)


class Notes:
    """A disk that does not take them costs durability, never a report: taskmanager has the record that matters."""

    def __init__(self, journal: Journal, counters: Counter[str]) -> None:
        self._journal = journal
        self._counters = counters

    def load(self) -> list[Kept]:
        """What was not acknowledged when the process ended."""
        names = filter(lambda name: name.startswith("report-"), self._journal.keys())
        found = (self._journal.load(name, Kept) for name in names)
        return [kept for kept in found if kept is not None]

    def save(self, kept: Kept) -> None:
        """Write it down."""
        try:
            self._journal.save(record(key(kept.report)), kept)
        except OSError as error:
            self._trouble(error)

    def forget(self, of: Key) -> None:
        """It was acknowledged."""
        try:
            self._journal.forget(record(of))
        except OSError as error:
            self._trouble(error)

    def _trouble(self, error: OSError) -> None:
        self._counters["journal_failures"] += 1
        log.warning("a report cannot be written down: %s", error)
