"""Who is started next: slots, the budget, nodes that are away, jobs that want the same node."""

import msgspec
import pytest

from beehive.api.node import EDGE_LABEL, ETCD_LABEL, Node
from beehive.world import rfc3339
from modules.taskmanager.job.marks import BUSY_PAUSE
from tests.fakes.jobs import (
    NEW,
    START,
    a_job,
    a_node,
    a_report,
    fleet,
    nodes,
    phases,
    rolled_back,
    success,
    with_spec,
    with_status,
)
from tests.rules.planning import begun, entry_changed, planned, settled, written

FIVE = ("a", "b", "c", "d", "e")


def test_marks_are_as_many_as_there_are_slots_and_in_order() -> None:
    job = begun(a_job(*FIVE, concurrency=2), nodes(*FIVE))
    assert list(phases(job.status).values()) == ["InProgress", "InProgress", "Pending", "Pending", "Pending"]
    assert job.status.waiting == "a (started), b (started)"


def test_only_written_marks_are_started() -> None:
    job = a_job(*FIVE, concurrency=2)
    job = written(job, planned(job, nodes=nodes(*FIVE)))
    found = planned(job, nodes=nodes(*FIVE))
    assert found.start == ()
    after = planned(written(job, found), nodes=nodes(*FIVE))
    assert {(one.node, one.attempt) for one in after.start} == {("a", 1), ("b", 1)}
    assert not after.statuses


def test_mark_remembers_the_version_before() -> None:
    job = begun(a_job("a"), {"a": a_node("a", "v1.30.7-kubeedge-v1.22.0")})
    entry = (job.status.node_status or ())[0]
    assert (entry.historic_version, entry.since) == ("v1.22.0", rfc3339(START))


def test_a_word_frees_the_slot_for_the_next() -> None:
    job = begun(a_job(*FIVE, concurrency=2), nodes(*FIVE))
    after = settled(job, nodes=nodes(*FIVE), said={"b": success()})
    assert list(phases(after.status).values()) == ["InProgress", "Successful", "InProgress", "Pending", "Pending"]


# ---- the budget --------------------------------------------------------------------------------------------------


def test_budget_stops_marks_the_moment_it_is_exceeded() -> None:
    job = begun(a_job(*FIVE, concurrency=2, failure_tolerate="0.2"), nodes(*FIVE))
    one = settled(job, nodes=nodes(*FIVE), said={"a": rolled_back()})
    assert phases(one.status)["c"] == "InProgress", "one of five is tolerated"
    two = settled(one, nodes=nodes(*FIVE), said={"b": rolled_back()})
    assert phases(two.status) == {
        "a": "Failure/RolledBack",
        "b": "Failure/RolledBack",
        "c": "InProgress",
        "d": "Skipped/BudgetExceeded",
        "e": "Skipped/BudgetExceeded",
    }
    assert two.status.phase == "InProgress", "a node in flight finishes"
    end = settled(two, nodes=nodes(*FIVE), said={"c": success()})
    assert (end.status.phase, end.status.reason) == ("Failure", "BudgetExceeded")


@pytest.mark.parametrize(
    ("tolerate", "failed", "stops"),
    [("0", 1, True), ("0.1", 1, False), ("0.1", 2, True), ("10%", 1, False), ("9.9%", 1, True), ("1", 10, False),
     ("0.299999999", 3, True), ("0.3", 3, False), ("", 1, False), ("", 2, True)],
)  # fmt: skip
def test_budget_is_exact(tolerate: str, failed: int, stops: bool) -> None:
    names = [f"n{number}" for number in range(10)]
    job = begun(a_job(*names, concurrency=failed, failure_tolerate=tolerate), nodes(*names))
    after = settled(job, nodes=nodes(*names), said={name: rolled_back() for name in names[:failed]})
    assert any(entry.reason_code == "BudgetExceeded" for entry in after.status.node_status or ()) is stops


def test_verdict_before_a_mark_counts_before_the_next_mark() -> None:
    job = a_job(*FIVE, concurrency=5, failure_tolerate="0.2")
    job = written(job, planned(job, nodes=nodes(*FIVE)))
    after = written(job, planned(job, nodes=nodes("a", "d", "e")))
    assert phases(after.status) == {
        "a": "InProgress",
        "b": "Failure/NotFound",
        "c": "Failure/NotFound",
        "d": "Skipped/BudgetExceeded",
        "e": "Skipped/BudgetExceeded",
    }


def test_unknown_counts_as_failed_and_skipped_does_not() -> None:
    job = begun(a_job(*FIVE, concurrency=1, failure_tolerate="0.2", timeout_seconds=60), nodes(*FIVE))
    skipped = settled(job, nodes=nodes(*FIVE), said={"a": a_report(2, final=True, code="Rejected")})
    assert phases(skipped.status)["b"] == "InProgress"
    after = settled(skipped, nodes=nodes(*FIVE), at=61)
    assert phases(after.status)["b"] == "Unknown/TimedOut"
    again = settled(after, nodes=nodes(*FIVE), at=122)
    assert phases(again.status)["d"] == "Skipped/BudgetExceeded"


# ---- nodes that are away -----------------------------------------------------------------------------------------

AWAY = {"a": a_node("a"), "b": a_node("b"), "c": a_node("c", ready=False)}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("Skip", {"a": "Skipped/NotConnected", "b": "InProgress", "c": "Skipped/NotReady"}),
        ("Fail", {"a": "Failure/NotConnected", "b": "InProgress", "c": "Failure/NotReady"}),
        ("Wait", {"a": "Pending", "b": "InProgress", "c": "Pending"}),
    ],
)
def test_on_offline(policy: str, expected: dict[str, str]) -> None:
    job = begun(a_job(*AWAY, concurrency=3, on_offline=policy, failure_tolerate="1"), AWAY, online=fleet("b", "c"))
    assert phases(job.status) == expected


def test_offline_is_judged_when_the_turn_comes_and_not_before() -> None:
    job = begun(a_job("b", "a", concurrency=1), AWAY, online=fleet("b"))
    assert phases(job.status) == {"b": "InProgress", "a": "Pending"}
    after = settled(job, nodes=AWAY, online=fleet("b"), said={"b": success()})
    assert phases(after.status)["a"] == "Skipped/NotConnected"
    assert after.status.phase == "Completed"


def test_node_that_was_just_lost_is_waited_for() -> None:
    lost = fleet(lost={"a": START - 10})
    job = a_job("a")
    job = written(job, planned(job, nodes=nodes("a"), online=lost))
    found = planned(job, nodes=nodes("a"), online=lost)
    assert phases(written(job, found).status) == {"a": "Pending"}
    assert found.look_again == START + 80
    assert phases(settled(job, nodes=nodes("a"), online=lost, at=80).status) == {"a": "Skipped/NotConnected"}
    back = fleet("a", lost={"a": START - 10})
    assert phases(settled(job, nodes=nodes("a"), online=back, at=60).status) == {"a": "InProgress"}


def test_nobody_is_offline_before_the_hub_was_open_for_a_while() -> None:
    job = a_job("a")
    job = written(job, planned(job, nodes=nodes("a")))
    for online, again in ((fleet(open_since=0.0), None), (fleet(open_since=START - 1), START + 89)):
        found = planned(job, nodes=nodes("a"), online=online)
        assert phases(written(job, found).status) == {"a": "Pending"}
        assert found.look_again == again


def test_waiting_job_stays_open_and_names_the_nodes_and_since_when() -> None:
    job = begun(a_job("a", on_offline="Wait"), nodes("a"), online=fleet(lost={"a": START - 600}))
    assert job.status.phase == "InProgress"
    assert job.status.waiting == f"a: not connected since {rfc3339(START - 600)}"
    back = settled(job, nodes=nodes("a"), online=fleet("a"), at=86400)
    assert phases(back.status) == {"a": "InProgress"}


# ---- several jobs ------------------------------------------------------------------------------------------------


def test_the_older_job_has_the_node_and_the_younger_says_so() -> None:
    older = a_job("a", "b", name="north", created=START - 10)
    younger = a_job("b", "c", name="south", created=START, version="v1.24.0", concurrency=2)
    fleet_ = nodes("a", "b", "c")
    for _ in range(4):
        found = planned(younger, older, nodes=fleet_)
        older, younger = written(older, found), written(younger, found)
    assert phases(older.status) == {"a": "InProgress", "b": "Pending"}
    assert phases(younger.status) == {"b": "Pending", "c": "InProgress"}
    assert younger.status.waiting == "c (started); b: job north is older and wants it too"


def test_of_two_jobs_of_one_second_the_lower_uid_is_older() -> None:
    first, second = a_job("a", name="z", uid="1"), a_job("a", name="a", uid="2")
    for _ in range(3):
        found = planned(second, first, nodes=nodes("a"))
        first, second = written(first, found), written(second, found)
    assert (phases(first.status), phases(second.status)) == ({"a": "InProgress"}, {"a": "Pending"})


def test_suspended_job_wants_nothing_and_keeps_what_it_has() -> None:
    older = begun(a_job("a", "b", created=START - 10), nodes("a", "b"))
    older = with_spec(older, suspend=True)
    younger = a_job("a", "b", name="south", concurrency=2)
    for _ in range(3):
        found = planned(older, younger, nodes=nodes("a", "b"))
        older, younger = written(older, found), written(younger, found)
    assert phases(younger.status) == {"a": "Pending", "b": "InProgress"}
    assert "a: in flight for job north" in younger.status.waiting


def test_younger_job_does_not_hang_on_an_older_one_that_waits() -> None:
    older = a_job("a", created=START - 10, on_offline="Wait")
    younger = a_job("a", name="south")
    for _ in range(4):
        found = planned(older, younger, nodes=nodes("a"), online=fleet())
        older, younger = written(older, found), written(younger, found)
    assert older.status.phase == "InProgress"
    assert (younger.status.phase, phases(younger.status)) == ("Completed", {"a": "Skipped/NotConnected"})


def test_mark_that_may_have_been_written_takes_the_node() -> None:
    """Its write was not answered: it stands, or not; nobody else may have the node meanwhile."""
    older = written(a_job("a", created=START - 10), planned(a_job("a", created=START - 10), nodes=nodes("a")))
    perhaps = planned(older, nodes=nodes("a")).statuses["uid-north"]
    suspended = with_spec(older, suspend=True)
    younger = a_job("a", name="south")
    younger = written(younger, planned(younger, nodes=nodes("a")))
    found = planned(suspended, younger, nodes=nodes("a"), unanswered={"uid-north": (perhaps,)})
    assert phases(written(younger, found).status) == {"a": "Pending"}
    assert found.start == ()
    free = planned(suspended, younger, nodes=nodes("a"))
    assert phases(written(younger, free).status) == {"a": "InProgress"}


def test_mark_that_may_have_been_taken_back_is_not_started() -> None:
    job = begun(a_job("a", timeout_seconds=60), nodes("a"))
    over = planned(job, nodes=nodes("a"), at=61)
    assert over.start == ()
    perhaps = over.statuses["uid-north"]
    assert planned(job, nodes=nodes("a"), at=30).start
    assert not planned(job, nodes=nodes("a"), at=30, unanswered={"uid-north": (perhaps,)}).start


def test_held_job_is_not_planned_but_its_nodes_are_taken() -> None:
    job = begun(a_job("a", created=START - 10), nodes("a"))
    other = a_job("a", name="south")
    other = written(other, planned(other, nodes=nodes("a")))
    found = planned(job, other, nodes=nodes("a"), at=9999, held=frozenset({"uid-north"}))
    assert "uid-north" not in found.statuses
    assert phases(written(other, found).status) == {"a": "Pending"}


# ---- set back ----------------------------------------------------------------------------------------------------


def test_busy_node_is_set_back_and_marked_again_when_it_is_free() -> None:
    job = begun(a_job("a", "b"), nodes("a", "b"))
    busy = settled(job, nodes=nodes("a", "b"), said={"a": a_report(1, code="Busy", reason="busy with keadm, pid 7")})
    assert phases(busy.status) == {"a": "Pending/Busy", "b": "InProgress"}
    wider = with_status(a_job("a", "b", concurrency=2), busy.status)
    waits = settled(wider, nodes=nodes("a", "b"))
    assert "a: busy with keadm, pid 7" in waits.status.waiting
    free = settled(waits, nodes=nodes("a", "b"), free=frozenset({"a"}))
    assert phases(free.status) == {"a": "InProgress", "b": "InProgress"}
    assert phases(settled(waits, nodes=nodes("a", "b"), at=BUSY_PAUSE).status)["a"] == "InProgress"
    said = settled(waits, nodes=nodes("a", "b"), said={"a": a_report(2, action="")})
    assert phases(said.status)["a"] == "InProgress"


def test_progress_of_a_node_that_was_set_back_is_not_a_mark() -> None:
    job = begun(a_job("a", on_offline="Wait", timeout_seconds=60), nodes("a"))
    back = settled(job, nodes=nodes("a"), online=fleet(), at=61)
    assert phases(back.status) == {"a": "Pending"}
    works = settled(back, nodes=nodes("a"), said={"a": a_report(2, action="BackUp")}, at=70)
    assert phases(works.status) == {"a": "Pending/Cancelling"}
    assert "still works on an attempt that was set back" in works.status.waiting
    done = settled(works, nodes=nodes("a"), said={"a": success(3)}, at=80)
    assert (phases(done.status), done.status.phase) == ({"a": "Successful"}, "Completed")
    later = settled(works, nodes=nodes("a"), at=131)
    assert phases(later.status) == {"a": "InProgress"}, "it never answered; to start it again is idempotent"


def test_node_that_holds_the_quorum_waits() -> None:
    job = begun(a_job("a", "b", concurrency=2), nodes("a", "b"), critical=frozenset({"a"}))
    assert phases(job.status) == {"a": "Pending/QuorumAtRisk", "b": "InProgress"}
    assert "quorum" in job.status.waiting
    assert phases(settled(job, nodes=nodes("a", "b")).status)["a"] == "InProgress"


def etcd_nodes(*names: str) -> dict[str, Node]:
    """Edge nodes that are etcd members too."""
    made = nodes(*names)
    labels = {EDGE_LABEL: "", ETCD_LABEL: "true"}
    return {
        name: msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, labels=labels))
        for name, one in made.items()
    }


def test_etcd_nodes_go_one_at_a_time_whatever_the_concurrency_and_across_jobs() -> None:
    members = {**etcd_nodes("a", "b", "c"), **nodes("d")}
    job = begun(a_job("a", "b", "d", concurrency=3), members)
    assert phases(job.status) == {"a": "InProgress", "b": "Pending", "d": "InProgress"}
    waiting = begun(a_job("a", "b", concurrency=3), members).status.waiting
    assert "etcd nodes go one at a time, and a is in flight" in waiting
    other = settled(a_job("c", name="south"), job, nodes=members)
    assert phases(other.status) == {"c": "Pending"}
    after = settled(job, nodes=members, said={"a": success()})
    assert phases(after.status) == {"a": "Successful", "b": "InProgress", "d": "InProgress"}


def test_clock_that_went_back_marks_all_the_same() -> None:
    job = written(a_job("a"), planned(a_job("a"), nodes=nodes("a")))
    job = entry_changed(job, "a", since=rfc3339(START + 7200))
    assert phases(settled(job, nodes=nodes("a")).status) == {"a": "InProgress"}


def test_already_at_the_version_is_judged_last_thing() -> None:
    job = begun(a_job("a", "b"), nodes("a", "b"))
    after = settled(job, nodes={"a": a_node("a"), "b": a_node("b", NEW)}, said={"a": success()})
    assert phases(after.status) == {"a": "Successful", "b": "Skipped/AlreadyAtVersion"}
