"""One term of leadership: what is known, what is under way, and what follows from both.

`look` plans what may be planned and begins the writes; `follow` and `act` do what must wait until a write was answered.
"""

import asyncio
import logging
from collections.abc import Iterable

from beehive.api.node import Node, is_edge, is_ready, version_of
from beehive.api.nodeupgradejob import IN_PROGRESS, SUCCESSFUL, JobStatus, NodeEntry, NodeUpgradeJob
from beehive.figures import Figures
from beehive.messages.fleet import Heard
from beehive.messages.objects import Patched, RecordEvent
from beehive.messages.tasks import Hello
from beehive.module import Endpoint
from beehive.seam import Seam
from beehive.world import World
from modules.taskmanager import codes
from modules.taskmanager import figures as shown
from modules.taskmanager.cloud.alarm import Alarm
from modules.taskmanager.cloud.background import Background
from modules.taskmanager.cloud.books import Books, JobDesk, Said
from modules.taskmanager.cloud.cordons import Cordons
from modules.taskmanager.cloud.finalizing import Finalizing
from modules.taskmanager.cloud.listening import Listening
from modules.taskmanager.cloud.lookups import Lookups
from modules.taskmanager.cloud.notes import DigestsFound, JobWritten, LookedUp, NodeWritten, StatusWritten
from modules.taskmanager.cloud.telling import Telling
from modules.taskmanager.cloud.writing import Writing, Written
from modules.taskmanager.config import CloudConfig
from modules.taskmanager.cordon import Change, cordon_of
from modules.taskmanager.job import News, Plan, Round
from modules.taskmanager.story import events, log_lines

log = logging.getLogger(__name__)
_GATHER = 0.05
"""Seconds that words of nodes are gathered before they are looked at: those of one wave share a write."""
_BREATH = 250
"""After so many nodes others have their turn: who tells 5,000 of them must not hold the loop."""


class Term:
    """Everything here ends with the grant, and is read again with the next."""

    def __init__(
        self, number: int, endpoint: Endpoint, group: asyncio.TaskGroup, config: CloudConfig, world: World,
        figures: Figures,
    ) -> None:  # fmt: skip
        self._world = world
        self._figures = figures
        self._seam = Seam("the plan of a job", world, log)
        self.alarm = Alarm(world.now)
        self.background = Background(number, endpoint, group, config.ask_timeout)
        self.books = Books(config)
        self.telling = Telling(endpoint, self.books, world, figures)
        self.listening = Listening(self.books, self.telling, self.background)
        self._cordons = Cordons(self.books, self.background, self.alarm, config)
        self._writing = Writing(self.books, self.background, figures)
        figures.derived(shown.PENDING_REPORTS, self.books.unwritten)
        self._startable: dict[str, tuple[str, int]] = {}
        """Node -> uid and attempt of the mark that stands."""
        self._lookups = Lookups(self.books, self.background, self.alarm, config)
        self._finalizing = Finalizing(self.books, self._writing, self.alarm, world)
        self._untold: list[RecordEvent] = []
        """The story of what was written: told after what follows from it was begun."""
        self._planned: set[str] = set()
        """Uids of the jobs that the last look planned."""

    # ---- words of nodes ----------------------------------------------------------------------------------------

    async def hear(self, heard: Heard) -> None:
        """Take it in, and look when that can lead to something: not before its job may be written again."""
        desk = await self.listening.hear(heard)
        soon = self.alarm.now + _GATHER
        if isinstance(heard.body, Hello) or self._is_awaited(heard.node):
            self.alarm.soon(soon)
        elif desk is not None and not desk.writing:
            self.alarm.soon(max(soon, desk.not_before, desk.bucket.next_at(self.alarm.now)))

    def _is_awaited(self, node: str) -> bool:
        """It said that it is free, and a job waits for that."""
        if node not in self.listening.free:
            return False
        entries = (desk.entry(node) for desk in self.books.desks.values())
        return any(entry is not None and entry.reason_code == codes.BUSY for entry in entries)

    # ---- answers to what was begun -----------------------------------------------------------------------------

    async def take(self, note: StatusWritten | JobWritten | NodeWritten | LookedUp | DigestsFound) -> None:
        """The answer to something that was begun in this term."""
        match note:
            case NodeWritten():
                self._cordons.answered(note.node, note.answer)
                await self._tell(note.node)
                if self._finalizing.waits:
                    self.alarm.soon()
                return
            case DigestsFound():
                self._lookups.answered(note)
            case LookedUp():
                await self.listening.looked_up(note, self.alarm.now)
            case _:
                if desk := self.books.desks.get(note.uid):
                    await self._written(desk, note)
        self.alarm.soon()

    def job_changed(self, job: NodeUpgradeJob) -> None:
        """Our own writes come back by the watch: one that is known, or whose answer is waited for, is no news."""
        desk = self.books.desks.get(job.metadata.uid)
        known = desk is not None and desk.job.metadata.resource_version == job.metadata.resource_version
        if not self.books.adopt_job(job, self.alarm.now).writing and not known:
            self.alarm.soon()

    def node_changed(self, node: Node) -> None:
        """What the plan looks at is looked at again; of the rest only the cordon rule has a say."""
        name = node.metadata.name
        before = self.books.nodes.get(name)
        self.books.adopt_node(node)
        if before is None or _standing(before) != _standing(self.books.nodes[name]) or self._finalizing.waits:
            self.alarm.soon()
        else:
            self._cordons.touch(name)

    async def _written(self, desk: JobDesk, note: StatusWritten | JobWritten) -> None:
        lost: list[JobDesk] = []
        if isinstance(note, StatusWritten) and isinstance(note.answer, Patched):  # what failed tells no pace
            desk.bucket.wrote(note.answer.took or note.took)
        written = self._writing.answered(desk, note.answer, lost.append)
        if written is not None and isinstance(note, StatusWritten):
            await self._follow(written)
        for one in lost:
            await self.gone(one)

    async def gone(self, desk: JobDesk) -> None:
        """The job is no more: its nodes are told, what they said concerns nobody, its cordons have no owner."""
        self.books.desks.pop(desk.uid, None)
        for entry in desk.job.status.node_status or ():
            if entry.phase == IN_PROGRESS:
                await self.telling.cancel(desk, entry, "the job is gone")
        for said in desk.drop_said():
            await self.telling.seen(said.heard, said.report, None, "unknown")

    async def _follow(self, written: Written) -> None:
        """The status stands: acknowledge what it holds, stop who was closed without a word, tell the story."""
        desk = written.desk
        self.telling.count(written.seen)
        await self._acknowledge(desk, written.seen)
        for old, new in _moved(written.before, desk.job.status):
            if old.phase == IN_PROGRESS and not codes.is_own_word(new.phase, new.reason_code):
                await self._take_back(desk, new)
            if new.phase == SUCCESSFUL and old.phase != IN_PROGRESS:
                self._tell_late(desk, new)
        self._untold += events(written.before, desk.job, self.books.nodes)
        for line in log_lines(written.before, desk.job):
            log.log(logging.WARNING if line.warning else logging.INFO, line.text, extra=line.about)

    async def _take_back(self, desk: JobDesk, entry: NodeEntry) -> None:
        if entry.reason_code != codes.BUSY:
            await self.telling.cancel(desk, entry, "its time is over")

    def _tell_late(self, desk: JobDesk, entry: NodeEntry) -> None:
        """A success after its cordon was undone gets its line of history in a patch of its own."""
        node = self.books.nodes.get(entry.node_name)
        held = cordon_of(node) if node else None
        if held is None or held.uid != desk.uid:
            change = Change(entry.historic_version, entry.current_version or desk.job.spec.version)
            self._cordons.late[entry.node_name] = change

    # ---- looking -----------------------------------------------------------------------------------------------

    async def look(self) -> None:
        """Plan what may be planned, begin the writes, and act on what stands."""
        began = self.alarm.began()
        planned = self._plan()
        self.alarm.plan_at = planned.look_again
        for uid, status in planned.statuses.items():
            self._writing.status(self.books.desks[uid], status)
        await self._acknowledge_repeated(planned)
        await self._act(planned)
        self.background.tell(self._untold)
        self._untold = []
        self.alarm.ended(began)

    def _plan(self) -> Plan:
        books = self.books
        self._finalizing.look()
        news = News(
            reports=books.reports(),
            cordons=self._cordons.refused(),
            free=frozenset(self.listening.free),
            critical=books.critical,
            digests=self._lookups.look(),
            unanswered={uid: tuple(desk.unanswered) for uid, desk in books.desks.items() if desk.unanswered},
            held=frozenset(uid for uid, desk in books.desks.items() if self._is_held(desk)),
        )
        one = Round(books.jobs(), books.nodes, books.fleet(), news, self._world.now())
        self._planned = set(books.desks) - news.held
        for job in one.order:
            with self._seam.guarding(job=job.metadata.name) as guard:
                one.take(job)
            if guard.incident:
                self._planned.discard(job.metadata.uid)
                self._set_aside(books.desks[job.metadata.uid], guard.incident)
        if not news.held:  # a job that could not be planned has yet to hear of them
            self.listening.free.clear()
        return one.result()

    async def _acknowledge(self, desk: JobDesk, words: Iterable[Said]) -> None:
        for count, said in enumerate(words, 1):
            await self.telling.seen(said.heard, said.report, desk)
            await self.listening.check_pace(said.heard, said.report, desk)
            if count % _BREATH == 0:
                await asyncio.sleep(0)

    async def _acknowledge_repeated(self, planned: Plan) -> None:
        """Words that were planned with and changed nothing stand already: somebody else's write holds them."""
        for desk in self.books.desks.values():
            if desk.said and desk.uid in self._planned and desk.uid not in planned.statuses:
                await self._acknowledge(desk, desk.drop_said())

    def _is_held(self, desk: JobDesk) -> bool:
        """It may not be planned now; comes again by itself when it may."""
        if desk.writing or desk.deleting or desk.aside == desk.job.metadata.generation:
            return True
        if not desk.is_ours and desk.open:
            return True
        now = self.alarm.now
        at = max(desk.not_before, desk.bucket.next_at(now))
        if at > now + 1e-6:
            self.alarm.soon(at)
            return True
        return False

    def _set_aside(self, desk: JobDesk, incident: str) -> None:
        desk.aside = desk.job.metadata.generation
        self._figures.add(shown.ERRORS, "plan")
        why = f"its plan failed inside the controller; nothing is started until its spec changes (log mark {incident})"
        self._writing.set_aside(desk, why, self._world.now())

    # ---- acting ------------------------------------------------------------------------------------------------

    async def _act(self, planned: Plan) -> None:
        """Cordon what is marked, uncordon what is not, tell who may start, stop who was aborted."""
        self._cordons.assign()
        self._cordons.mend()
        self._startable = {one.node: (one.uid, one.attempt) for one in planned.start}
        self.telling.keep(self._startable)
        for count, node in enumerate(list(self._startable), 1):
            await self._tell(node)
            if count % _BREATH == 0:
                await asyncio.sleep(0)
        for desk in list(self.books.desks.values()):
            if desk.deleting or desk.job.spec.abort:
                why = "the job is being deleted" if desk.deleting else "the job was aborted"
                for entry in desk.in_flight():
                    await self.telling.cancel(desk, entry, why)

    async def _tell(self, node: str) -> None:
        """Tell it to start if its mark and its cordon stand."""
        key = self._startable.get(node)
        desk = self.books.desks.get(key[0]) if key else None
        entry = desk.entry(node) if desk else None
        owner = self._cordons.owners.get(node)
        if desk is None or entry is None or owner is None or not self._cordons.stands(node):
            return
        if entry.phase == IN_PROGRESS and key == (owner.uid, owner.attempt) == (desk.uid, entry.attempt):
            await self.telling.start(desk, entry)


def _standing(node: Node) -> tuple[bool, bool, str]:
    return is_edge(node), is_ready(node), version_of(node)


def _moved(before: JobStatus, after: JobStatus) -> list[tuple[NodeEntry, NodeEntry]]:
    """Entries whose phase changed."""
    pairs = zip(before.node_status or (), after.node_status or (), strict=False)
    return [(old, new) for old, new in pairs if old is not new and old.phase != new.phase]
