"""`beehive job plan`: what a job would do, told by the controller's own rules before anything is asked of it. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from beehive.api.limits import MOST_AT_ONCE
from beehive.api.node import Node, is_ready
from beehive.api.nodeupgradejob import (
    COMPLETED,
    FAILURE,
    IN_PROGRESS,
    PENDING,
    SKIPPED,
    JobStatus,
    NodeEntry,
    NodeUpgradeJob,
)  # fmt: skip
from beehive.api.tolerance import tolerance
from beehive.world import rfc3339
from modules.console.jobs_words import tolerates
from modules.console.table import WIDTH, cut
from modules.console.times import nodes as nodes_word
from modules.taskmanager.job import Fleet, News, plan

_UID = "~ planned"
"""Sorts after every real uid of the same second: a new job is the youngest."""
_NAMED = 3


class Group(Struct, frozen=True):
    """Nodes to which the same would happen."""

    phase: str
    why: str
    nodes: tuple[str, ...]


class Preview(Struct, frozen=True):
    """What would happen."""

    job: NodeUpgradeJob
    selected: int
    groups: tuple[Group, ...]

    @property
    def upgraded(self) -> int:
        """How many nodes would be told to start."""
        return sum(len(group.nodes) for group in self.groups if group.phase == IN_PROGRESS)


def preview(job: NodeUpgradeJob, others: Sequence[NodeUpgradeJob], nodes: Mapping[str, Node], now: float) -> Preview:
    """By the rules of the planner, as if every node were connected, which nobody but the hub knows."""
    meta = msgspec.structs.replace(job.metadata, uid=_UID, creation_timestamp=rfc3339(now))
    spec = msgspec.structs.replace(job.spec, concurrency=MOST_AT_ONCE, suspend=False, abort=False)
    planned = NodeUpgradeJob(metadata=meta, spec=spec)
    fleet = Fleet(online=dict.fromkeys(nodes, False), open_since=1.0)
    news = News(digests={_UID: {}})  # as if its registry had answered; no registry is asked for a preview
    for _ in range(2):  # once for the verdicts, once for the marks
        known = {one.metadata.uid: one for one in (*others, planned)}
        status = plan(known, nodes, fleet, news, now).statuses.get(_UID, planned.status)
        planned = msgspec.structs.replace(planned, status=status)
    return Preview(job, planned.status.total, _grouped(planned.status, job, others, nodes))


def _grouped(
    status: JobStatus, job: NodeUpgradeJob, others: Sequence[NodeUpgradeJob], nodes: Mapping[str, Node]
) -> tuple[Group, ...]:
    before = _owners(others)
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for entry in status.node_status or ():
        groups[entry.phase, _why(entry, job, before, nodes)].append(entry.node_name)
    order = (IN_PROGRESS, PENDING, SKIPPED, FAILURE)
    listed = sorted(groups.items(), key=lambda item: order.index(item[0][0]))
    return tuple(Group(phase, why, tuple(names)) for (phase, why), names in listed)


def _owners(others: Sequence[NodeUpgradeJob]) -> dict[str, str]:
    """Node -> the open job that has it or wants it."""
    return {
        entry.node_name: job.metadata.name
        for job in others
        if job.status.phase not in (COMPLETED, FAILURE)
        for entry in job.status.node_status or ()
        if entry.phase in (PENDING, IN_PROGRESS)
    }


def _why(entry: NodeEntry, job: NodeUpgradeJob, before: Mapping[str, str], nodes: Mapping[str, Node]) -> str:
    if entry.phase == IN_PROGRESS:
        return ""
    if entry.phase != PENDING:
        return entry.reason
    name = entry.node_name
    if name in nodes and not is_ready(nodes[name]):
        return f"NotReady (onOffline: {job.spec.on_offline})"
    return f"job {before[name]} comes first" if name in before else entry.reason


_WORDS = {IN_PROGRESS: "will be upgraded", PENDING: "will wait", SKIPPED: "skipped", FAILURE: "will fail"}


def lines(seen: Preview, *, everything: bool = False) -> list[str]:
    """For people; `everything`: every node's name, every sentence whole."""
    spec = seen.job.spec
    if not seen.selected:
        return ["Would upgrade nothing: no node is selected. Look at the labels: kubectl get nodes --show-labels"]
    most = tolerance(spec.failure_tolerate).most(seen.selected)
    pace = f"{spec.concurrency:,} at a time"
    told = [
        f"Would upgrade {seen.upgraded:,} of {nodes_word(seen.selected)} selected to {spec.version}, {pace}.",
        f"{tolerates(most)}.",
    ]
    for group in seen.groups:
        why = f": {group.why}" if group.why else ""
        names = ", ".join(group.nodes) if everything else _some(group.nodes)
        line = f"  {len(group.nodes):>5,}  {_WORDS[group.phase]:<17}  {names}{why}"
        told.append(line if everything else cut(line, WIDTH))
    if any(group.phase == PENDING for group in seen.groups):
        told.append("Nodes that wait have no end of their own: the job stays open until they come, or it is aborted.")
    return told


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED:,} more"


def plain(seen: Preview) -> dict[str, object]:
    """For programs."""
    return {
        "version": seen.job.spec.version,
        "selected": seen.selected,
        "upgraded": seen.upgraded,
        "groups": [{"outcome": _WORDS[one.phase], "reason": one.why, "nodes": list(one.nodes)} for one in seen.groups],
    }
