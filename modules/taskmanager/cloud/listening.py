"""What becomes of what a node says: folded in and acknowledged when it is written, or answered at once."""

from enum import Enum

from beehive.api.nodeupgradejob import IN_PROGRESS, NEW, NodeEntry
from beehive.messages.fleet import Heard
from beehive.messages.objects import Away, Jobs, ListJobs
from beehive.messages.tasks import Hello, TaskReport
from modules.taskmanager import codes
from modules.taskmanager.cloud.background import Background
from modules.taskmanager.cloud.books import Books, JobDesk, Said
from modules.taskmanager.cloud.notes import LookedUp
from modules.taskmanager.cloud.telling import Telling
from modules.taskmanager.fold import LEGACY_ATTEMPT, fold, is_free
from modules.taskmanager.orders import cancel_task

_MOST_PUZZLES = 1000


class Place(Enum):
    """Where a node's word belongs."""

    FOLD = "it changes the entry"
    SEEN = "it stands already, or concerns an attempt that is over"
    NOBODY = "there is no such job or node (any more)"
    LATER = "the API server may know what we do not"


def place(desk: JobDesk | None, node: str, said: TaskReport | Hello) -> Place:
    """By (uid, attempt), then by what it would change."""
    if desk is None:
        return Place.LATER
    if desk.deleting:
        return Place.SEEN
    if desk.job.status.phase == NEW:
        return Place.LATER
    entry = desk.entry(node)
    if entry is None:
        return Place.NOBODY
    legacy = said.attempt == LEGACY_ATTEMPT
    if not legacy and said.attempt != entry.attempt:
        return Place.SEEN if said.attempt < entry.attempt else Place.LATER
    if isinstance(said, Hello):
        return Place.FOLD
    return Place.SEEN if fold(entry, said, desk.job.spec.version) == entry else Place.FOLD


class Listening:
    """The words of one term."""

    def __init__(self, books: Books, telling: Telling, background: Background) -> None:
        self.free: set[str] = set()
        """Nodes that said that they are free, since the last plan."""
        self._books = books
        self._telling = telling
        self._background = background
        self._puzzles: list[Heard] = []
        self._looking: list[Heard] = []

    async def hear(self, heard: Heard, looked_up: bool = False) -> JobDesk | None:
        """Take in one word; `looked_up`: all jobs were just read for it. The job that has something to write now."""
        said = heard.body
        desk = self._desk(said)
        where = place(desk, heard.node, said)
        if isinstance(said, TaskReport) and (said.final or is_free(said)):
            self.free.add(heard.node)
        elif isinstance(said, TaskReport) and said.code == codes.BUSY:
            self.free.discard(heard.node)
        if where is Place.LATER and not looked_up:
            await self._puzzle(heard)
        elif isinstance(said, Hello):
            await self._greet(heard, said, desk)
        elif where is Place.FOLD and desk is not None:
            if desk.hear(Said(said, heard)):
                return desk
            await self._telling.not_yet(heard)
        else:
            outcome = "seen" if where is Place.SEEN else "unknown"
            await self._telling.seen(heard, said, desk, outcome)
            await self.check_pace(heard, said, desk)
        return None

    def _desk(self, said: TaskReport | Hello) -> JobDesk | None:
        """The job that it is about. Name and uid must belong together, or it is about none (product.md 4)."""
        if said.attempt == LEGACY_ATTEMPT and not said.uid and isinstance(said, TaskReport):
            return self._books.named(said.job)
        desk = self._books.desks.get(said.uid)
        return desk if desk is not None and desk.job.metadata.name == said.job else None

    # ---- jobs that we do not know ------------------------------------------------------------------------------

    async def _puzzle(self, heard: Heard) -> None:
        if len(self._puzzles) >= _MOST_PUZZLES:
            await self._telling.not_yet(heard)
            return
        self._puzzles.append(heard)
        self._look_up()

    def _look_up(self) -> None:
        """Read all jobs once for all that wait for it; who comes later waits for the next reading."""
        if self._looking or not self._puzzles:
            return
        self._looking, self._puzzles = self._puzzles, []
        term = self._background.term

        def then(answer: Jobs | Away, _: float) -> LookedUp:
            return LookedUp(term=term, jobs=None if isinstance(answer, Away) else answer.items)

        self._background.ask(ListJobs(fresh=True), then)

    async def looked_up(self, note: LookedUp, now: float) -> None:
        """All jobs were read, or could not be; `now` on the loop's clock."""
        waited, self._looking = self._looking, []
        for job in note.jobs or ():
            self._books.adopt_job(job, now)
        for heard in waited:
            if note.jobs is None:
                await self._telling.not_yet(heard)
            else:
                await self.hear(heard, looked_up=True)
        self._look_up()

    # ---- nodes that ask, and nodes that work without a mark ----------------------------------------------------

    async def _greet(self, heard: Heard, hello: Hello, desk: JobDesk | None) -> None:
        """May it begin? If it may, the next look tells it again; a mark that is about to be taken back says nothing."""
        if desk is not None and _is_current(desk, heard.node, hello):
            self._telling.forget(heard.node)
            return
        why = "the job is gone" if desk is None else "the job does not have this node in flight"
        await self._telling.answer(heard, cancel_task(hello.job, hello.uid, hello.attempt, why))

    async def check_pace(self, heard: Heard, said: TaskReport, desk: JobDesk | None) -> None:
        """A node that goes on although its entry is not in flight is told to stop: it holds no slot."""
        if said.final or said.code == codes.BUSY or is_free(said) or said.attempt == LEGACY_ATTEMPT:
            return
        entry = desk.entry(heard.node) if desk else None
        if entry is None or entry.attempt != said.attempt or not _is_expected(entry):
            why = "the job does not have this node in flight"
            await self._telling.answer(heard, cancel_task(said.job, said.uid, said.attempt, why))


def _is_current(desk: JobDesk, node: str, hello: Hello) -> bool:
    entry = desk.entry(node)
    if entry is None or desk.deleting or desk.job.spec.abort:
        return False
    return entry.phase == IN_PROGRESS and entry.attempt == hello.attempt


def _is_expected(entry: NodeEntry) -> bool:
    """It is in flight, or it said its own last word and this came after it."""
    return entry.phase == IN_PROGRESS or codes.is_own_word(entry.phase, entry.reason_code)
