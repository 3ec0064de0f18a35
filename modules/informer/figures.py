"""What an operator graphs of the jobs: how many are in which phase, and their nodes. Pure."""

from collections.abc import Iterable

from beehive.api.nodeupgradejob import COMPLETED, FAILURE, IN_PROGRESS, INIT, NEW, NodeUpgradeJob

_PHASES = {
    NEW: "jobs_new", INIT: "jobs_init", IN_PROGRESS: "jobs_in_progress", COMPLETED: "jobs_completed",
    FAILURE: "jobs_failure",
}  # fmt: skip
_NODES = ("pending", "in_progress", "successful", "failed", "skipped", "unknown")


def figures(jobs: Iterable[NodeUpgradeJob]) -> dict[str, float]:
    """By name; nodes are counted in all jobs that exist, once for each job."""
    told: dict[str, float] = dict.fromkeys(
        (*_PHASES.values(), "jobs_suspended", *(f"nodes_{one}" for one in _NODES)), 0
    )
    for job in jobs:
        told[_PHASES.get(job.status.phase, "jobs_new")] += 1
        told["jobs_suspended"] += job.spec.suspend and job.status.phase not in (COMPLETED, FAILURE)
        for one in _NODES:
            told[f"nodes_{one}"] += getattr(job.status, one)
    return told
