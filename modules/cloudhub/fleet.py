"""All connected nodes: who is admitted, what is passed on, what is said to them. Counters, not exceptions."""

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import Struct
from picows import WSCloseCode

from beehive.errors import InboxFull, Refused, Undeliverable
from beehive.messages import wire
from beehive.messages.fleet import Heard, NodeOffline, NodeOnline, Tell
from beehive.messages.tasks import StartTask
from beehive.module import Endpoint
from beehive.seam import Seam
from beehive.world import World
from modules.cloudhub import identity
from modules.cloudhub.peer import MOST_REFUSED, Peer
from modules.cloudhub.revocations import Revocations
from modules.cloudhub.sessions import Sessions

log = logging.getLogger(__name__)

_A_MINUTE = 60.0
_RETURNS_PER_SECOND = 300.0
"""TLS handshakes that a hub can do: over so many seconds a fleet that is sent away is asked to spread itself."""


def message_ids(first: str) -> Callable[[], str]:
    """Ids in the form of a UUID, each a little different from `first`: a real one costs as much as the message."""
    head, numbers = first[:24], itertools.count(1)
    return lambda: f"{head}{next(numbers) % (1 << 48):012x}"


class Pace(Struct, frozen=True):
    """How quickly one node is read."""

    rate: float
    """Messages a second."""
    burst: float
    """Messages at once."""


class Fleet:
    """Holds the peers; `until` is the end of our leadership on the loop's clock, looked at for every frame."""

    def __init__(
        self, endpoint: Endpoint, world: World, sessions: Sessions, start: Callable[[Any], object], pace: Pace
    ) -> None:
        self.until = 0.0
        self.revocations = Revocations()
        self.counters: Counter[str] = Counter()
        self.sessions = sessions
        self._endpoint = endpoint
        self._world = world
        self._seam = Seam("a message of a node", world, log)
        self._start = start
        self._pace = pace
        self._refilled_at = 0.0
        self._new_id = message_ids(world.new_id())
        self._clock = asyncio.get_running_loop().time
        self._peers: dict[str, Peer] = {}
        self._told: dict[str, tuple[str, int]] = {}
        """What each legacy node was told last: it must not hear the same twice."""
        self._said: dict[str, float] = {}

    def peer(self, node: str) -> Peer | None:
        """The node's newest session."""
        return self._peers.get(node)

    def leads(self) -> bool:
        """May a frame be sent or taken now?"""
        return self._clock() < self.until

    # ---- coming and going --------------------------------------------------------------------------------------

    def arrived(self, peer: Peer, certificate: dict[str, Any] | None) -> None:
        """Admit it by its certificate, or close with 1008 and the reason."""
        try:
            node = identity.node_of(certificate)
            identity.check_claim(node, peer.claims)
            peer.begins, peer.ends = identity.lifetime_of(certificate or {})
            self.revocations.check(node, peer.begins)
        except Refused as refusal:
            self.counters["refused_identity"] += 1
            self.say(peer.claims, f"a connection was refused: {refusal}")
            peer.close(WSCloseCode.POLICY_VIOLATION, refusal.reason)
            return
        if not self.leads():
            self.counters["refused_without_leadership"] += 1
            peer.close(WSCloseCode.SERVICE_RESTART, wire.spread_reason(0.0, "this process does not lead"))
            return
        self._begin(peer, node)

    def _begin(self, peer: Peer, node: str) -> None:
        session, replaced = self.sessions.begin(node, self._world.now(), peer.legacy)
        former = self._peers.get(node)
        peer.admitted(node, session.epoch, self._seam.guarding(node=node))
        peer.allowance = self._pace.burst
        self._peers[node] = peer
        self.counters["sessions"] += 1
        if replaced is not None and former is not None:
            self.counters["replaced"] += 1
            former.close(WSCloseCode.POLICY_VIOLATION, "a newer connection of the same node took its place")
        self._endpoint.publish(NodeOnline(node=node, epoch=session.epoch, legacy=peer.legacy))

    def gone(self, peer: Peer) -> None:
        """Its connection ended; only the end of the newest means that the node is offline."""
        if peer.node and self.sessions.end(peer.node, peer.epoch):
            del self._peers[peer.node]
            self._endpoint.publish(NodeOffline(node=peer.node, epoch=peer.epoch))

    def revoke(self, revocations: Revocations) -> None:
        """From now on these certificates count no more, also those of open sessions."""
        self.revocations = revocations
        for peer in list(self._peers.values()):
            try:
                revocations.check(peer.node, peer.begins)
            except Refused as refusal:
                self._dismiss(peer, "cut_revoked", refusal.reason)

    def _dismiss(self, peer: Peer, counter: str, why: str) -> None:
        self.counters[counter] += 1
        self.say(peer.node, f"the session of node {peer.node} was ended: {why}")
        peer.close(WSCloseCode.POLICY_VIOLATION, why)
        self.gone(peer)

    def sweep(self, keepalive: float, unread: float) -> None:
        """End the session of who was mute for `keepalive` seconds, has not read for `unread`, or has expired."""
        now, wall = self._clock(), self._world.now()
        passed, self._refilled_at = min(1.0, now - self._refilled_at), now
        for peer in list(self._peers.values()):
            peer.refill(passed * self._pace.rate, self._pace.burst)
            if wall > peer.ends:
                self._dismiss(peer, "cut_expired", "its certificate has expired")
            elif peer.unread_since and now - peer.unread_since > unread:
                self.counters["cut_slow"] += 1
                peer.cut()
            elif now - peer.heard_at > keepalive and not peer.waits_for_us:
                self.counters["cut_mute"] += 1
                peer.cut()
        self._said = {key: when for key, when in self._said.items() if now - when < _A_MINUTE}

    def send_away(self, why: str) -> None:
        """Close every session with 1012; each edge comes back at its own moment."""
        spread = max(0.2, len(self._peers) / _RETURNS_PER_SECOND)
        for peer in list(self._peers.values()):
            peer.close(WSCloseCode.SERVICE_RESTART, wire.spread_reason(spread, why))
            self.gone(peer)

    # ---- from the nodes ----------------------------------------------------------------------------------------

    def frame(self, peer: Peer, data: bytes) -> None:
        """One message from a peer; whatever it does spoils only itself (the seam of architecture.md 9)."""
        guard = peer.guard
        if guard is None:  # it was not let in
            return
        with guard:
            self._frame(peer, data)
        if guard.incident:
            peer.guard = self._seam.guarding(node=peer.node)
            self._set_aside(peer, None, "failed", f"internal error {guard.incident}")

    def _frame(self, peer: Peer, data: bytes) -> None:
        self.counters["frames_in"] += 1
        try:
            read = wire.from_edge(data)
        except Refused as refusal:
            self._set_aside(peer, None, "refused_frames", refusal.reason)
            return
        body, node = read.body, peer.node
        if isinstance(body, wire.Other):
            self._other(peer, read, body)
        elif read.node != node:
            self._set_aside(peer, read, "about_another_node", f"{node} may not speak for {read.node}")
        elif self._clock() >= self.until:
            self.counters["without_leadership"] += 1
        else:
            peer.hand_on(Heard(node=node, epoch=peer.epoch, body=body, message_id=read.message_id))

    def _other(self, peer: Peer, read: wire.FromEdge, other: wire.Other) -> None:
        """Keepalives are life and nothing else; control operations are answered; the rest nobody knows here."""
        if other.operation == wire.KEEPALIVE:
            return
        if other.operation in wire.CONTROL:
            self._answer(peer, read, wire.RESPONSE, "ack")
            return
        self.counters["unknown_operations"] += 1
        if not peer.legacy and other.operation not in (wire.RESPONSE, wire.ERROR):
            self._answer(peer, read, wire.ERROR, f"the operation {other.operation[:60]!r} is not known here")

    def _set_aside(self, peer: Peer, read: wire.FromEdge | None, counter: str, reason: str) -> None:
        self.counters[counter] += 1
        peer.refused += 1
        self.say(peer.node, f"a message of node {peer.node} was set aside: {reason}")
        if peer.refused > MOST_REFUSED:
            self.counters["cut_refused"] += 1
            peer.close(WSCloseCode.POLICY_VIOLATION, f"{MOST_REFUSED} messages could not be used; the last: {reason}")
        elif not peer.legacy:
            nothing = wire.Other("", "", wire.Frame())
            self._answer(peer, read or wire.Read("", "", "", nothing), wire.ERROR, reason)

    def _answer(self, peer: Peer, read: wire.FromEdge, operation: str, text: str) -> None:
        if self.leads():
            self._write(peer, wire.answer(read, operation, text, self._new_id(), self._world.now()))

    def _write(self, peer: Peer, data: bytes) -> None:
        if not peer.has_room():
            self.counters["cut_slow"] += 1
            peer.cut()
        elif peer.write(data):
            self.counters["frames_out"] += 1

    def take_in(self, heard: Heard) -> Awaitable[None] | None:
        """To taskmanager; something to wait for when its inbox is full."""
        try:
            sent = self._endpoint.send(heard)
        except Undeliverable:
            self.counters["undeliverable"] += 1
            return None
        return None if asyncio.isfuture(sent) else self._patiently(sent, heard)

    async def _patiently(self, sent: Awaitable[None], heard: Heard) -> None:
        self.counters["paused"] += 1
        while True:
            try:
                await sent
            except InboxFull:
                sent = self._endpoint.send(heard, patience=60.0)
            except Undeliverable:
                self.counters["undeliverable"] += 1
                return
            else:
                return

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it beside the hub's loop."""
        self._start(work)

    # ---- to the nodes ------------------------------------------------------------------------------------------

    def tell(self, tell: Tell) -> None:
        """Say it to the node's newest session. Without one it is dropped: the next look says it again."""
        peer = self._peers.get(tell.node)
        if not self.leads():
            self.counters["tell_without_leadership"] += 1
        elif peer is None:
            self.counters["tell_without_session"] += 1
        else:
            data = self._spelt(peer, tell)
            if data is not None:
                self._write(peer, data)

    def _spelt(self, peer: Peer, tell: Tell) -> bytes | None:
        message_id, now = self._new_id(), self._world.now()
        if not peer.legacy:
            return wire.to_edge(tell.body, tell.node, message_id, now, tell.answers)
        if not isinstance(tell.body, StartTask) or self._told.get(tell.node) == (tell.body.uid, tell.body.attempt):
            self.counters["kept_from_legacy"] += 1
            return None
        self._told[tell.node] = (tell.body.uid, tell.body.attempt)
        return wire.to_legacy_edge(tell.body, tell.node, message_id, now)

    def handshake_failed(self, address: str, why: str) -> None:
        """TLS did not come about: a certificate that does not count, or somebody who is no node."""
        reason = "_".join(why.lower().split())[:60]
        self.counters["handshakes_failed"] += 1
        self.counters[f"handshake_{reason}"] += 1
        self.say(address, f"TLS with {address} did not come about: {why}")

    def say(self, whom: str, text: str) -> None:
        """At most once a minute about each, and about at most a thousand."""
        now = self._clock()
        if whom not in self._said and len(self._said) < 1000:
            self._said[whom] = now
            log.warning("%s", text)
