"""How nodes and jobs end: deadlines, abort, retry, suspend, late words, conditions."""

import pytest

from beehive.api.meta import condition
from beehive.api.nodeupgradejob import JobStatus, NodeUpgradeJob
from beehive.world import rfc3339
from tests.fakes.jobs import (
    NEW,
    OLD,
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
)
from tests.rules.planning import begun, entry_changed, planned, settled

AB = nodes("a", "b")
ABC = nodes("a", "b", "c")


def truth(status: JobStatus, type_: str) -> str:
    found = condition(status.conditions or (), type_)
    return f"{found.status}/{found.reason}" if found else "-"


# ---- deadlines ---------------------------------------------------------------------------------------------------


def test_silent_node_ends_at_its_deadline_and_frees_its_slot() -> None:
    job = begun(a_job("a", "b", timeout_seconds=60, failure_tolerate="1"), AB)
    assert planned(job, nodes=AB).look_again == START + 60
    assert settled(job, nodes=AB, at=59.9) == job
    after = settled(job, nodes=AB, at=60)
    assert phases(after.status) == {"a": "Unknown/TimedOut", "b": "InProgress"}
    assert (after.status.node_status or ())[0].reason == "no word for 60 s"


def test_zero_is_read_as_300_seconds() -> None:
    assert planned(begun(a_job("a", timeout_seconds=0), AB), nodes=AB).look_again == START + 300


def test_progress_gives_new_time() -> None:
    job = begun(a_job("a", timeout_seconds=60), AB)
    heard = settled(job, nodes=AB, said={"a": a_report(2)}, at=50)
    assert settled(heard, nodes=AB, at=109) == heard
    assert phases(settled(heard, nodes=AB, at=110).status) == {"a": "Unknown/TimedOut"}


def test_repeated_report_gives_no_time() -> None:
    job = begun(a_job("a", timeout_seconds=60), AB)
    heard = settled(job, nodes=AB, said={"a": a_report(2)}, at=10)
    assert settled(heard, nodes=AB, said={"a": a_report(2)}, at=60) == heard


@pytest.mark.parametrize(("limit", "deadline"), [(1800.0, 1860), (0.0, 3660)])
def test_owner_has_the_hosts_own_time(limit: float, deadline: int) -> None:
    job = begun(a_job("a", timeout_seconds=60), AB)
    asked = a_report(2, code="WaitingConfirmation", wait_seconds=limit)
    waits = settled(job, nodes=AB, said={"a": asked})
    assert phases(waits.status) == {"a": "InProgress/WaitingConfirmation"}
    assert planned(waits, nodes=AB).look_again == START + deadline
    confirmed = settled(waits, nodes=AB, said={"a": a_report(3, action="BackUp")}, at=100)
    assert planned(confirmed, nodes=AB).look_again == START + 160


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("Skip", "Skipped/NotConnected"), ("Fail", "Failure/NotConnected"), ("Wait", "Pending")],
)
def test_node_that_was_never_reached_is_judged_by_on_offline(policy: str, expected: str) -> None:
    job = begun(a_job("a", on_offline=policy, timeout_seconds=60), AB)
    gone = fleet(lost={"a": START - 3000})
    assert phases(settled(job, nodes=AB, online=gone, at=60).status) == {"a": expected}


def test_node_that_reported_once_and_vanished_is_unknown() -> None:
    job = begun(a_job("a", timeout_seconds=60), AB)
    heard = settled(job, nodes=AB, said={"a": a_report(2)})
    assert phases(settled(heard, nodes=AB, online=fleet(), at=60).status) == {"a": "Unknown/TimedOut"}


def test_what_became_due_without_a_leader_is_judged_when_the_nodes_could_speak() -> None:
    job = begun(a_job("a", "b", timeout_seconds=60, failure_tolerate="0"), AB)
    away = 3600.0
    assert settled(job, nodes=AB, online=fleet(open_since=0.0), at=away) == job
    opened = fleet(open_since=START + away)
    assert planned(job, nodes=AB, online=opened, at=away + 1).look_again == START + away + 90
    spoke = settled(job, nodes=AB, online=opened, said={"a": success()}, at=away + 5)
    assert phases(spoke.status)["a"] == "Successful"
    silent = settled(job, nodes=AB, online=opened, at=away + 90)
    assert phases(silent.status) == {"a": "Skipped/NotConnected", "b": "Skipped/NotConnected"}


def test_cordon_that_is_refused_until_the_deadline_is_its_failure() -> None:
    job = begun(a_job("a", timeout_seconds=60), AB)
    refused = {"a": "admission webhook denied the request"}
    assert settled(job, nodes=AB, cordons=refused, at=59) == job
    after = settled(job, nodes=AB, cordons=refused, at=60)
    assert phases(after.status) == {"a": "Failure/CordonFailed"}
    assert "admission webhook denied" in (after.status.node_status or ())[0].reason


def test_edgecore_whose_node_shows_the_version_is_believed() -> None:
    job = begun(a_job("a", timeout_seconds=60), AB)
    legacy = fleet()
    legacy = type(legacy)(online={"a": True}, open_since=legacy.open_since)
    upgraded = {"a": a_node("a", f"v1.30.7-kubeedge-{NEW}")}
    assert phases(settled(job, nodes=upgraded, online=legacy, at=60).status) == {"a": "Successful"}
    assert phases(settled(job, nodes=upgraded, online=fleet("a"), at=60).status) == {"a": "Unknown/TimedOut"}
    assert phases(settled(job, nodes=AB, online=legacy, at=60).status) == {"a": "Unknown/TimedOut"}


def test_time_that_is_no_time_ends_rather_than_hangs() -> None:
    job = entry_changed(begun(a_job("a"), AB), "a", since="yesterday")
    assert phases(settled(job, nodes=AB).status) == {"a": "Unknown/TimedOut"}


# ---- the end -----------------------------------------------------------------------------------------------------


def test_three_kinds_of_outcome_complete_a_job() -> None:
    job = begun(a_job("a", "b", "c", concurrency=3, failure_tolerate="0.4"), ABC, online=fleet("a", "b"))
    end = settled(job, nodes=ABC, said={"a": success(), "b": rolled_back()}, at=30)
    assert phases(end.status) == {"a": "Successful", "b": "Failure/RolledBack", "c": "Skipped/NotConnected"}
    assert (end.status.phase, end.status.reason, end.status.done) == ("Completed", "", "3/3")
    assert (end.status.successful, end.status.failed, end.status.skipped) == (1, 1, 1)
    assert end.status.completion_time == rfc3339(START + 30)
    assert end.status.waiting == ""
    assert truth(end.status, "Complete") == "True/Completed"
    assert truth(end.status, "Failed") == "False/WithinTolerance"
    assert truth(end.status, "Progressing") == "False/Completed"


def test_job_ends_only_when_nothing_is_open() -> None:
    job = begun(a_job("a", "b", failure_tolerate="0"), AB)
    half = settled(job, nodes=AB, said={"a": success()})
    assert half.status.phase == "InProgress"
    assert truth(half.status, "Complete") == "False/InProgress"


def test_transition_times_move_only_when_a_condition_flips() -> None:
    job = begun(a_job("a", "b", failure_tolerate="1"), AB)
    later = settled(job, nodes=AB, said={"a": success()}, at=50)
    end = settled(later, nodes=AB, said={"b": success()}, at=100)
    moments = {one.type: one.last_transition_time for one in end.status.conditions or ()}
    assert moments["Accepted"] == rfc3339(START)
    assert moments["Complete"] == moments["Progressing"] == rfc3339(START + 100)
    assert moments["Failed"] == rfc3339(START)


# ---- late words --------------------------------------------------------------------------------------------------


def test_late_word_changes_entry_and_counters_and_nothing_else() -> None:
    job = begun(a_job("a", "b", timeout_seconds=60, failure_tolerate="0", concurrency=2), AB)
    end = settled(job, nodes=AB, at=61)
    assert (end.status.phase, end.status.reason) == ("Failure", "BudgetExceeded")
    late = settled(end, nodes=AB, said={"a": success()}, at=999)
    assert phases(late.status) == {"a": "Successful", "b": "Unknown/TimedOut"}
    assert (late.status.successful, late.status.unknown) == (1, 1)
    same = ("phase", "reason", "conditions", "completion_time", "waiting", "observed_generation")
    assert all(getattr(late.status, field) == getattr(end.status, field) for field in same)


def test_late_word_does_not_reopen_a_budget_that_was_spent() -> None:
    job = begun(a_job("a", "b", "c", timeout_seconds=60, failure_tolerate="0", concurrency=2), ABC)
    spent = settled(job, nodes=ABC, said={"b": a_report(2)}, at=60)
    assert phases(spent.status) == {"a": "Unknown/TimedOut", "b": "InProgress", "c": "Skipped/BudgetExceeded"}
    revised = settled(spent, nodes=ABC, said={"a": success()}, at=70)
    assert (revised.status.failed, revised.status.unknown) == (0, 0)
    end = settled(revised, nodes=ABC, said={"b": success(5)}, at=80)
    assert phases(end.status)["c"] == "Skipped/BudgetExceeded"
    assert (end.status.phase, end.status.reason) == ("Failure", "BudgetExceeded")


# ---- abort -------------------------------------------------------------------------------------------------------


def test_abort_skips_what_waits_and_lets_the_rest_finish() -> None:
    job = begun(a_job("a", "b", "c", concurrency=2), ABC)
    aborted = settled(with_spec(job, abort=True), nodes=ABC)
    assert phases(aborted.status) == {"a": "InProgress", "b": "InProgress", "c": "Skipped/Aborted"}
    assert aborted.status.phase == "InProgress"
    assert planned(aborted, nodes=ABC).start == (), "nobody is started any more"
    said = {"a": a_report(3, final=True, code="Aborted"), "b": success()}
    end = settled(aborted, nodes=ABC, said=said)
    assert phases(end.status) == {"a": "Skipped/Aborted", "b": "Successful", "c": "Skipped/Aborted"}
    assert (end.status.phase, end.status.reason) == ("Failure", "Aborted")
    assert truth(end.status, "Failed") == "True/Aborted"


def test_abort_while_a_node_waits_for_its_owner_ends_at_the_latest_at_its_deadline() -> None:
    job = begun(a_job("a", timeout_seconds=60), AB)
    waits = settled(job, nodes=AB, said={"a": a_report(2, code="WaitingConfirmation", wait_seconds=600)})
    aborted = settled(with_spec(waits, abort=True), nodes=AB, at=10)
    assert aborted.status.phase == "InProgress"
    end = settled(aborted, nodes=AB, at=661)
    assert (end.status.phase, end.status.reason) == ("Failure", "Aborted")


@pytest.mark.parametrize("said", [a_report(1, code="Busy"), a_report(2, action="")])
def test_after_abort_nothing_becomes_pending(said: object) -> None:
    job = settled(with_spec(begun(a_job("a"), AB), abort=True), nodes=AB)
    end = settled(job, nodes=AB, said={"a": said})  # type: ignore[dict-item]
    assert (end.status.phase, phases(end.status)) == ("Failure", {"a": "Skipped/Aborted"})


def test_abort_of_a_new_job_ends_it_without_a_start() -> None:
    job = settled(with_spec(a_job("a", "b"), abort=True), nodes=AB)
    assert (job.status.phase, phases(job.status)) == ("Failure", {"a": "Skipped/Aborted", "b": "Skipped/Aborted"})


def test_abort_after_the_end_changes_nothing() -> None:
    end = settled(begun(a_job("a"), AB), nodes=AB, said={"a": success()})
    assert settled(with_spec(end, abort=True), nodes=AB).status == end.status


# ---- suspend -----------------------------------------------------------------------------------------------------


def test_suspended_job_starts_nobody_and_goes_on_when_resumed() -> None:
    job = begun(a_job("a", "b"), AB)
    held = settled(with_spec(job, suspend=True), nodes=AB)
    assert truth(held.status, "Suspended") == "True/Suspended"
    assert truth(held.status, "Progressing") == "True/NodesInFlight"
    done = settled(held, nodes=AB, said={"a": success()})
    assert phases(done.status) == {"a": "Successful", "b": "Pending"}
    assert truth(done.status, "Progressing") == "False/Suspended"
    assert done.status.waiting == "suspended: no further node is started"
    on = settled(with_spec(done, suspend=False), nodes=AB)
    assert phases(on.status)["b"] == "InProgress"
    assert truth(on.status, "Suspended") == "False/Running"
    assert on.status.observed_generation == on.metadata.generation


def test_running_job_has_no_condition_suspended() -> None:
    assert truth(begun(a_job("a"), AB).status, "Suspended") == "-"


# ---- retry -------------------------------------------------------------------------------------------------------


def ended(tolerate: str = "0.4") -> NodeUpgradeJob:
    """One of each: upgraded, rolled back, silent, away, cut off."""
    five = nodes("a", "b", "c", "d", "e")
    job = begun(
        a_job(*five, concurrency=4, failure_tolerate=tolerate, timeout_seconds=60),
        five,
        online=fleet("a", "b", "c", "e"),
    )
    said = {"a": success(), "b": rolled_back(), "e": a_report(2, final=True, code="Rejected")}
    return settled(job, nodes=five, online=fleet("a", "b", "c", "e"), said=said, at=60)


def test_retry_opens_what_failed_was_silent_or_away() -> None:
    end = ended()
    assert phases(end.status) == {
        "a": "Successful",
        "b": "Failure/RolledBack",
        "c": "Unknown/TimedOut",
        "d": "Skipped/NotConnected",
        "e": "Skipped/Rejected",
    }
    assert end.status.phase == "Completed"
    again = settled(with_spec(end, retry=1), nodes=nodes(*"abcde"), at=100)
    assert phases(again.status) == {
        "a": "Successful",
        "b": "InProgress",
        "c": "InProgress",
        "d": "InProgress",
        "e": "Skipped/Rejected",
    }
    assert [(entry.attempt, entry.revision) for entry in again.status.node_status or ()] == [
        (1, 4),
        (2, 0),
        (2, 0),
        (2, 0),
        (1, 2),
    ]
    assert (again.status.phase, again.status.completion_time, again.status.reason) == ("InProgress", None, "")
    assert truth(again.status, "Complete") == "False/InProgress"
    assert again.status.observed_retry == 1


def test_late_word_of_the_former_attempt_changes_nothing() -> None:
    again = settled(with_spec(ended(), retry=1), nodes=nodes(*"abcde"), at=100)
    assert settled(again, nodes=nodes(*"abcde"), said={"c": success(9, attempt=1)}, at=100) == again


def test_token_is_acted_on_once() -> None:
    again = settled(with_spec(ended(), retry=1), nodes=nodes(*"abcde"), at=100)
    said = {name: rolled_back(attempt=2) for name in "bc"}
    after = settled(again, nodes=nodes(*"abcde"), said=said, at=110)
    assert phases(after.status)["b"] == "Failure/RolledBack"


def test_budget_counts_afresh_after_a_retry() -> None:
    job = begun(a_job("a", "b", "c", failure_tolerate="0"), ABC)
    end = settled(job, nodes=ABC, said={"a": rolled_back()})
    assert end.status.reason == "BudgetExceeded"
    again = settled(with_spec(end, retry=1), nodes=ABC)
    assert phases(again.status) == {"a": "InProgress", "b": "Pending", "c": "Pending"}


def test_retry_in_mid_job_leaves_what_is_in_flight_and_does_not_run_it_again() -> None:
    job = begun(a_job("a", "b", "c", concurrency=2, failure_tolerate="1"), ABC)
    half = settled(job, nodes=ABC, said={"a": rolled_back()})
    again = settled(with_spec(half, retry=1), nodes=ABC)
    attempts = {entry.node_name: entry.attempt for entry in again.status.node_status or ()}
    assert (phases(again.status), attempts) == (
        {"a": "Pending", "b": "InProgress", "c": "InProgress"},
        {"a": 2, "b": 1, "c": 1},
    )
    after = settled(again, nodes=ABC, said={"b": rolled_back(), "c": success()})
    assert phases(after.status) == {"a": "InProgress", "b": "Failure/RolledBack", "c": "Successful"}


def test_pending_entries_take_the_new_attempt() -> None:
    job = begun(a_job("a", "b", failure_tolerate="1"), AB)
    again = settled(with_spec(job, retry=3), nodes=AB)
    assert [entry.attempt for entry in again.status.node_status or ()] == [1, 4]


def test_aborted_job_is_not_retried() -> None:
    end = settled(with_spec(a_job("a"), abort=True), nodes=AB)
    assert settled(with_spec(end, retry=1), nodes=AB).status == end.status


def test_retry_of_a_job_that_went_well_opens_nothing() -> None:
    end = settled(begun(a_job("a"), AB), nodes=AB, said={"a": success()})
    after = settled(with_spec(end, retry=1), nodes=AB)
    assert (after.status.phase, after.status.observed_retry) == ("Completed", 1)
    assert after.status.completion_time == end.status.completion_time


# ---- what stays out ----------------------------------------------------------------------------------------------


def test_deleted_job_is_not_planned() -> None:
    job = begun(a_job("a", "b"), AB)
    meta = type(job.metadata)(**{**{f: getattr(job.metadata, f) for f in job.metadata.__struct_fields__},
                                 "deletion_timestamp": rfc3339(START)})  # fmt: skip
    going = type(job)(metadata=meta, spec=job.spec, status=job.status)
    found = planned(going, nodes=AB, at=9999)
    assert (found.statuses, found.start) == ({}, ())


def test_versions_are_kept_as_the_node_said() -> None:
    end = settled(begun(a_job("a"), AB), nodes=AB, said={"a": success()})
    entry = (end.status.node_status or ())[0]
    assert (entry.historic_version, entry.current_version) == (OLD, NEW)
