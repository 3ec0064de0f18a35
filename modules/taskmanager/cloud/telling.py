"""What nodes are told, and what was told already: once per attempt and session, never before the cordon stands."""

import logging
from collections.abc import Collection, Iterable

from beehive.api.nodeupgradejob import IN_PROGRESS, NodeEntry
from beehive.errors import InboxFull, Undeliverable
from beehive.figures import Figures
from beehive.messages.fleet import Answer, Heard, Tell
from beehive.messages.tasks import Downstream, ReportSeen, StartTask, TaskReport
from beehive.module import Endpoint
from beehive.world import World
from modules.taskmanager import figures as shown
from modules.taskmanager.cloud.books import Books, JobDesk, Said
from modules.taskmanager.orders import cancel_task, lease, start_task

log = logging.getLogger(__name__)


class Telling:
    """The only place from which nodes are told anything."""

    def __init__(self, endpoint: Endpoint, books: Books, world: World, figures: Figures) -> None:
        self._endpoint = endpoint
        self._books = books
        self._world = world
        self._told: dict[str, tuple[str, int, int, str]] = {}
        """Node -> uid, attempt, epoch and word of the last order."""
        self._legacy_told: set[tuple[str, str, int]] = set()
        self._figures = figures
        self._begun: dict[str, tuple[tuple[str, int], float]] = {}
        """Node -> uid and attempt that it was told to start, and when, by the wall clock."""
        self._counted: dict[str, tuple[tuple[str, int], set[str]]] = {}
        """Node -> uid and attempt, and which of its steps were counted: agent and tool both say the last word."""

    def count(self, words: Iterable[Said]) -> None:
        """How long the steps took, of each attempt that ended."""
        for said in words:
            node, attempt = said.heard.node, (said.report.uid, said.report.attempt)
            if not said.report.final:
                continue
            key, at = self._begun.get(node, (("", 0), 0.0))
            told = at if key == attempt else None
            if self._counted.get(node, (("", 0), set()))[0] != attempt:
                self._counted[node] = attempt, set()
            counted = self._counted[node][1]
            for step, result, seconds in shown.steps(said.report.results, told):
                if step not in counted:
                    counted.add(step)
                    self._figures.observe(shown.STEP, seconds, step, result)

    def inherit(self) -> None:
        """Marks that another leader made: a real EdgeCore may have begun, and a second `Check` starts a second
        upgrade there, so it is not told again (product.md 4)."""
        self._legacy_told = {(desk.uid, entry.node_name, entry.attempt) for desk, entry in self._books.in_flight()}

    def keep(self, marked: Collection[str]) -> None:
        """Whose mark was taken back is told again when it is marked again, even in the same attempt and session."""
        for node in [node for node, told in self._told.items() if told[3] == "start" and node not in marked]:
            del self._told[node]

    def forget(self, node: str) -> None:
        """It asks: what it was told last is to be said again."""
        self._told.pop(node, None)

    async def start(self, desk: JobDesk, entry: NodeEntry) -> None:
        """Begin, once per session."""
        key = (desk.uid, entry.node_name, entry.attempt)
        session = self._books.sessions.get(entry.node_name)
        if session is None or (session.legacy and key in self._legacy_told):
            return
        order = start_task(desk.job, entry, self._world.now())
        if await self._once(entry.node_name, order, "start"):
            begun = (desk.uid, entry.attempt)
            if self._begun.get(entry.node_name, (("", 0), 0.0))[0] != begun:
                self._begun[entry.node_name] = begun, self._world.now()
            if session.legacy:
                self._legacy_told.add(key)

    async def cancel(self, desk: JobDesk, entry: NodeEntry, why: str) -> None:
        """Stop, once per session."""
        order = cancel_task(desk.job.metadata.name, desk.uid, entry.attempt, why)
        await self._once(entry.node_name, order, "cancel")

    async def answer(self, heard: Heard, order: Downstream) -> bool:
        """The answer to what a node said."""
        return await self._say(Tell(node=heard.node, body=order, answers=heard.message_id))

    async def seen(self, heard: Heard, report: TaskReport, desk: JobDesk | None, outcome: str = "seen") -> None:
        """It stands in the API server, or concerns nobody (any more). Renews the lease of a node in flight."""
        if heard.ticket:
            await self._say(Answer(ticket=heard.ticket, outcome=outcome))
            return
        entry = desk.entry(heard.node) if desk else None
        flies = entry is not None and entry.phase == IN_PROGRESS and entry.attempt == report.attempt
        left = lease(desk.job, entry, self._world.now()) if desk and entry and flies and not desk.job.spec.abort else 0
        order = ReportSeen(
            job=report.job, uid=report.uid, attempt=report.attempt, revision=report.revision, lease_seconds=left
        )
        await self.answer(heard, order)

    async def not_yet(self, heard: Heard) -> None:
        """Nobody knows yet what this is about: no acknowledgement, so that the node repeats it."""
        if heard.ticket:
            await self._say(Answer(ticket=heard.ticket, outcome="not-yet"))

    async def _once(self, node: str, order: Downstream, word: str) -> bool:
        session = self._books.sessions.get(node)
        if session is None:
            return False
        key = (order.uid, order.attempt, session.epoch, word)
        if self._told.get(node) == key or not await self._say(Tell(node=node, body=order)):
            return False
        self._told[node] = key
        return True

    async def _say(self, said: Tell | Answer) -> bool:
        if isinstance(said, Tell) and not isinstance(said.body, StartTask):
            session = self._books.sessions.get(said.node)
            if session is not None and session.legacy:
                return False
        try:
            await self._endpoint.send(said)
        except (InboxFull, Undeliverable) as error:
            log.warning("a node was not told for now: %s", error)
            return False
        return True
