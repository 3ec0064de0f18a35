"""One look at all jobs: the older first, each leaving to the others what it took."""

from collections.abc import Iterable, Mapping

from beehive.api.node import Node
from beehive.api.nodeupgradejob import COMPLETED, FAILURE, IN_PROGRESS, PENDING, JobStatus, NodeUpgradeJob
from modules.taskmanager.job.entries import entries_of
from modules.taskmanager.job.phases import next_status
from modules.taskmanager.job.view import Fleet, Holder, News, Plan, Scene, Start


def plan(jobs: Mapping[str, NodeUpgradeJob], nodes: Mapping[str, Node], online: Fleet, news: News, now: float) -> Plan:
    """What follows from all that is known; `jobs` are the objects as they stand, by uid.

    Raises whatever a job trips; who wants the others to go on takes them one by one from a `Round`.
    """
    one = Round(jobs, nodes, online, news, now)
    for job in one.order:
        one.take(job)
    return one.result()


class Round:
    """A look in progress: `take` each job of `order`, then `result`."""

    def __init__(
        self, jobs: Mapping[str, NodeUpgradeJob], nodes: Mapping[str, Node], online: Fleet, news: News, now: float
    ) -> None:
        self.order = sorted(jobs.values(), key=age)
        self._news = news
        self._scene = Scene(nodes, online, news, now)
        self._statuses: dict[str, JobStatus] = {}
        for job in self.order:
            self._claim(job)

    def take(self, job: NodeUpgradeJob) -> None:
        """Plan this one, unless it may not be written now or is being deleted."""
        uid = job.metadata.uid
        if uid in self._news.held or job.metadata.deletion_timestamp:
            return
        status = next_status(job, self._scene)
        if status != job.status:
            self._statuses[uid] = status

    def result(self) -> Plan:
        """What all that was taken comes to."""
        alarms = self._scene.alarms
        start = tuple(one for job in self.order for one in self._startable(job))
        return Plan(self._statuses, start, min(alarms) if alarms else None)

    def _claim(self, job: NodeUpgradeJob) -> None:
        """What this job has in flight, surely or perhaps, and what it would start."""
        holder = Holder(job.metadata.uid, job.metadata.name)
        statuses = (job.status, *self._news.unanswered.get(holder.uid, ()))
        wants = not (job.spec.suspend or job.spec.abort or job.metadata.deletion_timestamp)
        for status in statuses:
            if status.phase in (COMPLETED, FAILURE):
                continue
            for entry in entries_of(status):
                if entry.phase == IN_PROGRESS:
                    self._scene.taken.setdefault(entry.node_name, holder)
                elif entry.phase == PENDING and wants:
                    self._scene.wanted.setdefault(entry.node_name, holder)

    def _startable(self, job: NodeUpgradeJob) -> Iterable[Start]:
        """Marks that stand, unless they are taken back now or may have been taken back already."""
        uid = job.metadata.uid
        if job.spec.abort or job.metadata.deletion_timestamp or job.status.phase != IN_PROGRESS:
            return
        later = [*self._news.unanswered.get(uid, ())]
        if uid in self._statuses:
            later.append(self._statuses[uid])
        closed = {
            (entry.node_name, entry.attempt)
            for status in later
            for entry in entries_of(status)
            if entry.phase != IN_PROGRESS
        }
        for entry in entries_of(job.status):
            if entry.phase == IN_PROGRESS and (entry.node_name, entry.attempt) not in closed:
                yield Start(uid, entry.node_name, entry.attempt)


def age(job: NodeUpgradeJob) -> tuple[str, str]:
    """The older of two jobs sorts first: creationTimestamp, then uid (product.md 3.4.3)."""
    return job.metadata.creation_timestamp or "", job.metadata.uid
