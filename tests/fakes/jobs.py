"""Jobs, nodes and reports, made with few words."""

from typing import Any

import msgspec

from beehive.api.meta import ObjectMeta
from beehive.api.node import EDGE_LABEL, Node, NodeCondition, NodeInfo, NodeSpec, NodeStatus
from beehive.api.nodeupgradejob import FINALIZER, ActionResult, JobStatus, NodeEntry, NodeUpgradeJob, NodeUpgradeJobSpec
from beehive.messages.tasks import TaskReport
from beehive.world import rfc3339
from modules.taskmanager.job import Fleet
from tests.fakes.virtual_time import START as START_OF_TIME

START = START_OF_TIME
OLD, NEW = "v1.22.0", "v1.23.0"
HOUR_AGO = START - 3600


def a_node(name: str, version: str = OLD, *, edge: bool = True, ready: bool = True, **meta: Any) -> Node:
    """An edge node at the old version."""
    labels = {**({EDGE_LABEL: ""} if edge else {}), **meta.pop("labels", {})}
    cordoned = meta.pop("cordoned", False)
    meta = {"uid": f"node-{name}", "resource_version": "1", "annotations": {}, **meta}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels, **meta),
        spec=NodeSpec(unschedulable=cordoned),
        status=NodeStatus(
            conditions=(NodeCondition(type="Ready", status=str(ready)),), node_info=NodeInfo(kubelet_version=version)
        ),
    )


def nodes(*names: str, version: str = OLD) -> dict[str, Node]:
    return {name: a_node(name, version) for name in names}


def a_job(*names: str, name: str = "north", uid: str = "", created: float = START, **spec: Any) -> NodeUpgradeJob:
    """A new job for these nodes, one after another unless it says otherwise."""
    if names:
        spec["node_names"] = names
    return NodeUpgradeJob(
        metadata=ObjectMeta(
            name=name,
            uid=uid or f"uid-{name}",
            resource_version="1",
            generation=1,
            creation_timestamp=rfc3339(created),
            finalizers=(FINALIZER,),
        ),
        spec=NodeUpgradeJobSpec(version=spec.pop("version", NEW), **spec),
    )


def with_status(job: NodeUpgradeJob, status: JobStatus) -> NodeUpgradeJob:
    return msgspec.structs.replace(job, status=status)


def with_spec(job: NodeUpgradeJob, **changes: Any) -> NodeUpgradeJob:
    """As an operator edits it: the generation grows."""
    meta = msgspec.structs.replace(job.metadata, generation=job.metadata.generation + 1)
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, **changes), metadata=meta)


def fleet(*online: str, open_since: float = HOUR_AGO, **more: Any) -> Fleet:
    return Fleet(online=dict.fromkeys(online, False), open_since=open_since, **more)


def an_entry(node: str = "a", phase: str = "InProgress", **more: Any) -> NodeEntry:
    return NodeEntry(node_name=node, phase=phase, **{"attempt": 1, "since": rfc3339(START), **more})


def result(action: str, ok: bool = True, reason: str = "", at: float = START) -> ActionResult:
    return ActionResult(action=action, status=str(ok), reason=reason, time=rfc3339(at))


def a_report(revision: int = 1, **more: Any) -> TaskReport:
    """Progress; `final=True` for a last word."""
    values = {"job": "north", "uid": "uid-north", "attempt": 1, "action": "Check", **more}
    return TaskReport(revision=revision, **values)


def success(revision: int = 4, **more: Any) -> TaskReport:
    flow = (result("Check"), result("BackUp"), result("Upgrade"))
    values = {"action": "Upgrade", "results": flow, "from_version": OLD, "to_version": NEW, **more}
    return a_report(revision, final=True, **values)


def rolled_back(revision: int = 5, **more: Any) -> TaskReport:
    flow = (result("Check"), result("BackUp"), result("Upgrade", ok=False), result("RollBack"))
    values = {"results": flow, "reason": "rolled back to v1.22.0: exited with code 1", **more}
    return a_report(
        revision, final=True, code="RolledBack", action="RollBack", from_version=OLD, to_version=OLD, **values
    )


def phases(status: JobStatus) -> dict[str, str]:
    """Node -> phase, with the code after a slash where there is one."""
    return {
        entry.node_name: f"{entry.phase}/{entry.reason_code}" if entry.reason_code else entry.phase
        for entry in status.node_status or ()
    }
