"""Digests that registries tell, for jobs that are about to start. Nothing is kept: Init writes them into the status."""

from collections.abc import Mapping

from beehive.api.nodeupgradejob import RegistryAPI
from beehive.backoff import doubling
from beehive.messages.images import Digests, LookUpDigests, NoDigests
from beehive.messages.objects import Away, RecordEvent
from modules.taskmanager.cloud.alarm import Alarm
from modules.taskmanager.cloud.background import Background
from modules.taskmanager.cloud.books import Books, JobDesk
from modules.taskmanager.cloud.notes import DigestsFound
from modules.taskmanager.config import CloudConfig
from modules.taskmanager.job import registry_to_ask

_TRIES = 5
"""So often a registry is asked that cannot answer now; then the job says so and ends."""


class _Question:
    """What one job wants to know."""

    def __init__(self, config: CloudConfig) -> None:
        self.found: Mapping[str, str] | str | None = None
        self.tries = 0
        self.at = 0.0
        """Not asked (again) before, on the loop's clock."""
        self.asked = False
        self.delays = doubling(config.retry_first, config.retry_cap)


class Lookups:
    """The questions of one term."""

    def __init__(self, books: Books, background: Background, alarm: Alarm, config: CloudConfig) -> None:
        self._books = books
        self._background = background
        self._alarm = alarm
        self._config = config
        self._questions: dict[str, _Question] = {}

    def look(self) -> dict[str, Mapping[str, str] | str]:
        """Ask for whom it is to be asked; what is known, by job uid."""
        found = ((desk, registry_to_ask(desk.job)) for desk in self._books.desks.values())
        wanting = {desk.uid: (desk, registry) for desk, registry in found if registry}
        self._questions = {uid: self._questions.get(uid) or _Question(self._config) for uid in wanting}
        for uid, question in self._questions.items():
            if question.found is not None or question.asked:
                continue
            if question.at > self._alarm.now:
                self._alarm.soon(question.at)
            else:
                self._ask(*wanting[uid], question)
        return {uid: one.found for uid, one in self._questions.items() if one.found is not None}

    def _ask(self, desk: JobDesk, registry: RegistryAPI, question: _Question) -> None:
        spec, uid, term = desk.job.spec, desk.uid, self._background.term
        question.asked, question.tries = True, question.tries + 1
        request = LookUpDigests(host=registry.host, token=registry.token, image=spec.image, version=spec.version)

        def then(answer: Digests | NoDigests | Away, _: float) -> DigestsFound:
            found = NoDigests(answer.reason, may_pass=True) if isinstance(answer, Away) else answer
            return DigestsFound(term=term, uid=uid, answer=found)

        self._background.ask(request, then)

    def answered(self, note: DigestsFound) -> None:
        """Take in what came of it."""
        question = self._questions.get(note.uid)
        if question is None:
            return
        question.asked = False
        match note.answer:
            case Digests(by_architecture=digests):
                question.found = digests
            case NoDigests(reason=why, may_pass=True) if question.tries >= _TRIES:
                question.found = f"{why}; asked {question.tries} times"
            case NoDigests(reason=why, may_pass=True):
                question.at = self._alarm.now + next(question.delays)
                self._tell(note.uid, f"{why}; it is asked again")
            case NoDigests(reason=why):
                question.found = why

    def _tell(self, uid: str, why: str) -> None:
        """A start that is held up is no silence."""
        if desk := self._books.desks.get(uid):
            name = desk.job.metadata.name
            note = f"the start waits for the image's digests: {why}"
            event = RecordEvent(
                kind="NodeUpgradeJob", name=name, uid=uid, warning=True, reason="DigestsAwaited", note=note
            )
            self._background.tell((event,))
