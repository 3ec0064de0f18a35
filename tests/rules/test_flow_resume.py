"""How an attempt goes on after a restart: evidence first (architecture.md 6)."""

import msgspec
import pytest

from beehive.api.nodeupgradejob import BACK_UP, CHECK, ROLL_BACK, UPGRADE, WAITING_CONFIRMATION
from beehive.messages.host import Evidence, RunStep, StopStep, Verdict, WatchStep
from modules.taskmanager.record import Decision, Record
from modules.taskmanager.resume import resume
from tests.rules.playing import (
    NOW,
    POLICY,
    TO_UPGRADE,
    attempt,
    done,
    hellos,
    later,
    play,
    ran,
    report,
    reports,
    start,
    start_task_cancel,
)

OLD = Evidence(installed="v1.22.0", healthy=True, complete=True, unit_runs=False)
_replace = msgspec.structs.replace


def after(record: Record, evidence: Evidence | None, restarts: int = 1) -> Decision:
    """The decision after so many restarts with this evidence."""
    decision = Decision(record)
    for _ in range(restarts):
        decision = resume(decision.record, evidence, NOW, POLICY)
    return decision


UPGRADING = play(*TO_UPGRADE).record


def test_nothing_begun_nothing_done() -> None:
    assert resume(Record(), None, NOW, POLICY) == Decision(Record())


def test_what_ended_but_was_not_acknowledged_is_said_again() -> None:
    ended = play(*TO_UPGRADE, done(UPGRADE))
    assert resume(ended.record, None, NOW, POLICY) == Decision(ended.record, ended.effects)


@pytest.mark.parametrize(
    ("verdict", "code", "final"),
    [
        (Verdict("Upgrade", True, to_version="v1.23.0"), "", True),
        (Verdict("RollBack", True, "RolledBack", "it crashed", "v1.23.0", "v1.22.0"), "RolledBack", True),
        (Verdict("Upgrade", False, "RolledBack", "it crashed", "v1.22.0", "v1.22.0"), "RolledBack", True),
        (Verdict("RollBack", False, "RollbackFailed", "mend it"), "RollbackFailed", True),
    ],
)
@pytest.mark.parametrize("running", [True, False])
def test_the_tools_own_verdict_is_its_word_whatever_else_is_seen(
    verdict: Verdict, code: str, final: bool, running: bool
) -> None:
    seen = Evidence(installed="", healthy=False, complete=False, unit_runs=running, verdict=verdict)
    decision = after(UPGRADING, seen)
    assert (report(decision).final, report(decision).code) == (final, code)
    assert ran(decision) == []


def test_a_unit_that_still_runs_is_watched_and_is_no_interruption() -> None:
    decision = after(UPGRADING, _replace(OLD, unit_runs=True, complete=False), restarts=5)
    assert isinstance(decision.effects[0], WatchStep)
    assert decision.effects[0].step == UPGRADE
    assert attempt(decision).interruptions == 0


def test_a_target_that_is_installed_and_healthy_is_a_success() -> None:
    decision = after(UPGRADING, Evidence(installed="v1.23.0", healthy=True, complete=True, unit_runs=False))
    assert (report(decision).final, report(decision).code, report(decision).to_version) == (True, "", "v1.23.0")


def test_a_target_whose_tool_died_before_its_verdict_is_no_success_yet_and_its_tool_is_started_again() -> None:
    """Agent and tool died together in the soak: that it runs now says nothing of the next second."""
    seen = Evidence(installed="v1.23.0", healthy=True, complete=True, unit_runs=False, undecided=True)
    decision = after(UPGRADING, seen)
    assert ran(decision) == [UPGRADE]
    assert not report(decision).final
    assert ran(after(UPGRADING, seen, restarts=3)) == [ROLL_BACK]


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(installed="v1.23.0", healthy=False, complete=True, unit_runs=False),
        Evidence(installed="", healthy=True, complete=True, unit_runs=False),
        OLD,
    ],
)
def test_less_than_that_is_not_a_success_and_the_upgrade_runs_again(evidence: Evidence) -> None:
    decision = after(UPGRADING, evidence)
    assert ran(decision) == [UPGRADE]
    assert attempt(decision).interruptions == 1
    assert report(decision).reason == "was interrupted once"


def test_half_a_program_on_disk_is_rolled_back() -> None:
    decision = after(UPGRADING, Evidence(installed="", healthy=False, complete=False, unit_runs=False))
    assert ran(decision) == [ROLL_BACK]
    assert attempt(decision).results[-1].reason == "interrupted, and neither version is complete on disk"


def test_the_third_interruption_of_an_upgrade_is_rolled_back_and_told_as_a_failure() -> None:
    decision = after(UPGRADING, OLD, restarts=3)
    assert ran(decision) == [ROLL_BACK]
    again = after(decision.record, OLD, restarts=4)
    assert ran(again) == [ROLL_BACK], "a rollback is always finished"
    word = report(play(done(ROLL_BACK, to_version="v1.22.0"), record=again.record))
    assert (word.code, word.final, word.to_version) == ("RolledBack", True, "v1.22.0")
    assert word.reason == "interrupted 3 times in Upgrade"


@pytest.mark.parametrize("played", [(start(),), (start(), done(CHECK))])
def test_before_the_upgrade_the_third_interruption_ends_it_with_nothing_changed(played: tuple[object, ...]) -> None:
    record = play(*played).record  # type: ignore[arg-type]
    in_hand = attempt(Decision(record)).step
    assert ran(after(record, OLD, restarts=2)) == [in_hand]
    word = report(after(record, OLD, restarts=3))
    assert (word.final, word.code) == (True, "Interrupted")
    assert word.reason == f"interrupted 3 times in {in_hand}; nothing was changed"


def test_a_verdict_of_success_while_rolling_back_is_believed() -> None:
    """The tool had ended well before the rollback was saved, and nothing has been undone."""
    rolling = after(UPGRADING, OLD, restarts=3).record
    seen = Evidence("v1.23.0", True, True, False, Verdict("Upgrade", True, to_version="v1.23.0"))
    word = report(after(rolling, seen))
    assert (word.code, word.to_version) == ("", "v1.23.0")
    assert [(one.action, one.status) for one in word.results][-1] == (UPGRADE, "True")


def test_waiting_for_the_owner_survives_any_number_of_restarts() -> None:
    waiting = play(start(require_confirmation=True), done(CHECK)).record
    decision = after(waiting, OLD, restarts=9)
    assert ran(decision) == [WAITING_CONFIRMATION]
    assert attempt(decision).interruptions == 0
    owner = attempt(decision).owner
    assert owner is not None
    assert owner.left(later(1000)) == 2600.0, "the owner's time goes on"
    rebooted = resume(decision.record, OLD, later(1000, boot="boot-2"), POLICY)
    assert attempt(rebooted).owner.left(later(1000, boot="boot-2")) == 3600.0  # type: ignore[union-attr]


def test_an_attempt_that_asks_for_leave_asks_again_and_is_not_interrupted() -> None:
    asking = play(*TO_UPGRADE, now=NOW).record
    asking = _replace(asking, attempt=_replace(asking.attempt, begun=False, lease=None))  # type: ignore[type-var]
    assert ran(after(asking, OLD)) == [UPGRADE], "a legacy cloud gives leave for ever"
    ended = _replace(asking, attempt=_replace(attempt(Decision(UPGRADING)), begun=False))
    decision = resume(ended, OLD, later(301), POLICY)
    assert hellos(decision) == 1
    assert ran(decision) == []
    assert attempt(decision).interruptions == 0


def test_a_cancelled_action_does_not_survive_a_restart() -> None:
    cancelled = play(start(), start_task_cancel()).record
    decision = after(cancelled, OLD)
    assert isinstance(decision.effects[0], StopStep)
    assert (report(decision).action, report(decision).final) == ("", False)
    assert decision.record.attempt is None


def test_after_missed_messages_nothing_counts_as_interrupted() -> None:
    for record in (play(start()).record, UPGRADING):
        decision = Decision(record)
        for _ in range(9):
            decision = resume(decision.record, OLD, NOW, POLICY, restarted=False)
        assert attempt(decision) == record.attempt
        assert ran(decision) == [attempt(decision).step]
    cancelled = resume(play(start(), start_task_cancel()).record, OLD, NOW, POLICY, restarted=False)
    assert [type(one) for one in cancelled.effects] == [RunStep, StopStep]
    assert attempt(cancelled).cancelled


def test_a_busy_node_says_so_again_after_a_restart() -> None:
    busy = play(*TO_UPGRADE, start("u2")).record
    said = reports(after(busy, _replace(OLD, unit_runs=True)))
    assert [(one.uid, one.code) for one in said] == [("u2", "Busy"), ("u1", "")]


def test_a_backup_that_was_cut_off_is_made_again() -> None:
    assert ran(after(play(start(), done(CHECK)).record, OLD)) == [BACK_UP]
