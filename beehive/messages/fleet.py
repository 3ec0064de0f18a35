"""Topic `fleet`, owned by cloudhub: the nodes that are connected, and what they say."""

from msgspec import Struct

from beehive.message import Command, Event, Request
from beehive.messages.tasks import Downstream, Upstream


class NodeOnline(Event, frozen=True, kw_only=True, gc=False, tag="fleet.node-online"):
    """cloudhub, when a node's session began. If lost: ask ListOnline."""

    node: str
    epoch: int
    """Grows with every session of that node: the end of an older session means nothing."""
    legacy: bool = False
    """A real EdgeCore: it is told `Check` once per attempt and nothing else (product.md 4)."""


class NodeOffline(Event, frozen=True, kw_only=True, gc=False, tag="fleet.node-offline"):
    """cloudhub, when the newest session of a node ended. If lost: ask ListOnline."""

    node: str
    epoch: int


class Tell(Command, frozen=True, kw_only=True, gc=False, tag="fleet.tell"):
    """taskmanager: say this to a node. If lost, or the node has no session: the next look says it again."""

    node: str
    body: Downstream
    answers: str = ""
    """Id of the node's message that this answers (its `parent_msg_id`)."""


class Answer(Command, frozen=True, kw_only=True, gc=False, tag="fleet.answer"):
    """taskmanager: what came of a report that arrived by POST. If lost: the POST ends with 503 after 10 s."""

    ticket: int
    outcome: str
    """`seen`, `unknown` or `not-yet`."""


class Heard(Command, frozen=True, kw_only=True, gc=False, tag="fleet.heard"):
    """cloudhub to taskmanager: a node said this. A command, so that a full inbox stops the socket and nothing is lost.

    `node` is what the node's certificate says, whatever the message says.
    """

    node: str
    epoch: int
    body: Upstream
    message_id: str = ""
    """To be named in the acknowledgement."""
    ticket: int = 0
    """Not 0 when it came by POST and somebody waits for `Answer`."""


class Session(Struct, frozen=True, gc=False):
    """A connected node."""

    node: str
    epoch: int
    since: float
    """Seconds since the epoch."""
    legacy: bool = False


class Online(Struct, frozen=True, gc=False):
    """All sessions now."""

    sessions: tuple[Session, ...]
    open_since: float
    """When this hub opened for this leadership (seconds since the epoch); 0.0 while it is closed. A node can be called
    offline at the earliest `offlineAfter` later (product.md 3.1)."""


class ListOnline(Request[Online], frozen=True, kw_only=True, gc=False, tag="fleet.list-online"):
    """taskmanager, after a start, a restart or Lagged."""
