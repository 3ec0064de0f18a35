"""Topic `uplink`, owned by edgehub: the link to the cloud."""

from msgspec import Struct

from beehive.message import Command, Event, Request
from beehive.messages.tasks import Upstream


class CloudReached(Event, frozen=True, kw_only=True, gc=False, tag="uplink.cloud-reached"):
    """edgehub, when a session with the cloud began. If lost: ask LinkState."""

    url: str


class CloudLost(Event, frozen=True, kw_only=True, gc=False, tag="uplink.cloud-lost"):
    """edgehub, when the session ended; `reason` is a sentence. If lost: ask LinkState."""

    reason: str


class Say(Command, frozen=True, kw_only=True, gc=False, tag="uplink.say"):
    """taskmanager (edge): say this to the cloud. edgehub keeps the newest snapshot of each (uid, attempt) on disk and
    repeats it after each reconnection until `ReportSeen`; a `Hello` is not kept. The memory of the last 20 acknowledged
    results, by which a repeated StartTask is answered, is taskmanager's. If lost: the record says it again."""

    body: Upstream


class Link(Struct, frozen=True, gc=False):
    """The state of the link."""

    connected: bool
    since: float
    """Seconds since the epoch."""
    url: str
    waiting: int
    """Reports that were not yet acknowledged."""
    trouble: str = ""
    """Why it is not connected, as a sentence."""
    node: str = ""
    """Who this host is in the cluster; empty: it has not joined."""
    certificate_ends: float = 0.0
    """Until when its certificate is good, in seconds since the epoch; 0: nobody knows."""


class LinkState(Request[Link], frozen=True, kw_only=True, gc=False, tag="uplink.link-state"):
    """taskmanager (edge), after a start, a restart or Lagged; control, for `beehive edge status`."""
