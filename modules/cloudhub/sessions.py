"""Who is connected: at most one session a node, the newest. Pure.

Laws: the newest session wins; its epoch is greater than all before, also across restarts; the end of an older session
never removes the newer one.
"""

from beehive.messages.fleet import Session

BLOCK = 1_000_000
"""So many epochs are reserved in the journal at once."""


def first_epoch(now: float, reserved: int) -> int:
    """The epoch to begin after: past everything that an earlier process can have given out.

    `reserved` is the end of the block that it noted (0 where the note is lost: then the clock, in ms, decides).
    """
    return max(int(now * 1000), reserved)


class Sessions:
    """The live sessions, and the last epoch given out."""

    def __init__(self, after: int) -> None:
        self.last_epoch = after
        self._newest: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._newest)

    def begin(self, node: str, now: float, legacy: bool) -> tuple[Session, Session | None]:
        """A node has connected: its new session, and the one that it replaces."""
        self.last_epoch += 1
        session = Session(node, self.last_epoch, now, legacy)
        replaced = self._newest.get(node)
        self._newest[node] = session
        return session, replaced

    def end(self, node: str, epoch: int) -> bool:
        """A session has ended: was it the newest, so that the node is offline now?"""
        newest = self._newest.get(node)
        if newest is None or newest.epoch != epoch:
            return False
        del self._newest[node]
        return True

    def all(self) -> tuple[Session, ...]:
        """All live sessions, in the order of their nodes' first coming."""
        return tuple(self._newest.values())
