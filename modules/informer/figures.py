"""What an operator watches of jobs, nodes and the API server. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from beehive.api.nodeupgradejob import (
    COMPLETED,
    FAILURE,
    IN_PROGRESS,
    INIT,
    NEW,
    PENDING,
    SKIPPED,
    SUCCESSFUL,
    UNKNOWN,
    NodeUpgradeJob,
)
from beehive.api.reasons import NONE, bounded
from beehive.api.tolerance import tolerance
from beehive.figures import COUNTER, GAUGE, Labels, Metric
from beehive.world import from_rfc3339

LEASE = Metric("beehive_lease_held", GAUGE, "1 while this process holds the Lease: the sum over all processes is 1")
JOBS = Metric("beehive_jobs", GAUGE, "Jobs that exist, by phase; New: not yet looked at", ("phase",))
SUSPENDED = Metric("beehive_jobs_suspended", GAUGE, "Jobs that are suspended and have not ended")
NODES = Metric(
    "beehive_nodes", GAUGE, "Nodes over all jobs that exist, once for each job, by phase and reason code",
    ("phase", "reason"),
)  # fmt: skip
BUDGET = Metric(
    "beehive_job_budget_left", GAUGE,
    "Failures that an open job still tolerates; the next one after 0 stops it. Of the 20 oldest open jobs",
    ("nodeupgradejob",),
)  # fmt: skip
UNANSWERED = Metric(
    "beehive_dispatch_unanswered_seconds", GAUGE,
    "Age of the oldest mark in an open job whose node has not said a word yet; 0 where there is none",
)  # fmt: skip
CALLS = Metric(
    "beehive_api_calls", COUNTER, "Calls to kube-apiserver by verb and HTTP status; `none` was not answered",
    ("verb", "code"),
)  # fmt: skip
CONTESTED = Metric("beehive_jobs_contested", GAUGE, "Jobs whose status another controller wrote within ten minutes")
EVENTS_DROPPED = Metric("beehive_kubernetes_events_dropped", COUNTER, "Kubernetes Events that found no place")

ALL = (LEASE, JOBS, SUSPENDED, NODES, BUDGET, UNANSWERED, CALLS, CONTESTED, EVENTS_DROPPED)

_JOB_PHASES = {NEW: "New", INIT: "Init", IN_PROGRESS: "InProgress", COMPLETED: "Completed", FAILURE: "Failure"}
_NODE_PHASES = (PENDING, IN_PROGRESS, SUCCESSFUL, FAILURE, UNKNOWN, SKIPPED)
_MOST_JOBS = 20


def is_open(job: NodeUpgradeJob) -> bool:
    """Its phase is not its last."""
    return job.status.phase not in (COMPLETED, FAILURE)


def by_phase(jobs: Iterable[NodeUpgradeJob]) -> dict[Labels, float]:
    """Every phase, 0 where there is none."""
    counted = Counter(_JOB_PHASES.get(job.status.phase, "New") for job in jobs)
    return {(phase,): counted[phase] for phase in _JOB_PHASES.values()}


def suspended(jobs: Iterable[NodeUpgradeJob]) -> float:
    """How many open ones are."""
    return sum(job.spec.suspend and is_open(job) for job in jobs)


class NodeCount:
    """Nodes by phase and reason; a job whose entries are the same objects as before is not counted anew."""

    def __init__(self) -> None:
        self._known: Mapping[str, tuple[object, Counter[Labels]]] = {}

    def __call__(self, jobs: Iterable[NodeUpgradeJob]) -> dict[Labels, float]:
        known: dict[str, tuple[object, Counter[Labels]]] = {}
        total: Counter[Labels] = Counter({(phase, NONE): 0 for phase in _NODE_PHASES})
        for job in jobs:
            entries = job.status.node_status or ()
            before = self._known.get(job.metadata.uid)
            counted = before[1] if before and before[0] is entries else _counted(job)
            known[job.metadata.uid] = entries, counted
            total.update(counted)
        self._known = known
        return {labels: float(number) for labels, number in total.items()}


def _counted(job: NodeUpgradeJob) -> Counter[Labels]:
    entries = job.status.node_status or ()
    return Counter((one.phase if one.phase in _NODE_PHASES else "Other", bounded(one.reason_code)) for one in entries)


def budgets(jobs: Iterable[NodeUpgradeJob]) -> dict[Labels, float]:
    """Name of the job -> how many more may fail; below 0 it is spent."""
    told: dict[Labels, float] = {}
    for job in _oldest_open(jobs)[:_MOST_JOBS]:
        try:
            most = tolerance(job.spec.failure_tolerate).most(job.status.total)
        except ValueError:
            continue
        told[job.metadata.name,] = most - job.status.failed - job.status.unknown
    return told


def _oldest_open(jobs: Iterable[NodeUpgradeJob]) -> Sequence[NodeUpgradeJob]:
    found = [job for job in jobs if is_open(job) and job.status.total]
    return sorted(found, key=lambda job: (job.metadata.creation_timestamp or "", job.metadata.uid))


def unanswered(jobs: Iterable[NodeUpgradeJob], now: float) -> float:
    """Seconds since the oldest mark that its node has not answered; `now` by the wall clock."""
    marks = [
        entry.since
        for job in jobs
        if is_open(job) and job.status.in_progress
        for entry in job.status.node_status or ()
        if entry.phase == IN_PROGRESS and entry.revision == 0 and not entry.action_flow and entry.since
    ]
    try:
        return max(0.0, now - from_rfc3339(min(marks))) if marks else 0.0
    except (ValueError, OverflowError):
        return 0.0
