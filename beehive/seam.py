"""The places where one bad thing must spoil only itself: one request, one message of a peer, one job's plan.

There, and in the supervisor and the upgrade tool, and nowhere else, everything is caught: the item is set aside,
counted, and logged under an id that is in the answer too, so that who was answered and who reads the log speak of the
same thing.
"""

import logging
from types import TracebackType

from beehive.world import World


class Seam:
    """One such place.

    with self._seam.guarding(node=peer.node) as guard:
        self._handle(peer, data)
    if guard.incident:
        self._answer(peer, f"internal error {guard.incident}")
    """

    def __init__(self, item: str, world: World, log: logging.Logger) -> None:
        self.set_aside = 0
        """How many items were."""
        self._item, self._world, self._log = item, world, log

    def guarding(self, **about: object) -> "Guard":
        """For one item; `about` goes into the log line, should there be one."""
        return Guard(self, about)

    def _sets_aside(self, error: Exception, about: dict[str, object]) -> str:
        incident = self._world.new_id()
        self.set_aside += 1
        self._log.error("%s was set aside (%s)", self._item, incident, exc_info=error, extra=about)
        return incident


class Guard:
    """Whatever its block raises ends here; being cancelled, or the end of the process, does not."""

    __slots__ = ("_about", "_seam", "error", "incident")

    def __init__(self, seam: Seam, about: dict[str, object]) -> None:
        self.incident = ""
        """The id that is in the log; empty when nothing went wrong."""
        self.error: Exception | None = None
        self._seam, self._about = seam, about

    def __enter__(self) -> "Guard":
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error, self.incident = error, self._seam._sets_aside(error, self._about)
        return True
