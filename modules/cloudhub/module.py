"""The hub's shell: opens and closes the two ports with the leadership, and passes messages both ways."""

import asyncio
import contextlib
import logging

from msgspec import Struct

from beehive.backoff import doubling
from beehive.errors import NoAnswer, PeerFailed, Refused, RuntimeFailed, Unavailable
from beehive.figures import CERTIFICATE_ENDS, Figures
from beehive.journal import Journal
from beehive.message import Envelope, Lagged
from beehive.messages.fleet import Answer, Heard, ListOnline, NodeOffline, NodeOnline, Online, Tell
from beehive.messages.objects import GetSecret, LeadershipChanged, ListNodes, PutSecret, SecretChanged
from beehive.messages.runtime import Draining
from beehive.module import Endpoint
from beehive.world import World
from modules.cloudhub import figures as shown
from modules.cloudhub.config import Config
from modules.cloudhub.enrolment import Enrolment
from modules.cloudhub.fleet import Fleet, Pace
from modules.cloudhub.gate import Gate
from modules.cloudhub.keyring import Keyring
from modules.cloudhub.line import Room
from modules.cloudhub.reception import Reception
from modules.cloudhub.routes import Services, application
from modules.cloudhub.sessions import BLOCK, Sessions, first_epoch
from modules.cloudhub.tickets import Tickets
from modules.cloudhub.vault import Vault
from modules.cloudhub.web import ROOM, Web

log = logging.getLogger(__name__)

_EPOCHS = "epochs"
_FRESH = 3600.0
"""Seconds: so often the Secrets are read even if nothing said that they changed, and certificates are renewed."""


class Epochs(Struct, frozen=True):
    """The journal's only record: no epoch above this was given out."""

    reserved: int


class CloudHub:
    """The edge-facing sockets."""

    accepts = (Tell, Answer, ListOnline, LeadershipChanged, SecretChanged, Lagged, Draining)
    sends = (Heard, NodeOnline, NodeOffline)
    asks = (GetSecret, PutSecret, ListNodes)

    def __init__(self, config: Config, world: World, journal: Journal) -> None:
        self._config = config
        self._world = world
        self._journal = journal
        self.fleet: Fleet | None = None
        """Who is connected, while it runs."""
        self.websocket_port = 0
        self.https_port = 0
        """The real ports, once they are claimed."""
        self._gates: list[Gate] = []
        self.figures = Figures(*shown.ALL)

    @property
    def counters(self) -> dict[str, int]:
        """What was refused, cut off, told; each only grows until a restart."""
        return dict(self.fleet.counters) if self.fleet else {}

    def claim(self) -> None:
        """Both ports, shut: who comes is sent away until this process leads. Raises RuntimeFailed when one is taken."""
        if self._gates:
            return
        config = self._config
        try:
            for which, where in (("websocket", config.websocket), ("https", config.https)):
                self._gates.append(Gate(which, where.address, where.port))
        except RuntimeFailed:
            self.release()
            raise
        for gate in self._gates:
            gate.shut()
        self.websocket_port, self.https_port = (gate.port for gate in self._gates)
        log.info("websocket on port %d, HTTPS on port %d", self.websocket_port, self.https_port)

    def release(self) -> None:
        """Give the ports up."""
        while self._gates:
            self._gates.pop().close()

    async def run(self, endpoint: Endpoint) -> None:
        """Until its messages end. Raises RuntimeFailed when a port is taken."""
        self.claim()
        try:
            async with asyncio.TaskGroup() as group:
                await _Running(self, endpoint, self._gates, group).loop()
        finally:
            self.release()


class _Running:
    """One run of the hub: what must not outlive a restart."""

    def __init__(self, hub: CloudHub, endpoint: Endpoint, gates: list[Gate], group: asyncio.TaskGroup) -> None:
        self._config, self._world, self._journal = hub._config, hub._world, hub._journal
        self._endpoint = endpoint
        self._group = group
        self._gates = gates
        self._clock = asyncio.get_running_loop().time
        self._vault = Vault(endpoint.ask, self._config.secrets)
        self._keyring = Keyring(self._vault, self._config, self._world)
        noted = self._journal.load(_EPOCHS, Epochs)
        first = first_epoch(self._world.now(), noted.reserved if noted else 0)
        pace = Pace(self._config.messages_per_second, float(self._config.message_burst))
        self._fleet = hub.fleet = Fleet(endpoint, self._world, Sessions(first), group.create_task, pace)
        self._tickets = Tickets(endpoint, self._fleet.counters, self._fleet.leads)
        self._show(hub.figures)
        self._reserved = 0
        self._open_since = 0.0
        self._next_sweep = 0.0
        self._draining = False
        self._one_opening = asyncio.Lock()
        self._opening: asyncio.Task[None] | None = None
        self._other_time = asyncio.Event()
        """The leadership ends at another time than before."""
        self._stale = asyncio.Event()
        """The Secrets may say something else than the keyring."""
        self._web: Web | None = None

    def _show(self, figures: Figures) -> None:
        """What a scrape finds out by itself."""
        fleet, keyring, now = self._fleet, self._keyring, self._world.now
        figures.derived(shown.CONNECTED, lambda: shown.connected(fleet.sessions.all()))
        figures.derived(
            shown.REFUSED,
            lambda: shown.refused(dict(fleet.counters), sum(gate.turned_away for gate in self._gates)),
        )
        frames = {("in",): "frames_in", ("out",): "frames_out"}
        figures.derived(shown.FRAMES, lambda: {way: fleet.counters[name] for way, name in frames.items()})
        figures.derived(CERTIFICATE_ENDS, lambda: {(name,): end - now() for name, end in keyring.ends.items()})

    async def loop(self) -> None:
        self._shut()
        self._reserve()
        self._endpoint.ready()
        clock = self._group.create_task(self._watch_the_clock())
        try:
            async for batch in self._endpoint.batches():
                for envelope in batch:
                    self._take(envelope)
                self._look()
        finally:
            clock.cancel()
            self._close("this process stops")

    def _take(self, envelope: Envelope) -> None:
        match envelope.body:
            case Tell() as tell:
                self._fleet.tell(tell)
            case Answer() as answer:
                self._tickets.answer(answer)
            case ListOnline():
                self._endpoint.reply(envelope, Online(self._fleet.sessions.all(), self._open_since))
            case LeadershipChanged(until=until):
                self._fleet.until = until
                self._other_time.set()
                if self._fleet.leads() and self._opening is None and not self._draining:
                    self._opening = self._group.create_task(self._lead())
            case SecretChanged(name=name) if name not in self._keyring.names:
                pass
            case SecretChanged() | Lagged():
                self._stale.set()
            case Draining():
                self._draining = True
                self._close("this process stops")

    # ---- time --------------------------------------------------------------------------------------------------

    async def _watch_the_clock(self) -> None:
        """Beside the messages, so that a thousand of them at once do not ask a thousand times what time it is."""
        while True:
            self._other_time.clear()
            at = self._clock() + 1.0 if self._opening is None else min(self._next_sweep, self._fleet.until)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(at):
                    await self._other_time.wait()
            self._look()

    def _look(self) -> None:
        if self._opening is not None and not self._fleet.leads():
            self._close("this process does not lead now")
        now = self._clock()
        if now >= self._next_sweep:
            self._next_sweep = now + min(1.0, self._config.keepalive / 4)
            self._fleet.sweep(self._config.keepalive, self._config.unread)
        if self._fleet.sessions.last_epoch > self._reserved - BLOCK // 2:
            self._reserve()

    def _reserve(self) -> None:
        """Note epochs that may be given out, before they are: a later process begins after them."""
        self._reserved = self._fleet.sessions.last_epoch + BLOCK
        self._journal.save(_EPOCHS, Epochs(self._reserved))

    # ---- open and closed ---------------------------------------------------------------------------------------

    async def _lead(self) -> None:
        """Get the PKI, open, and keep it fresh until `_close`. One at a time."""
        async with self._one_opening:
            await self._load()
            self._open()
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_FRESH):
                        await self._stale.wait()
                if await self._load():
                    self._fleet.send_away("a certificate authority is trusted no more")
                self._fleet.revoke(self._keyring.revocations)

    async def _load(self) -> bool:
        """Read the Secrets; tries until it works. True: who is connected must show its certificate again."""
        delays = doubling(0.25, 10.0)
        while True:
            self._stale.clear()
            try:
                again = await self._keyring.load()
            except (Unavailable, Refused) as trouble:
                self._cannot_load(str(trouble))
                await asyncio.sleep(next(delays))
            else:
                self._endpoint.ready()
                return again

    def _cannot_load(self, trouble: str) -> None:
        """Who is open stays open, and ready: what is known still holds."""
        self._fleet.counters["keyring_failures"] += 1
        if self._open_since:
            self._fleet.say("keyring", f"certificates and revocations are those of before: {trouble}")
        else:
            self._endpoint.waiting_for(f"its certificates in the API server: {trouble}")

    def _open(self) -> None:
        config, fleet = self._config, self._fleet
        timeout = float(config.handshake_timeout)
        enrolment = Enrolment(
            self._vault, self._keyring, self._world, config.certificate_lifetime, fleet.counters, fleet.say
        )  # fmt: skip
        services = Services(enrolment, self._keyring, self._tickets, self._knows, self._world)
        web = self._web = Web(application(services), self._keyring.https, timeout, fleet.handshake_failed)
        reception = Reception(
            fleet, self._keyring.websocket, timeout, config.unread, self._keyring.generation, fleet.handshake_failed
        )  # fmt: skip
        fleet.revoke(self._keyring.revocations)
        websocket, https = self._gates
        websocket.open(Room(config.handshakes, config.handshakes_per_address), reception.receive)
        https.open(ROOM, web.receive)
        self._open_since = self._world.now()
        log.info("open for edges")

    async def _knows(self, node: str) -> bool | None:
        try:
            nodes = await self._endpoint.ask(ListNodes(), 5.0)
        except (NoAnswer, PeerFailed):
            return None
        return any(one.metadata.name == node for one in nodes.items)

    def _close(self, why: str) -> None:
        """Send everybody away and turn away who comes."""
        if self._opening is None:
            return
        self._opening.cancel()
        self._opening = None
        self._fleet.until = 0.0
        self._tickets.give_up()
        self._shut()
        if self._web is not None:
            self._web.stop()
            self._web = None
        self._fleet.send_away(why)
        self._open_since = 0.0
        self._endpoint.ready()
        log.info("closed for edges: %s", why)

    def _shut(self) -> None:
        for gate in self._gates:
            gate.shut()
