"""What a node does about each word of the cloud: tasks again and late, cancels, leases, acknowledgements."""

import msgspec
import pytest

from beehive.api.nodeupgradejob import BACK_UP, CHECK, ROLL_BACK, UPGRADE
from beehive.message import Message
from beehive.messages.host import RunStep, StopStep
from beehive.messages.tasks import CancelTask, ReportSeen, SendSnapshot
from beehive.messages.uplink import CloudReached, Say
from modules.taskmanager.flow import LEGACY_ATTEMPT
from modules.taskmanager.hearing import pause, step
from modules.taskmanager.record import MOST_KEPT, Decision, Moment, Record
from tests.rules.playing import NOW, POLICY, TO_UPGRADE, attempt, done, hellos, later, play, ran, report, reports, start

# ---- the same task again, and another ----------------------------------------------------------------------------


def test_a_repeated_task_in_flight_renews_the_lease_and_runs_nothing() -> None:
    decision = play(start(), done(CHECK), start(lease=900.0))
    assert ran(decision) == []
    assert report(decision).revision == 2
    assert attempt(decision).lease is not None
    assert attempt(decision).lease.left(NOW) == 900.0  # type: ignore[union-attr]


def test_a_repeated_task_is_answered_with_the_kept_result_and_never_runs_again() -> None:
    ended = play(*TO_UPGRADE, done(UPGRADE))
    first = report(ended)
    record = ended.record
    for number in range(MOST_KEPT - 1):
        record = play(start(f"x{number}"), done(CHECK, ok=False, uid=f"x{number}"), record=record).record
    again = step(record, start(), NOW, POLICY)
    assert again == Decision(record, (Say(body=first),))
    assert len(record.finished) == MOST_KEPT
    one_more = play(start("y"), done(CHECK, ok=False, uid="y"), record=record).record
    assert len(one_more.finished) == MOST_KEPT, "the journal does not grow for ever"


def test_another_task_while_busy_is_told_who_holds_the_node_and_later_that_it_is_free() -> None:
    busy = play(*TO_UPGRADE, start("u2", attempt=3))
    word = report(busy)
    assert (word.uid, word.attempt, word.code, word.final, word.revision) == ("u2", 3, "Busy", False, 1)
    assert word.reason == "busy with job job-u1, attempt 1, in Upgrade"
    assert attempt(busy).uid == "u1"
    again = report(step(busy.record, start("u2", attempt=3), NOW, POLICY))
    assert again.revision == 2, "revisions grow while it is refused, too"
    ended = play(start("u2", attempt=3), done(UPGRADE), record=busy.record)
    final, freed = reports(ended)
    assert final.final
    assert final.uid == "u1"
    assert (freed.uid, freed.attempt, freed.action, freed.code, freed.results, freed.revision) == (
        "u2",
        3,
        "",
        "",
        (),
        3,
    )
    begun = step(ended.record, start("u2", attempt=3), NOW, POLICY)
    assert ran(begun) == [CHECK]
    assert report(begun).revision == 4


def test_a_host_that_somebody_else_holds_is_busy_not_failed() -> None:
    held = play(start(), done(CHECK, ok=False, code="Busy", reason="busy: keadm upgrade edge, pid 4021"))
    word = report(held)
    assert (word.code, word.final, word.reason) == ("Busy", False, "busy: keadm upgrade edge, pid 4021")
    assert held.record.attempt is None
    again = step(held.record, start(), NOW, POLICY)
    assert ran(again) == [CHECK]
    assert report(again).revision == word.revision + 1


def test_a_host_that_somebody_else_took_before_the_upgrade_is_given_back_and_not_rolled_back() -> None:
    held = play(*TO_UPGRADE, done(UPGRADE, ok=False, code="Busy", reason="somebody on this host, pid 4021"))
    word = report(held)
    assert (word.code, word.final, word.reason) == ("Busy", False, "somebody on this host, pid 4021")
    assert ran(held) == [], "nothing was changed: there is nothing to roll back"
    assert held.record.attempt is None
    again = step(held.record, start(), NOW, POLICY)
    assert ran(again) == [CHECK]
    assert report(again).revision == word.revision + 1


def test_a_rollback_that_finds_the_host_taken_has_not_failed() -> None:
    undoing = play(*TO_UPGRADE, done(UPGRADE, ok=False))
    assert attempt(undoing).step == ROLL_BACK
    for step_ in (UPGRADE, ROLL_BACK):
        held = step(undoing.record, done(step_, ok=False, code="Busy"), NOW, POLICY)
        assert held == Decision(undoing.record), "the attempt is still to be undone"


@pytest.mark.parametrize("played", [(start(attempt=2),), (start(attempt=2), done(CHECK, ok=False, attempt=2))])
def test_a_task_that_was_long_under_way_does_not_run_after_its_successor(played: tuple[Message, ...]) -> None:
    decision = play(*played)
    assert step(decision.record, start(attempt=1), NOW, POLICY) == Decision(decision.record)


# ---- cancel ------------------------------------------------------------------------------------------------------

CANCEL = CancelTask(job="job-u1", uid="u1", attempt=1)


@pytest.mark.parametrize(
    "before", [(start(),), (start(require_confirmation=True), done(CHECK)), (start(), done(CHECK))]
)
def test_a_cancel_before_the_upgrade_stops_the_action_and_gives_the_attempt_back(before: tuple[Message, ...]) -> None:
    cancelled = play(*before, CANCEL)
    assert [type(one) for one in cancelled.effects] == [StopStep, Say]
    in_hand = attempt(cancelled).step
    assert pause(cancelled.record, NOW, POLICY) == POLICY.stop_again
    again = step(cancelled.record, CANCEL, NOW, POLICY)
    assert (again.record, [type(one) for one in again.effects]) == (cancelled.record, [StopStep]), (
        "no report for a report"
    )
    alarm = step(cancelled.record, None, NOW, POLICY)
    assert [type(one) for one in alarm.effects] == [RunStep, StopStep], "only what runs can say that it ended"
    for ok in (True, False):
        ended = step(cancelled.record, done(in_hand, ok=ok, reason="stopped"), NOW, POLICY)
        word = report(ended)
        assert (word.final, word.code, word.action, word.results) == (False, "", "", ())
        assert word.revision == attempt(cancelled).revision + 1
        assert ended.record.attempt is None
        assert ran(ended) == []
        again = step(ended.record, start(), NOW, POLICY)
        assert ran(again) == [CHECK], "the cloud may change its mind"
        assert report(again).revision == word.revision + 1


@pytest.mark.parametrize("more", [(), (done(UPGRADE, ok=False, reason="x"),)])
def test_a_cancel_after_the_upgrade_has_begun_is_answered_with_a_snapshot(more: tuple[Message, ...]) -> None:
    upgrading = play(*TO_UPGRADE, *more)
    decision = step(upgrading.record, CANCEL, NOW, POLICY)
    assert (attempt(decision).step, attempt(decision).cancelled) == (attempt(upgrading).step, False)
    assert report(decision).action in (UPGRADE, ROLL_BACK)
    assert step(decision.record, CANCEL, NOW, POLICY) == Decision(decision.record), "or the two would go on for ever"


def test_a_cancel_of_what_is_not_known_is_answered_that_nothing_runs() -> None:
    decision = step(Record(), CANCEL, NOW, POLICY)
    assert (report(decision).action, report(decision).revision, report(decision).final) == ("", 1, False)
    assert step(decision.record, CANCEL, NOW, POLICY) == Decision(decision.record, decision.effects)


def test_a_cancel_of_what_ended_is_answered_with_its_end() -> None:
    ended = play(*TO_UPGRADE, done(UPGRADE))
    assert step(ended.record, CANCEL, NOW, POLICY) == Decision(ended.record, (Say(body=report(ended)),))


# ---- the lease ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("now", [later(300), later(10, boot="boot-2"), Moment(0.0, "boot-1", 500.0)])
def test_no_upgrade_begins_after_the_lease_without_asking(now: Moment) -> None:
    asking = step(play(*TO_UPGRADE[:-1]).record, TO_UPGRADE[-1], now, POLICY)
    assert ran(asking) == []
    assert hellos(asking) == 1
    assert report(asking).reason == "its lease ended before the upgrade began; it asks the cloud whether it may begin"
    assert pause(asking.record, now, POLICY) == POLICY.ask_again
    assert hellos(step(asking.record, None, now, POLICY)) == 1, "it asks again"
    assert hellos(step(asking.record, CloudReached(url="x"), now, POLICY)) == 1
    assert ran(step(asking.record, start(lease=0.0), now, POLICY)) == [], "no time left is no leave"
    assert ran(step(asking.record, start(lease=60.0), now, POLICY)) == [UPGRADE]
    seen = ReportSeen(job="job-u1", uid="u1", attempt=1, revision=3, lease_seconds=60.0)
    assert ran(step(asking.record, seen, now, POLICY)) == [UPGRADE]
    stopped = step(asking.record, CANCEL, now, POLICY)
    assert stopped.record.attempt is None
    assert (report(stopped).action, report(stopped).final) == ("", False)
    assert step(asking.record, done(UPGRADE), now, POLICY) == Decision(asking.record), "it was not begun"


def test_the_lease_counts_from_receipt_and_is_renewed_when_a_report_was_seen() -> None:
    seen = ReportSeen(job="job-u1", uid="u1", attempt=1, revision=1, lease_seconds=300.0)
    record = step(play(start(lease=300.0)).record, seen, later(200), POLICY).record
    record = step(record, done(CHECK), later(400), POLICY).record
    assert ran(step(record, done(BACK_UP), later(499), POLICY)) == [UPGRADE]
    assert ran(step(record, done(BACK_UP), later(500), POLICY)) == []


def test_what_a_legacy_cloud_starts_needs_no_leave() -> None:
    told = [msgspec.structs.replace(one, attempt=LEGACY_ATTEMPT) for one in (start(lease=0.0), *TO_UPGRADE[1:])]
    record = play(*told[:-1]).record
    assert ran(step(record, told[-1], later(1, boot="boot-2"), POLICY)) == [UPGRADE]


# ---- said again --------------------------------------------------------------------------------------------------


def test_a_report_is_said_again_until_it_was_seen() -> None:
    ended = play(*TO_UPGRADE, done(UPGRADE))
    reached = CloudReached(url="wss://cloud")
    assert reports(step(ended.record, reached, NOW, POLICY)) == [report(ended)]
    old = ReportSeen(job="job-u1", uid="u1", attempt=1, revision=3)
    assert reports(step(step(ended.record, old, NOW, POLICY).record, reached, NOW, POLICY)) == [report(ended)]
    seen = step(ended.record, ReportSeen(job="job-u1", uid="u1", attempt=1, revision=4), NOW, POLICY).record
    assert step(seen, reached, NOW, POLICY) == Decision(seen)
    assert reports(step(seen, start(), NOW, POLICY)) == [report(ended)], "but a repeated task is still answered"


def test_the_snapshot_is_said_when_the_cloud_is_reached_or_asks() -> None:
    record = play(*TO_UPGRADE).record
    asks = SendSnapshot(job="job-u1", uid="u1", attempt=1)
    for message in (CloudReached(url="x"), asks):
        decision = step(record, message, NOW, POLICY)
        assert decision.record == record
        assert (report(decision).action, report(decision).revision) == (UPGRADE, 3)
    unknown = step(record, SendSnapshot(job="j", uid="other", attempt=1), NOW, POLICY)
    assert (report(unknown).uid, report(unknown).action) == ("other", "")


def test_a_reason_from_outside_is_one_line_of_bounded_length() -> None:
    word = report(play(start(), done(CHECK, ok=False, reason="a\nb\x00" + "c" * 10_000)))
    assert "\n" not in word.reason
    assert len(word.reason) <= 256
