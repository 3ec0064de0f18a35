"""The places where one bad thing must spoil only itself: one request, one message of a peer, one job's plan.

There, and in the supervisor and the upgrade tool, and nowhere else, everything is caught: the item is set aside,
counted, and logged under an id that is in the answer too, so that who was answered and who reads the log speak of the
same thing.
"""

import contextlib
import logging
from collections.abc import Iterator

from beehive.world import World


class Outcome:
    """How it went; `incident` is empty when nothing went wrong."""

    __slots__ = ("error", "incident")

    def __init__(self) -> None:
        self.incident = ""
        self.error: Exception | None = None


class Seam:
    """One such place.

    with self._seam.guarding(node=peer.node) as outcome:
        self._handle(peer, data)
    if outcome.incident:
        self._answer(peer, f"internal error {outcome.incident}")
    """

    def __init__(self, item: str, world: World, log: logging.Logger) -> None:
        self.set_aside = 0
        """How many items were."""
        self._item, self._world, self._log = item, world, log

    @contextlib.contextmanager
    def guarding(self, **about: object) -> Iterator[Outcome]:
        """Whatever the block raises ends here; being cancelled does not. `about` goes into the log line."""
        outcome = Outcome()
        try:
            yield outcome
        except Exception as error:
            outcome.incident, outcome.error = self._world.new_id(), error
            self.set_aside += 1
            self._log.exception("%s was set aside", self._item, extra={**about, "incident": outcome.incident})
