"""The cloud's task manager: reads everything, plans, marks, and when the mark stands, cordons and tells.

One loop. Whatever takes time is asked in the background and comes back as a message to ourselves (`notes.py`). Nothing
is done outside the grant of the last `LeadershipChanged`; a new grant begins with reading everything afresh.
"""

import asyncio
import contextlib

from beehive.backoff import doubling
from beehive.errors import NoAnswer, PeerFailed, Undeliverable
from beehive.figures import Figures
from beehive.message import Lagged, Message
from beehive.messages.etcd import MembershipJudged
from beehive.messages.fleet import Answer, Heard, ListOnline, NodeOffline, NodeOnline, Tell
from beehive.messages.images import LookUpDigests
from beehive.messages.objects import (
    JobChanged,
    JobGone,
    LeadershipChanged,
    ListJobs,
    ListNodes,
    NodeChanged,
    NodeGone,
    PatchJob,
    PatchJobStatus,
    PatchNode,
    RecordEvent,
)
from beehive.module import Endpoint
from beehive.router import Kinds
from beehive.world import World
from modules.taskmanager import figures as shown
from modules.taskmanager.cloud.notes import DigestsFound, JobWritten, LookedUp, NodeWritten, StatusWritten
from modules.taskmanager.cloud.term import Term
from modules.taskmanager.config import CloudConfig

_NOTES = (StatusWritten, JobWritten, NodeWritten, LookedUp, DigestsFound)


class CloudTaskManager:
    """See product.md 3.4."""

    accepts: Kinds = (
        JobChanged, JobGone, NodeChanged, NodeGone, LeadershipChanged, NodeOnline, NodeOffline, Heard, MembershipJudged,
        Lagged, *_NOTES,
    )  # fmt: skip
    sends: Kinds = (Tell, Answer, RecordEvent, *_NOTES)
    asks: Kinds = (ListJobs, ListNodes, ListOnline, PatchJobStatus, PatchJob, PatchNode, LookUpDigests)

    def __init__(self, config: CloudConfig, world: World) -> None:
        self._config = config
        self._world = world
        self._number = 0
        self._until = 0.0
        """End of the grant, on the loop's clock."""
        self._read_at: float | None = None
        """When everything is to be read, on the loop's clock; None: it was."""
        self._fresh = True
        self.figures = Figures(*shown.ALL)
        for metric, labels in shown.FROM_THE_START:
            self.figures.begin(metric, *labels)

    @property
    def warning(self) -> str:
        """Which job's write does not stand, and why; empty when all do."""
        desks = self._term.books.desks.values() if self._number else ()
        troubled = [desk for desk in desks if desk.trouble]
        more = f" (and {len(troubled) - 1} more)" if len(troubled) > 1 else ""
        return f"job {troubled[0].job.metadata.name} cannot be written{more}: {troubled[0].trouble}" if troubled else ""

    async def run(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as self._group:
            self._begin()
            endpoint.ready()
            async for envelope in endpoint.messages(until=self._alarm):
                if envelope is not None:
                    await self._take(envelope.body)
                if self._leads() and self._term.alarm.is_due():
                    await self._look()
            self._term.background.end()

    # ---- leadership --------------------------------------------------------------------------------------------

    def _leads(self) -> bool:
        return self._until > self._loop.time()

    def _alarm(self) -> float | None:
        return self._term.alarm.next() if self._leads() else None

    def _grant(self, until: float) -> None:
        """A grant that follows another without a gap goes on; anything else begins a new term."""
        led, self._until = self._leads(), until
        if not (led and self._leads()):
            self._term.background.end()
            self._begin()
        self._term.alarm.soon()

    def _begin(self) -> None:
        """Forget everything: it is read again, or it meant another time."""
        self._number += 1
        self._term = Term(self._number, self._endpoint, self._group, self._config, self._world, self.figures)
        self._delays = doubling(self._config.retry_first, self._config.retry_cap)
        self._read_at, self._fresh = self._loop.time(), True

    # ---- messages ----------------------------------------------------------------------------------------------

    async def _take(self, body: Message) -> None:
        if isinstance(body, LeadershipChanged):
            self._grant(body.until)
        elif self._leads():
            await self._take_as_leader(body)
        elif isinstance(body, Heard):
            await self._term.telling.not_yet(body)

    async def _take_as_leader(self, body: Message) -> None:
        match body:
            case StatusWritten() | JobWritten() | NodeWritten() | LookedUp() | DigestsFound():
                if body.term == self._number:
                    await self._term.take(body)
            case Heard():
                await self._hear(body)
            case NodeChanged(node=node):
                self._term.node_changed(node)
            case JobChanged(job=job):
                self._term.job_changed(job)
            case Lagged():
                self._read_at = self._loop.time()
                self._term.alarm.soon()
            case _:
                await self._take_news(body)
                self._term.alarm.soon()

    async def _hear(self, heard: Heard) -> None:
        if self._read_at is not None:
            self._term.alarm.soon()
            if not await self._read():
                await self._term.telling.not_yet(heard)
                return
        await self._term.hear(heard)

    async def _take_news(self, body: Message) -> None:
        books, wall = self._term.books, self._world.now()
        match body:
            case JobGone(uid=uid):
                if uid in books.desks:
                    await self._term.gone(books.desks[uid])
            case NodeGone(name=name, uid=uid):
                books.drop_node(name, uid)
            case NodeOnline():
                books.went_online(body, wall)
            case NodeOffline():
                books.went_offline(body, wall)
            case MembershipJudged(critical_nodes=critical):
                books.critical = frozenset(critical)

    # ---- reading and looking -----------------------------------------------------------------------------------

    async def _look(self) -> None:
        if self._read_at is not None and not await self._read():
            return
        if not self._term.books.open_since:
            await self._see_hub()
        if self._leads():
            await self._term.look()

    async def _read(self) -> bool:
        """The sum of everything: after a start, a new grant and Lagged. False: not now, it is tried again."""
        if self._read_at is not None and self._read_at > self._loop.time():
            self._term.alarm.began()
            self._term.alarm.soon(self._read_at)
            return False
        try:
            jobs = await self._endpoint.ask(ListJobs(fresh=self._fresh), self._config.ask_timeout)
            nodes = await self._endpoint.ask(ListNodes(), self._config.ask_timeout)
            online = await self._endpoint.ask(ListOnline(), self._config.ask_timeout)
        except (NoAnswer, PeerFailed, Undeliverable) as error:
            self.figures.add(shown.ERRORS, "unread")
            self._read_at = self._loop.time() + next(self._delays)
            self._term.alarm.began()
            self._term.alarm.soon(self._read_at)
            self._endpoint.waiting_for(f"the list of jobs, nodes and sessions: {error}")
            return False
        books = self._term.books
        listed = {job.metadata.uid for job in jobs.items}
        for uid in [uid for uid in books.desks if uid not in listed]:
            await self._term.gone(books.desks[uid])
        for job in jobs.items:
            books.adopt_job(job, self._loop.time())
        books.replace_nodes(nodes.items)
        books.replace_sessions(online, self._world.now())
        if self._fresh:
            self._term.telling.inherit()
        self._read_at, self._fresh = None, False
        self._endpoint.ready()
        return True

    async def _see_hub(self) -> None:
        """The hub opens when it hears of the grant; until then nobody can be called offline."""
        with contextlib.suppress(NoAnswer, PeerFailed, Undeliverable):
            online = await self._endpoint.ask(ListOnline(), 5.0)
            self._term.books.replace_sessions(online, self._world.now())
        if not self._term.books.open_since:
            self._term.alarm.soon(self._loop.time() + 1.0)
