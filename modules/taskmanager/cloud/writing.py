"""Job writes: the status that the plan made, and the finalizer. Mark first; what follows waits for the answer."""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from beehive.api.meta import Condition, set_condition
from beehive.api.nodeupgradejob import FINALIZER, JobStatus, NodeUpgradeJob
from beehive.figures import Figures
from beehive.messages.objects import (
    Away,
    Denied,
    Missing,
    Patched,
    PatchJob,
    PatchJobStatus,
    PatchOperation,
    RecordEvent,
    Stale,
    WriteAnswer,
)
from beehive.world import rfc3339
from modules.taskmanager import figures as shown
from modules.taskmanager.cloud.background import Background
from modules.taskmanager.cloud.books import Books, JobDesk, Said
from modules.taskmanager.cloud.notes import JobWritten, StatusWritten
from modules.taskmanager.patch import status_patch

log = logging.getLogger(__name__)


class Written(msgspec.Struct, frozen=True):
    """A status that now stands, the one before it, and the words that it holds."""

    desk: JobDesk
    before: JobStatus
    seen: tuple[Said, ...]


class Writing:
    """The job writes of one term."""

    def __init__(self, books: Books, background: Background, figures: Figures) -> None:
        self._books = books
        self._figures = figures
        self._background = background

    def now(self) -> float:
        """The loop's clock."""
        return asyncio.get_running_loop().time()

    def status(self, desk: JobDesk, status: JobStatus) -> None:
        """Begin to write it, unless it was refused for good before."""
        if desk.denied is not None and is_alike(desk.denied, status):
            return
        if not desk.bucket.take(self.now()):
            return
        desk.begin_write(status)
        self._patch_status(desk, status_patch(desk.job.status, status))

    def _patch_status(self, desk: JobDesk, operations: tuple[PatchOperation, ...]) -> None:
        meta, term = desk.job.metadata, self._background.term
        request = PatchJobStatus(
            name=meta.name, uid=meta.uid, resource_version=meta.resource_version, operations=operations
        )
        self._background.ask(
            request, lambda answer, took: StatusWritten(term=term, uid=meta.uid, answer=answer, took=took)
        )

    def set_aside(self, desk: JobDesk, why: str, now: float) -> None:
        """Say on the job that its plan failed; `now` by the wall clock."""
        said = Condition(
            type="Progressing",
            status="False",
            reason="SetAside",
            message=why,
            last_transition_time=rfc3339(now),
            observed_generation=desk.job.metadata.generation,
        )
        status = desk.job.status
        marked = msgspec.structs.replace(status, conditions=set_condition(status.conditions or (), said))
        desk.writing, desk.base = True, status
        self._patch_status(desk, status_patch(status, marked))

    def finalizer(self, desk: JobDesk, there: bool) -> None:
        """Put ours on the job, or take it off."""
        meta, term = desk.job.metadata, self._background.term
        present = meta.finalizers or ()
        if there:
            where = "/metadata/finalizers/-" if present else "/metadata/finalizers"
            operation = PatchOperation(op="add", path=where, value=FINALIZER if present else [FINALIZER])
        else:
            operation = PatchOperation(op="remove", path=f"/metadata/finalizers/{present.index(FINALIZER)}")
        desk.writing = True
        request = PatchJob(
            name=meta.name, uid=meta.uid, resource_version=meta.resource_version, operations=(operation,)
        )
        self._background.ask(request, lambda answer, _: JobWritten(term=term, uid=meta.uid, answer=answer))

    def answered(self, desk: JobDesk, answer: WriteAnswer, gone: Callable[[JobDesk], None]) -> Written | None:
        """Take in what came of a write; `gone` is called where there is no such job any more."""
        before = desk.job
        match answer:
            case Patched(object=NodeUpgradeJob() as job):
                desk.adopt(job)
                return Written(desk, desk.base, tuple(desk.written()))
            case Stale(object=NodeUpgradeJob() as job) if _differs(job, before):
                desk.adopt(job)
                desk.settled()
            case Missing():
                desk.settled()
                gone(desk)
            case Denied(reason=why, may_pass=may_pass):
                desk.trouble = why
                self._denied(desk, why, for_good=not may_pass)
            case Away(reason=why):
                self._figures.add(shown.ERRORS, "unanswered")
                log.warning("job %s cannot be written for now: %s", before.metadata.name, why)
                desk.trouble = why
                desk.unknown(self.now())
            case _:
                desk.unknown(self.now())
        return None

    def _denied(self, desk: JobDesk, why: str, for_good: bool) -> None:
        name = desk.job.metadata.name
        self._figures.add(shown.ERRORS, "refused")
        if desk.refused(self.now(), why, for_good):
            log.error("the API server refuses to store what job %s came to: %s", name, why)
            event = RecordEvent(
                kind="NodeUpgradeJob", name=name, uid=desk.uid, warning=True, reason="StatusRefused", note=why[:1000]
            )
            self._background.tell((event,))


def is_alike(one: JobStatus, other: JobStatus) -> bool:
    """The same but for times."""
    return _timeless(one) == _timeless(other)


def _timeless(status: JobStatus) -> JobStatus:
    replace = msgspec.structs.replace
    entries = tuple(replace(entry, since="") for entry in status.node_status or ())
    said = tuple(replace(one, last_transition_time="") for one in status.conditions or ())
    return replace(status, start_time=None, completion_time=None, node_status=entries, conditions=said)


def _differs(job: NodeUpgradeJob, other: NodeUpgradeJob) -> bool:
    return job.metadata.resource_version != other.metadata.resource_version
