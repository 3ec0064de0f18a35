"""The uplink's shell: keeps the reports, and keeps the link."""

import asyncio
import contextlib
import itertools
import logging
from collections import Counter
from pathlib import Path

from beehive.errors import Unavailable
from beehive.figures import CERTIFICATE_ENDS, Figures, Labels
from beehive.journal import Journal
from beehive.messages.tasks import CancelTask, ReportSeen, SendSnapshot, StartTask, TaskReport
from beehive.messages.uplink import CloudLost, CloudReached, Link, LinkState, Say
from beehive.module import Endpoint
from beehive.world import World
from modules.edgehub import figures as shown
from modules.edgehub import identity, link
from modules.edgehub.config import Config
from modules.edgehub.keeper import Keeper
from modules.edgehub.notes import Notes
from modules.edgehub.outbox import Outbox
from modules.edgehub.routes import Routes
from modules.edgehub.session import Session
from modules.edgehub.uplink import Connection, Dial, dial

log = logging.getLogger(__name__)

_LOOK_FOR_IDENTITY = (0.5, 1.0, 2.0, 5.0)
"""Seconds between looks whether this host has joined; the last one for ever."""
_UNTRIED = "it was not tried yet"

_log = logging.getLogger("beehive.edgehub")


class EdgeHub:
    """See the package. `dialling` stands for the network, so that a test may bring its own."""

    accepts = (Say, LinkState)
    sends = (StartTask, CancelTask, SendSnapshot, ReportSeen, CloudReached, CloudLost)
    asks = ()

    def __init__(self, config: Config, world: World, journal: Journal, dialling: "type[Network] | None" = None) -> None:
        self._config = config
        self._world = world
        self._network = (dialling or Network)(config, world)
        self.counters: Counter[str] = Counter()
        self._notes = Notes(journal, self.counters)
        self._outbox = Outbox()
        self._session: Session | None = None
        self._since = world.now()
        self._url = ""
        self._trouble = _UNTRIED
        self._nudge = asyncio.Event()
        self._keeper = Keeper(config, world, self.counters, self._renewed)
        self.figures = Figures(*shown.ALL)
        self.figures.derived(shown.CONNECTED, lambda: float(self._session is not None))
        self.figures.derived(shown.PENDING, lambda: float(len(self._outbox)))
        self.figures.derived(CERTIFICATE_ENDS, self._certificate_ends)

    async def run(self, endpoint: Endpoint) -> None:
        """Until its messages end; then it says goodbye to the cloud."""
        self._outbox = Outbox(self._notes.load())
        endpoint.ready()
        endpoint.waiting_for(f"the cloud: {self._trouble}")
        with contextlib.closing(Routes(self.nudge)):
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(one) for one in (self._keep_link(endpoint), self._keeper.run())]
                await self._listen(endpoint)
                for task in beside:
                    task.cancel()

    async def _listen(self, endpoint: Endpoint) -> None:
        async for envelope in endpoint.messages():
            if isinstance(envelope.body, Say):
                await self._say(envelope.body)
            elif isinstance(envelope.body, LinkState):
                endpoint.reply(envelope, self._state())
        if self._session is not None:
            await self._session.end()

    async def _say(self, say: Say) -> None:
        """Written down first, then said; a Hello is only said."""
        if isinstance(say.body, TaskReport):
            kept = self._outbox.put(say.body)
            if kept is None:
                self.counters["superseded"] += 1
                return
            self._notes.save(kept)
        if self._session is not None:
            await self._session.say(say.body)

    def _state(self) -> Link:
        connected = self._session is not None
        about = identity.read_or_none(Path(self._config.identity))
        trouble = "" if connected else self._trouble
        if trouble == _UNTRIED and not about.node:
            trouble = "this host has not joined"
        return Link(connected, self._since, self._url, len(self._outbox), trouble, about.node, about.ends)

    def _certificate_ends(self) -> dict[Labels, float]:
        try:
            ends = identity.read(Path(self._config.identity)).ends
        except Unavailable:
            return {}
        return {("node",): ends - self._world.now()} if ends else {}

    # ---- the link ----------------------------------------------------------------------------------------------

    def nudge(self) -> None:
        """Local routes have changed: dial at once, or see whether the link that stands still does."""
        if self._session is None:
            self._nudge.set()
        else:
            self._session.doubt()

    def _renewed(self) -> None:
        """A new certificate is here: dial with it, and from the link that stands go over to it."""
        self._nudge.set()
        if self._session is not None:
            self._session.leave()

    async def _keep_link(self, endpoint: Endpoint) -> None:
        """Executes what `link.step` says, one dial at a time."""
        config = self._config
        delays = link.Delays(self._world.random, config.first_delay, config.longest_delay, config.quiet_after)
        clock = asyncio.get_running_loop().time
        state: link.State = link.begin(clock())
        while True:
            news = await self._wait(state, clock())
            state, dials = link.step(state, news, clock(), delays)
            if not dials:
                continue
            connection = await self._dial(endpoint)
            state, _ = link.step(state, link.Opened() if connection else link.Failed(), clock(), delays)
            if connection is not None:
                spread = await self._hold(endpoint, connection)
                state, _ = link.step(state, link.Lost(spread), clock(), delays)

    async def _wait(self, state: link.State, now: float) -> link.Input:
        due = state.until - now if isinstance(state, link.Waiting) else 0.0
        try:
            async with asyncio.timeout(max(0.0, due)):
                await self._nudge.wait()
        except TimeoutError:
            return link.Alarm()
        self._nudge.clear()
        return link.Nudge()

    async def _dial(self, endpoint: Endpoint) -> Connection | None:
        """Every address once, in order; None when none works."""
        await self._network.await_identity(endpoint)
        for server in self._config.servers:
            try:
                connection = await self._network.dial(server)
            except Unavailable as trouble:
                self.counters["dial_failures"] += 1
                about = f"; {self._keeper.trouble}" if self._keeper.trouble else ""
                self._trouble = f"the cloud cannot be reached: {trouble}{about}"
                log.info("%s", self._trouble)
            else:
                self._url = f"wss://{server}"
                return connection
        endpoint.waiting_for(f"the cloud: {self._trouble}")
        return None

    async def _hold(self, endpoint: Endpoint, connection: Connection) -> float | None:
        """Use the link until it ends; gives the spread that the cloud asked for."""
        session = Session(self._network.node, connection, self._outbox, self._notes, self._world, self.counters)
        self._session, self._since = session, self._world.now()
        endpoint.ready()
        self._keeper.cloud_has(connection.ca)
        endpoint.publish(CloudReached(url=self._url))
        log.info("connected to %s as %s", self._url, self._network.node)
        try:
            await session.run(endpoint, self._config)
        finally:
            self._session, self._since = None, self._world.now()
            connection.cut()
        why, spread = connection.why()
        self._trouble = f"the link to {self._url} was lost: {why}"
        log.info("%s", self._trouble)
        endpoint.publish(CloudLost(reason=self._trouble))
        endpoint.waiting_for(self._trouble)
        return spread


class Network:
    """The real one: the identity of this host, and websockets."""

    def __init__(self, config: Config, world: World) -> None:
        self._config, self._world = config, world
        self.node = ""

    async def await_identity(self, endpoint: Endpoint) -> None:
        """Wait, visibly, until this host has joined. Read anew each time, so that a renewed certificate is used."""
        pauses = itertools.chain(_LOOK_FOR_IDENTITY, itertools.repeat(_LOOK_FOR_IDENTITY[-1]))
        told = ""
        while True:
            try:
                self.node, self._context = identity.load(
                    Path(self._config.identity), self._world.now(), self._config.ca_file
                )
            except Unavailable as trouble:
                endpoint.waiting_for(f"its identity: {trouble}")
                if str(trouble) != told:
                    told = str(trouble)
                    _log.warning("this host cannot speak to the cloud", extra={"reason": told})
                await asyncio.sleep(next(pauses))
            else:
                return

    async def dial(self, server: str) -> Connection:
        """Raises Unavailable."""
        config = self._config
        to = Dial(server, self.node, config.project, config.connect_timeout, config.proxy)
        return await dial(to, self._context)
