"""5,000 nodes stay under 1 MiB at every moment; and an entry keeps what matters longest."""

from collections.abc import Callable

import msgspec
import pytest

from beehive.api.nodeupgradejob import NodeEntry, NodeUpgradeJob
from beehive.messages.tasks import TaskReport
from modules.taskmanager.job.size import fitted, share_of, size
from tests.fakes.jobs import NEW, OLD, a_job, a_node, a_report, an_entry, fleet, result, rolled_back, success
from tests.rules.planning import planned, settled, written

MIB = 1024 * 1024
FLOW = tuple(result(action, reason="r" * 256) for action in ("Check", "BackUp", "Upgrade", "RollBack"))


def stored(job: NodeUpgradeJob) -> int:
    """Bytes, with the zeros that the schema adds."""
    entries = job.status.node_status or ()
    return len(msgspec.json.encode(job)) + sum(not entry.revision for entry in entries) * len(',"revision":0')


@pytest.mark.parametrize("kind", ["in flight", "failed", "waiting", "upgraded", "mixed"])
def test_5000_nodes_stay_under_a_mebibyte(kind: str) -> None:
    names = [f"edge-{number:05}" for number in range(5000)]
    world = {name: a_node(name) for name in names}
    job = a_job(*names, concurrency=5000, failure_tolerate="1")
    for _ in range(2):
        job = written(job, planned(job, nodes=world, online=fleet(*names)))
        assert stored(job) < MIB
    words: dict[str, Callable[[], TaskReport]] = {
        "in flight": lambda: a_report(3, action="Upgrade", results=FLOW, from_version=OLD, to_version=OLD),
        "failed": lambda: rolled_back(5, results=FLOW, reason="x" * 999),
        "waiting": lambda: a_report(
            3, code="WaitingConfirmation", wait_seconds=604800.0, reason="w" * 999, results=FLOW
        ),
        "upgraded": lambda: success(4, results=FLOW, reason="y" * 999),
    }
    for index, make in enumerate(words.values() if kind == "mixed" else [words[kind]]):
        said = {name: make() for name in names[index::4]} if kind == "mixed" else {name: make() for name in names}
        job = settled(job, nodes=world, online=fleet(*names), said=said)
        assert stored(job) < MIB
    assert len({entry.phase for entry in job.status.node_status or ()}) == (3 if kind == "mixed" else 1)


def test_small_job_keeps_everything() -> None:
    entry = an_entry(phase="Successful", action_flow=FLOW, reason="z" * 256, current_version=NEW)
    job = a_job("a")
    assert fitted(entry, job, 500, share_of(job, 500)) == entry


def test_large_job_keeps_the_flow_of_those_that_failed_only() -> None:
    job = a_job("a")
    for phase, kept in (("Successful", False), ("InProgress", False), ("Failure", True), ("Unknown", True)):
        entry = an_entry(phase=phase, reason_code="X", action_flow=(result("Check"),))
        assert bool(fitted(entry, job, 501, 10_000).action_flow) is kept


FULL = an_entry(
    "edge-1",
    "Failure",
    reason_code="RolledBack",
    reason="ä" * 256,
    action_flow=FLOW,
    historic_version=OLD,
    current_version=NEW,
)


@pytest.mark.parametrize(
    ("share", "flow", "current", "reason"),
    [(4000, True, True, True), (760, False, True, True), (300, False, False, True)],
)
def test_what_is_left_out_first(share: int, flow: bool, current: bool, reason: bool) -> None:
    found = fitted(FULL, a_job("a"), 10, share)
    assert size(found) <= share
    assert (bool(found.action_flow), bool(found.current_version), bool(found.reason)) == (flow, current, reason)


def test_sentence_is_cut_between_characters() -> None:
    for share in range(150, 300):
        found = fitted(FULL, a_job("a"), 10, share)
        assert size(found) <= max(share, 140)
        assert found.reason.strip("ä") in ("", "…")


def test_what_counts_is_never_left_out() -> None:
    found = fitted(FULL, a_job("a"), 10, 1)
    assert found == NodeEntry(
        node_name="edge-1", phase="Failure", reason_code="RolledBack", attempt=FULL.attempt, since=FULL.since
    )
