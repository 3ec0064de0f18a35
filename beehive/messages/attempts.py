"""Topic `attempts`, owned by taskmanager (edge): what this node works on, for who asks on the host."""

from msgspec import Struct

from beehive.message import Request


class InHand(Struct, frozen=True, gc=False, omit_defaults=True):
    """The attempt that this node works on."""

    job: str
    uid: str
    attempt: int
    version: str
    step: str
    begun: bool = True
    """False while it stands before `Upgrade` and asks the cloud for leave."""
    from_version: str = ""
    reason: str = ""
    """What is to be said of it, as a sentence; mostly nothing."""
    owner_left: float = 0.0
    """Seconds that its owner still has, while it waits for a word."""


class Attempts(Struct, frozen=True, gc=False, omit_defaults=True):
    """What this node remembers."""

    in_hand: InHand | None = None
    unacknowledged: int = 0
    """Last words that the cloud has not acknowledged."""
    fault: str = ""
    """What was wrong with the journal."""


class ListAttempts(Request[Attempts], frozen=True, kw_only=True, gc=False, tag="attempts.list-attempts"):
    """control, for `beehive edge status`."""
