"""What a node is told about its attempt, made from what stands in the status."""

from collections.abc import Mapping

from beehive.api.nodeupgradejob import DEFAULT_IMAGE, DEFAULT_TIMEOUT, NodeEntry, NodeUpgradeJob, NodeUpgradeJobSpec
from beehive.api.version import normalised
from beehive.messages.tasks import CancelTask, StartTask, TaskSpec
from modules.taskmanager.job.deadline import deadline


def start_task(job: NodeUpgradeJob, entry: NodeEntry, now: float) -> StartTask:
    """Begin, or go on; the lease is what is left of its time."""
    return StartTask(
        job=job.metadata.name,
        uid=job.metadata.uid,
        attempt=entry.attempt,
        spec=task_spec(job.spec, job.status.digests),
        lease_seconds=lease(job, entry, now),
    )


def cancel_task(job: str, uid: str, attempt: int, reason: str) -> CancelTask:
    """Stop, unless `Upgrade` has begun."""
    return CancelTask(job=job, uid=uid, attempt=attempt, reason=reason)


def lease(job: NodeUpgradeJob, entry: NodeEntry, now: float) -> float:
    """Seconds in which the node may still begin `Upgrade`; 0.0 when its time is over."""
    return max(0.0, deadline(entry, job.spec) - now)


def task_spec(spec: NodeUpgradeJobSpec, digests: Mapping[str, str] | None = None) -> TaskSpec:
    """What one node must know; never the node list, a registry's host or its token.

    `digests`: what the cloud looked up for this job.
    """
    pins = spec.image_digest_gatter.by_architecture() if spec.image_digest_gatter else {}
    pins = pins or dict(digests or {})
    return TaskSpec(
        version=normalised(spec.version),
        image=spec.image or DEFAULT_IMAGE,
        digests=pins or None,
        check_items=spec.check_items or (),
        require_confirmation=spec.require_confirmation,
        allow_downgrade=spec.allow_downgrade,
        upgrade_tool=spec.upgrade_tool,
        timeout_seconds=spec.timeout_seconds or DEFAULT_TIMEOUT,
    )
