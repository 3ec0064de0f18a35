"""A node's action flow, word by word: what is saved, what is done, what the cloud is told."""

import pytest

from beehive.api.nodeupgradejob import BACK_UP, CHECK, ROLL_BACK, UPGRADE, WAITING_CONFIRMATION
from beehive.message import Message
from beehive.messages.host import OwnerSaid, StopStep
from beehive.messages.tasks import TaskReport
from modules.taskmanager.flow import FLOW
from modules.taskmanager.hearing import pause, step
from modules.taskmanager.record import Decision, Moment, Record
from tests.rules.playing import NOW, POLICY, TO_UPGRADE, attempt, done, later, play, ran, report, start


def test_the_table_is_kubeedges_flow() -> None:
    assert FLOW == {
        "Check": ("WaitingConfirmation", None),
        "WaitingConfirmation": ("BackUp", None),
        "BackUp": ("Upgrade", None),
        "Upgrade": (None, "RollBack"),
        "RollBack": (None, None),
    }


def test_an_attempt_that_goes_well_is_told_after_each_action() -> None:
    heard: list[TaskReport] = []
    decision = Decision(Record())
    actions = []
    for message in (*TO_UPGRADE, done(UPGRADE, to_version="v1.23.0")):
        decision = step(decision.record, message, NOW, POLICY)
        heard.append(report(decision))
        actions += ran(decision)
    assert actions == [CHECK, BACK_UP, UPGRADE]
    assert [one.revision for one in heard] == [1, 2, 3, 4]
    assert [one.action for one in heard] == [CHECK, BACK_UP, UPGRADE, UPGRADE]
    last = heard[-1]
    assert (last.final, last.code, last.from_version, last.to_version) == (True, "", "v1.22.0", "v1.23.0")
    assert [(one.action, one.status) for one in last.results] == [(CHECK, "True"), (BACK_UP, "True"), (UPGRADE, "True")]
    assert last.results[0].time == "2026-01-01T00:00:00Z"
    assert decision.record.attempt is None


def test_the_owner_is_asked_only_where_the_job_wants_it() -> None:
    asked = play(start(require_confirmation=True), done(CHECK))
    assert ran(asked) == [WAITING_CONFIRMATION]
    word = report(asked)
    assert (word.code, word.wait_seconds, word.final) == ("WaitingConfirmation", 3600.0, False)
    confirmed = step(asked.record, OwnerSaid(uid="u1", attempt=1, confirmed=True), NOW, POLICY)
    assert ran(confirmed) == [BACK_UP]
    twice = step(confirmed.record, OwnerSaid(uid="u1", attempt=1, confirmed=False), NOW, POLICY)
    assert twice == Decision(confirmed.record), "the second word comes too late"


def test_a_rejection_is_final() -> None:
    said = OwnerSaid(uid="u1", attempt=1, confirmed=False, reason="not during the harvest")
    word = report(play(start(require_confirmation=True), done(CHECK), said))
    assert (word.final, word.code, word.reason) == (True, "Rejected", "not during the harvest")
    assert word.results[-1].status == "False"


def test_a_confirmation_expires_by_the_host_s_clock_whatever_the_wall_clock_says() -> None:
    asked = play(start(require_confirmation=True), done(CHECK))
    assert pause(asked.record, NOW, POLICY) == 3600.0
    jumped = Moment(NOW.wall + 365 * 86400, NOW.boot, NOW.uptime + 10)
    assert step(asked.record, None, jumped, POLICY) == Decision(asked.record)
    over = step(asked.record, None, later(3600), POLICY)
    assert isinstance(over.effects[0], StopStep)
    assert (report(over).code, report(over).final) == ("ConfirmationExpired", True)


@pytest.mark.parametrize(
    ("failing", "code"), [(CHECK, "CheckFailed"), (WAITING_CONFIRMATION, "Rejected"), (BACK_UP, "BackUpFailed")]
)
def test_a_failure_before_the_upgrade_ends_the_attempt(failing: str, code: str) -> None:
    before: list[Message] = [start(require_confirmation=True)]
    before += [
        done(one)
        for one in (CHECK, WAITING_CONFIRMATION, BACK_UP)[: (CHECK, WAITING_CONFIRMATION, BACK_UP).index(failing)]
    ]
    word = report(play(*before, done(failing, ok=False, reason="disk: 1.2 GB free")))
    assert (word.final, word.code, word.reason) == (True, code, "disk: 1.2 GB free")
    assert word.results[-1].reason == "disk: 1.2 GB free"
    own = report(play(*before, done(failing, ok=False, code="OfTheHost", reason="x")))
    assert own.code == "OfTheHost"


@pytest.mark.parametrize("ok", [True, False])
@pytest.mark.parametrize("code", ["AlreadyAtVersion", "Newer"])
def test_a_node_that_needs_nothing_did_not_fail(code: str, ok: bool) -> None:
    decision = play(start(), done(CHECK, ok=ok, code=code, reason="already at v1.23.0", from_version="v1.23.0"))
    word = report(decision)
    assert (word.reason, word.to_version) == ("already at v1.23.0", "v1.23.0")
    assert (word.final, word.code, word.results[-1].status) == (True, code, "True")
    assert ran(decision) == []


@pytest.mark.parametrize("step_", [UPGRADE, ROLL_BACK])
def test_a_rollback_by_the_tool_is_told_with_its_reason(step_: str) -> None:
    """The tool's verdict names itself either way; it undid the upgrade without being told to."""
    told = done(step_, ok=step_ == ROLL_BACK, code="RolledBack", reason="exited with code 1", from_version="v1.23.0",
                to_version="v1.22.0")  # fmt: skip
    word = report(play(*TO_UPGRADE, told))
    assert (word.final, word.code, word.reason) == (True, "RolledBack", "exited with code 1")
    assert [(one.action, one.status) for one in word.results[-2:]] == [(UPGRADE, "False"), (ROLL_BACK, "True")]
    assert (word.from_version, word.to_version) == ("v1.22.0", "v1.22.0"), "from what it was before the job"


def test_a_rollback_that_fails_is_told_so() -> None:
    told = done(ROLL_BACK, ok=False, code="RollbackFailed", reason="mend it: keadm rollback edge", to_version="")
    word = report(play(*TO_UPGRADE, told))
    assert (word.code, word.reason) == ("RollbackFailed", "mend it: keadm rollback edge")
    assert word.results[-1].status == "False"
    assert word.to_version == ""


def test_an_upgrade_that_fails_without_being_undone_is_rolled_back_by_us() -> None:
    failed = play(*TO_UPGRADE, done(UPGRADE, ok=False, code="ToolMissing", reason="no tool"))
    assert ran(failed) == [ROLL_BACK]
    assert report(failed).final is False
    word = report(step(failed.record, done(ROLL_BACK, to_version="v1.22.0"), NOW, POLICY))
    assert (word.code, word.reason, word.to_version) == ("RolledBack", "no tool", "v1.22.0")
    broken = report(step(failed.record, done(ROLL_BACK, ok=False, reason="disk full"), NOW, POLICY))
    assert (broken.code, broken.reason) == ("RollbackFailed", "disk full")


def test_a_success_that_names_another_version_is_none() -> None:
    decision = play(*TO_UPGRADE, done(UPGRADE, to_version="v1.22.9"))
    assert ran(decision) == [ROLL_BACK]
    assert attempt(decision).results[-1].reason == "v1.22.9 runs instead of v1.23.0"


def test_before_the_upgrade_the_source_is_what_runs_whatever_is_wanted() -> None:
    failed = report(play(start(), done(CHECK, ok=False, reason="no", from_version="v1.22.0", to_version="v1.23.0")))
    assert (failed.from_version, failed.to_version) == ("v1.22.0", "v1.22.0")
    checked = report(play(start(), done(CHECK, reason="fine", from_version="v1.22.0", to_version="v1.23.0")))
    assert (checked.to_version, checked.results[0].reason) == ("v1.22.0", "")


def test_a_rollback_that_finds_the_upgrade_verified_is_a_success() -> None:
    """Asked to roll back, the host answers with the verdict that the tool had reached already."""
    failed = play(*TO_UPGRADE, done(UPGRADE, ok=False, reason="the agent lost sight of it"))
    word = report(step(failed.record, done(ROLL_BACK, to_version="v1.23.0", from_version="v1.22.0"), NOW, POLICY))
    assert (word.code, word.to_version) == ("", "v1.23.0")
    assert [(one.action, one.status) for one in word.results[-1:]] == [(UPGRADE, "True")]


def test_versions_are_the_same_in_either_spelling() -> None:
    spelt = (start(version="1.23.0"), *TO_UPGRADE[1:], done(UPGRADE, to_version="v1.23.0"))
    assert report(play(*spelt)).code == ""


@pytest.mark.parametrize(
    "stray",
    [
        done(BACK_UP),
        done(UPGRADE),
        done(CHECK, uid="other"),
        done(CHECK, attempt=2),
        OwnerSaid(uid="u1", attempt=1, confirmed=True),
        done("Dance"),
    ],
)
def test_a_word_about_something_else_changes_nothing(stray: Message) -> None:
    begun = play(start())
    assert step(begun.record, stray, NOW, POLICY) == Decision(begun.record)
    assert step(Record(), stray, NOW, POLICY) == Decision(Record())
