"""The hub's shell: opens and closes the two ports with the leadership, and passes messages both ways."""

import asyncio
import logging
import ssl

from msgspec import Struct
from picows import WSUpgradeRequest, WSUpgradeResponse, WSUpgradeResponseWithListener, ws_create_server

from beehive.backoff import doubling
from beehive.errors import Refused, Unavailable
from beehive.journal import Journal
from beehive.message import Envelope
from beehive.messages import wire
from beehive.messages.fleet import Answer, Heard, ListOnline, NodeOffline, NodeOnline, Online, Tell
from beehive.messages.objects import GetSecret, LeadershipChanged, PutSecret
from beehive.messages.runtime import Draining
from beehive.module import Endpoint
from beehive.world import World
from modules.cloudhub import tls
from modules.cloudhub.config import Config
from modules.cloudhub.enrolment import Enrolment
from modules.cloudhub.fleet import Fleet
from modules.cloudhub.gate import BACKLOG, Gate
from modules.cloudhub.peer import Peer
from modules.cloudhub.pki import Pair
from modules.cloudhub.sessions import BLOCK, Sessions, first_epoch
from modules.cloudhub.vault import Vault
from modules.cloudhub.web import Web

log = logging.getLogger(__name__)

_EPOCHS = "epochs"


class Epochs(Struct, frozen=True):
    """The journal's only record: no epoch above this was given out."""

    reserved: int


class CloudHub:
    """The edge-facing sockets."""

    accepts = (Tell, Answer, ListOnline, LeadershipChanged, Draining)
    sends = (Heard, NodeOnline, NodeOffline)
    asks = (GetSecret, PutSecret)

    def __init__(self, config: Config, world: World, journal: Journal) -> None:
        self._config = config
        self._world = world
        self._journal = journal
        self.fleet: Fleet | None = None
        """Who is connected, while it runs."""
        self.websocket_port = 0
        self.https_port = 0
        """The real ports, once it is ready."""

    @property
    def counters(self) -> dict[str, int]:
        """What was refused, cut off, told; each only grows until a restart."""
        return dict(self.fleet.counters) if self.fleet else {}

    async def run(self, endpoint: Endpoint) -> None:
        """Until its messages end. Raises RuntimeFailed when a port is taken."""
        config = self._config
        gates = [Gate("websocket", config.websocket.address, config.websocket.port)]
        try:
            gates.append(Gate("https", config.https.address, config.https.port))
            self.websocket_port, self.https_port = (gate.port for gate in gates)
            log.info("websocket on port %d, HTTPS on port %d", self.websocket_port, self.https_port)
            async with asyncio.TaskGroup() as group:
                await _Running(self, endpoint, gates, group).loop()
        finally:
            for gate in gates:
                gate.close()


class _Running:
    """One run of the hub: what must not outlive a restart."""

    def __init__(self, hub: CloudHub, endpoint: Endpoint, gates: list[Gate], group: asyncio.TaskGroup) -> None:
        self._config, self._world, self._journal = hub._config, hub._world, hub._journal
        self._endpoint = endpoint
        self._group = group
        self._websocket_gate, self._https_gate = gates
        self._clock = asyncio.get_running_loop().time
        self._vault = Vault(endpoint.ask, hub._config.secrets)
        noted = self._journal.load(_EPOCHS, Epochs)
        self._fleet = Fleet(
            endpoint,
            self._world,
            Sessions(first_epoch(self._world.now(), noted.reserved if noted else 0)),
            group.create_task,
        )
        hub.fleet = self._fleet
        self._reserved = 0
        self._open_since = 0.0
        self._next_sweep = 0.0
        self._draining = False
        self._one_opening = asyncio.Lock()
        self._opening: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        self._web: Web | None = None
        self._serving: asyncio.Task[None] | None = None

    async def loop(self) -> None:
        self._shut()
        self._reserve()
        self._endpoint.ready()
        try:
            async for envelope in self._endpoint.messages(until=self._alarm):
                if envelope is not None:
                    self._take(envelope)
                self._look()
        finally:
            opening = self._opening
            self._close("this process stops")
            if opening is not None:
                opening.cancel()

    def _take(self, envelope: Envelope) -> None:
        match envelope.body:
            case Tell() as tell:
                self._fleet.tell(tell)
            case ListOnline():
                self._endpoint.reply(envelope, Online(self._fleet.sessions.all(), self._open_since))
            case LeadershipChanged(until=until):
                self._fleet.until = until
                if self._fleet.leads() and self._opening is None and not self._draining:
                    self._opening = self._group.create_task(self._open())
            case Draining():
                self._draining = True
                self._close("this process stops")
            case Answer():
                self._fleet.counters["answers_without_ticket"] += 1

    # ---- time --------------------------------------------------------------------------------------------------

    def _alarm(self) -> float:
        """When to look again, by the wall clock: for the next sweep, or when the leadership runs out."""
        now = self._clock()
        at = now + 1.0 if self._opening is None else min(self._next_sweep, self._fleet.until)
        return self._world.now() + max(0.0, at - now)

    def _look(self) -> None:
        if self._opening is not None and not self._fleet.leads():
            self._close("another process leads now")
        now = self._clock()
        if now >= self._next_sweep:
            self._next_sweep = now + min(1.0, self._config.keepalive / 4)
            self._fleet.sweep(self._config.keepalive)
        if self._fleet.sessions.last_epoch > self._reserved - BLOCK // 2:
            self._reserve()

    def _reserve(self) -> None:
        """Note epochs that may be given out, before they are: a later process begins after them."""
        self._reserved = self._fleet.sessions.last_epoch + BLOCK
        self._journal.save(_EPOCHS, Epochs(self._reserved))

    # ---- open and closed ---------------------------------------------------------------------------------------

    async def _open(self) -> None:
        """Get the PKI, then listen; tries until it works, or until `_close` gave up on it. One at a time."""
        async with self._one_opening:
            await self._open_alone()

    async def _open_alone(self) -> None:
        found = await self._certificates()
        if self._serving is not None:
            await self._serving
        if found is None or not self._still_opening():
            return
        ca, server = found
        lifetime = self._config.certificate_lifetime
        enrolment = Enrolment(self._vault, ca, self._world, lifetime, self._fleet.counters)
        web = self._web = Web(enrolment, tls.context(ca, server, ssl.CERT_OPTIONAL))
        self._serving = self._group.create_task(web.serve(self._https_gate.open()))
        await web.until_started(self._serving)
        listening = await self._listen(tls.context(ca, server, ssl.CERT_REQUIRED))
        if not self._still_opening():
            listening.close()
            web.stop()
            self._shut()
            return
        self._server = listening
        self._open_since = self._world.now()
        self._endpoint.ready()
        log.info("open for edges")

    def _still_opening(self) -> bool:
        return self._opening is asyncio.current_task()

    async def _certificates(self) -> tuple[Pair, Pair] | None:
        delays = doubling(0.25, 10.0)
        while self._still_opening():
            try:
                now = self._world.now()
                ca = await self._vault.ca(now)
                return ca, await self._vault.server(ca, self._config.advertise, now)
            except (Unavailable, Refused) as trouble:
                self._endpoint.waiting_for(f"its certificates in the API server: {trouble}")
            await asyncio.sleep(next(delays))
        return None

    async def _listen(self, context: ssl.SSLContext) -> asyncio.Server:
        return await ws_create_server(
            self._upgrade,
            sock=self._websocket_gate.open(),
            backlog=BACKLOG,
            ssl=context,
            ssl_handshake_timeout=self._config.handshake_timeout,
            websocket_handshake_timeout=self._config.handshake_timeout,
            enable_auto_pong=False,
            max_frame_size=wire.MOST_BYTES,
            read_buffer_init_size=2048,
            use_aiofastnet=False,
            logger_name=logging.Logger("picows.hub", level=logging.CRITICAL),
        )

    def _upgrade(self, request: WSUpgradeRequest) -> WSUpgradeResponseWithListener:
        """Any path. Without KubeEdge's header for messages nothing would ever be read (spec/kubeedge.md 5.2)."""
        if request.headers.get("ConnectionUse", "") not in ("msg", "str"):
            self._fleet.counters["refused_upgrade"] += 1
            return WSUpgradeResponseWithListener(
                WSUpgradeResponse.create_error_response(400, b"the header ConnectionUse: msg is missing\n"), None
            )
        own = {wire.PROTOCOL_HEADER: wire.PROTOCOL}
        return WSUpgradeResponseWithListener(WSUpgradeResponse.create_101_response(own), Peer(self._fleet, request))

    def _close(self, why: str) -> None:
        """Send everybody away and turn away who comes."""
        if self._opening is None:
            return
        self._opening = None
        self._fleet.until = 0.0
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._web is not None:
            self._web.stop()
            self._web = None
        self._fleet.send_away(why)
        self._open_since = 0.0
        self._shut()
        self._endpoint.ready()
        log.info("closed for edges: %s", why)

    def _shut(self) -> None:
        self._websocket_gate.shut()
        self._https_gate.shut()
