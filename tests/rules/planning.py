"""Play the plan: what it writes stands at once, and it is asked again until nothing follows."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from beehive.api.node import Node
from beehive.api.nodeupgradejob import JobStatus, NodeUpgradeJob
from beehive.messages.tasks import TaskReport
from modules.taskmanager.job import Fleet, News, Plan, plan
from tests.fakes.jobs import START, fleet, with_status

Said = Mapping[str, TaskReport | Sequence[TaskReport]]


def planned(
    *jobs: NodeUpgradeJob, nodes: Mapping[str, Node], online: Fleet | None = None, at: float = 0.0, **news: Any
) -> Plan:
    """One look, `at` seconds after START; every node is online unless it says otherwise."""
    seen = fleet(*nodes) if online is None else online
    return plan({one.metadata.uid: one for one in jobs}, nodes, seen, News(**news), START + at)


def written(job: NodeUpgradeJob, plan_: Plan) -> NodeUpgradeJob:
    """The job as it stands when its part of the plan was written."""
    status = plan_.statuses.get(job.metadata.uid)
    return job if status is None else with_status(job, status)


def settled(
    job: NodeUpgradeJob, *others: NodeUpgradeJob, nodes: Mapping[str, Node], said: Said | None = None, **more: Any
) -> NodeUpgradeJob:
    """The job after all that follows by itself; `said` is heard with the first look."""
    words: dict[str, Any] = {}
    if said:
        words = {node: (one,) if isinstance(one, TaskReport) else tuple(one) for node, one in said.items()}
    reports = {job.metadata.uid: words} if words else {}
    for _ in range(10):
        found = planned(job, *others, nodes=nodes, reports=reports, **more)
        after = written(job, found)
        if after == job:
            return job
        job, reports = after, {}
    raise AssertionError(f"the plan never comes to rest: {job.status}")


def begun(job: NodeUpgradeJob, nodes: Mapping[str, Node], **more: Any) -> NodeUpgradeJob:
    """The job after Init and the first marks."""
    return settled(job, nodes=nodes, **more)


def entry_changed(job: NodeUpgradeJob, node: str, **changes: Any) -> NodeUpgradeJob:
    """The job with one entry changed by hand."""
    status: JobStatus = job.status
    entries = tuple(
        msgspec.structs.replace(one, **changes) if one.node_name == node else one for one in status.node_status or ()
    )
    return with_status(job, msgspec.structs.replace(status, node_status=entries))
