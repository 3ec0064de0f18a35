"""What a report changes in an entry: examples, hostile words, and the two laws."""

import itertools

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beehive.api.nodeupgradejob import NodeEntry
from beehive.messages.tasks import TaskReport
from beehive.messages.wire import from_edge
from beehive.messages.wire.kubeedge import CODES
from beehive.world import rfc3339
from modules.taskmanager import codes as words
from modules.taskmanager import fold as rule
from modules.taskmanager.codes import LONGEST_REASON
from modules.taskmanager.flow import _FAILED, ROLLBACK_FAILED, ROLLED_BACK
from modules.taskmanager.fold import is_free
from modules.taskmanager.hearing import CONFIRMATION_EXPIRED
from modules.taskmanager.resume import INTERRUPTED
from modules.upgrader.steps import STOPPABLE
from tests.fakes.jobs import NEW, OLD, START, a_report, an_entry, result, rolled_back, success
from tests.vectors import KUBEEDGE


def fold(entry: NodeEntry, report: TaskReport, wanted: str = NEW) -> NodeEntry:
    return rule.fold(entry, report, wanted)


def outcome(entry: NodeEntry, *reports: TaskReport, wanted: str = NEW) -> str:
    for report in reports:
        entry = fold(entry, report, wanted)
    return f"{entry.phase}/{entry.reason_code}".rstrip("/")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", "Successful"),
        ("AlreadyAtVersion", "Skipped/AlreadyAtVersion"),
        ("Newer", "Skipped/Newer"),
        ("Rejected", "Skipped/Rejected"),
        ("Aborted", "Skipped/Aborted"),
        ("CheckFailed", "Failure/CheckFailed"),
        ("ConfirmationExpired", "Failure/ConfirmationExpired"),
        ("RolledBack", "Failure/RolledBack"),
        ("RollbackFailed", "Failure/RollbackFailed"),
        ("Interrupted", "Failure/Interrupted"),
        ("BackUpFailed", "Failure/BackUpFailed"),
    ],
)
def test_last_word_has_the_phase_of_its_code(code: str, expected: str) -> None:
    assert outcome(an_entry(), a_report(3, final=True, code=code, to_version=NEW)) == expected


def test_every_code_that_an_edge_can_come_to_is_on_the_list() -> None:
    ours = {*_FAILED.values(), ROLLED_BACK, ROLLBACK_FAILED, CONFIRMATION_EXPIRED, INTERRUPTED, "Aborted", "Newer"}
    hosts = {f"{step}Failed" for step in STOPPABLE}
    legacy = {code for pair in CODES.values() for code in pair if code is not None}
    assert [code for code in ours | hosts | legacy if not words.is_final(code)] == []


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("SomethingNew", "'SomethingNew'"),
        ("Successful", "'Successful'"),
        ("lower", "'lower'"),
        ("Zeilen\nzwei", "'Zeilen\\nzwei'"),
        ("\x1b[2J\x9b\u202e'", '"\\x1b[2J\\x9b\\u202e\'"'),
        ("X" * 9999, f"'{'X' * 40}…'"),
    ],
)
def test_unknown_word_is_quoted_and_explains_nothing(code: str, shown: str) -> None:
    entry = fold(an_entry(), a_report(3, final=True, code=code, reason="disk full\n", to_version=NEW))
    assert (entry.phase, entry.reason_code) == ("Failure", "Unexplained")
    assert entry.reason == f"ended with {shown}, which is no code that a node may give; it says: disk full"
    assert entry.reason.isprintable()


@pytest.mark.parametrize("code", ["", "AlreadyAtVersion"])
@pytest.mark.parametrize("said", [OLD, f"{NEW}-rc.1", f"{NEW}0", "V1.23.0", "1.23", f" {NEW}", "x" * 999, f"{NEW}\n"])
def test_success_at_another_version_is_not_believed(code: str, said: str) -> None:
    entry = fold(an_entry(), success(4, code=code, to_version=said))
    assert (entry.phase, entry.reason_code) == ("Failure", "Unexplained")
    what = code or "a successful upgrade"
    assert entry.reason.startswith(f"reports {what} but names '{said[:5]}")
    assert entry.reason.endswith(f"; the job wants {NEW}")
    assert entry.reason.isprintable()
    assert len(entry.current_version) <= 63, "what it says is shown"


def test_success_that_names_no_version_is_not_believed() -> None:
    entry = fold(an_entry(), success(4, to_version="", reason="trust me"))
    assert (entry.phase, entry.reason_code) == ("Failure", "Unexplained")
    assert entry.reason == "reports a successful upgrade but names no version; the job wants v1.23.0; it says: trust me"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("1.12.1", "v1.12.1"),
        ("v1.12.1", "1.12.1"),
        ("v1.30.4+k3s1", "v1.30.4+k3s1"),
        ("v1.30.4+k3s1", "v1.30.4-k3s1"),
        ("v1.23.1-acme.5", "v1.23.1-acme.5"),
        ("v1.22.0", "v1.30.4-kubeedge-v1.22.0"),
    ],
)
def test_one_version_has_several_spellings(wanted: str, said: str) -> None:
    for code, expected in (("", "Successful"), ("AlreadyAtVersion", "Skipped")):
        assert fold(an_entry(), success(4, code=code, to_version=said), wanted).phase == expected


@pytest.mark.parametrize("said", ["v1.30.4", "v1.30.4+k3s2", "v1.30.4+rke2r1", "v1.30.40+k3s1"])
def test_another_build_is_another_version(said: str) -> None:
    assert fold(an_entry(), success(4, to_version=said), "v1.30.4+k3s1").reason_code == "Unexplained"


@pytest.mark.parametrize(
    "code",
    [
        "BudgetExceeded", "NotConnected", "NotReady", "NotFound", "NotAnEdgeNode", "TimedOut", "CordonFailed",
        "QuorumAtRisk", "WaitingConfirmation", "Busy", "Cancelling", "lower", "Has Space", "X" * 65, "Zeilen\n", "Ä",
    ],
)  # fmt: skip
def test_node_cannot_speak_for_the_controller(code: str) -> None:
    assert outcome(an_entry(), a_report(3, final=True, code=code, to_version=NEW)) == "Failure/Unexplained"


def test_success_brings_versions_and_flow() -> None:
    entry = fold(an_entry(historic_version="v1.0.0"), success(4))
    assert (entry.historic_version, entry.current_version, entry.revision) == (OLD, NEW, 4)
    assert [(one.action, one.status) for one in entry.action_flow or ()] == [
        ("Check", "True"),
        ("BackUp", "True"),
        ("Upgrade", "True"),
    ]
    assert entry.since == an_entry().since, "the plan knows when it is written, fold does not"


def test_rolled_back_is_a_failure() -> None:
    entry = fold(an_entry(), rolled_back())
    assert (entry.phase, entry.reason_code, entry.current_version) == ("Failure", "RolledBack", OLD)
    assert "exited with code 1" in entry.reason


def test_waiting_for_the_owner_keeps_the_hosts_limit() -> None:
    entry = fold(an_entry(), a_report(2, code="WaitingConfirmation", wait_seconds=1800.7))
    assert (entry.phase, entry.reason_code, entry.wait_seconds) == ("InProgress", "WaitingConfirmation", 1800)
    assert fold(entry, a_report(3, action="BackUp")).wait_seconds == 0


@pytest.mark.parametrize(("said", "kept"), [(-5.0, 0), (0.0, 0), (1e300, 7 * 86400), (float("nan"), 0)])
def test_nobody_waits_for_ever(said: float, kept: int) -> None:
    assert fold(an_entry(), a_report(2, code="WaitingConfirmation", wait_seconds=said)).wait_seconds == kept


def test_busy_sets_back_and_free_clears() -> None:
    busy = fold(an_entry(), a_report(1, code="Busy", reason="busy with job south, attempt 1"))
    assert (busy.phase, busy.reason_code, busy.reason) == ("Pending", "Busy", "busy with job south, attempt 1")
    free = a_report(2, action="")
    assert is_free(free)
    assert not is_free(a_report(2))
    assert outcome(busy, free) == "Pending"


def test_progress_does_not_touch_a_closed_entry() -> None:
    for closed in (an_entry(phase="Unknown", reason_code="TimedOut", revision=1), fold(an_entry(), success(4))):
        assert fold(closed, a_report(9, action="BackUp")) is closed


@pytest.mark.parametrize(
    "closed",
    [
        an_entry(phase="Unknown", reason_code="TimedOut", revision=7),
        an_entry(phase="Skipped", reason_code="NotConnected"),
        an_entry(phase="Skipped", reason_code="NotReady"),
        an_entry(phase="Failure", reason_code="NotConnected"),
        an_entry(phase="Skipped", reason_code="BudgetExceeded"),
        an_entry(phase="Pending"),
    ],
)
def test_last_word_revises_what_was_closed_without_the_node(closed: NodeEntry) -> None:
    assert outcome(closed, success(4)) == "Successful"


def test_own_word_stands_against_an_older_one_and_yields_to_a_newer() -> None:
    closed = fold(an_entry(), rolled_back(5))
    assert fold(closed, success(4)) is closed
    assert outcome(closed, success(6)) == "Successful"


def test_word_without_a_number_counts_only_before_the_nodes_own() -> None:
    """The tool's POST carries no revision."""
    assert outcome(an_entry(revision=3), success(0)) == "Successful"
    closed = fold(an_entry(), rolled_back(5))
    assert fold(closed, success(0)) is closed


def test_other_attempts_change_nothing() -> None:
    for attempt in (0, 2, -2, 2**40):
        entry = an_entry()
        assert fold(entry, success(4, attempt=attempt)) is entry


@pytest.mark.parametrize("revision", [-1, 2**63])
def test_revision_that_cannot_be_stored_changes_nothing(revision: int) -> None:
    entry = an_entry()
    assert fold(entry, success(revision)) is entry


def test_hostile_words_become_what_the_schema_stores() -> None:
    flow = (
        result("Explode"),
        msgspec.structs.replace(result("Check"), status="Maybe", reason="a\nb\x00c" + "ä" * 999, time="yesterday"),
        *(result("BackUp") for _ in range(500)),
    )
    said = a_report(
        2, results=flow, reason="\x1b[2J" + "x" * 9999, from_version="v" * 999, final=True, code="CheckFailed"
    )
    entry = fold(an_entry(), said)
    assert len(entry.reason) == LONGEST_REASON
    assert "\x1b" not in entry.reason
    assert len(entry.historic_version) == 63
    assert len(entry.action_flow or ()) <= 16
    first = (entry.action_flow or ())[0]
    assert (first.action, first.status, first.time) == ("Check", "False", "")
    assert first.reason.startswith("a b c")
    assert len(first.reason) == LONGEST_REASON


# ---- a real EdgeCore ---------------------------------------------------------------------------------------------


def legacy(action: str, ok: bool = True, code: str | None = None, at: float = START, to: str = NEW) -> TaskReport:
    return TaskReport(
        job="north",
        uid="",
        attempt=-1,
        revision=0,
        action=action,
        results=(result(action, ok, at=at),),
        final=code is not None,
        code=code or "",
        from_version=OLD,
        to_version=to,
    )


def test_edgecore_reports_one_action_each() -> None:
    entry = an_entry()
    for report in (legacy("Check"), legacy("WaitingConfirmation"), legacy("BackUp")):
        entry = fold(entry, report)
    assert (entry.phase, entry.revision) == ("InProgress", 3)
    assert fold(entry, legacy("BackUp")) == entry, "told twice"
    entry = fold(entry, legacy("Upgrade", code=""))
    assert entry.phase == "Successful"
    assert [one.action for one in entry.action_flow or ()] == ["Check", "WaitingConfirmation", "BackUp", "Upgrade"]


def test_edgecore_that_was_not_restarted_names_no_version_and_is_believed() -> None:
    """`extend` is `,` then (spec/kubeedge.md 7.3); but a version that it names is compared."""
    assert outcome(an_entry(), legacy("Upgrade", code="", to="")) == "Successful"
    assert outcome(an_entry(), legacy("Upgrade", code="", to=OLD)) == "Failure/Unexplained"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("upgrade_ok_final", "Successful"),
        ("rollback_ok_final", "Failure/RolledBack"),
        ("rollback_failed_final", "Failure/RollbackFailed"),
    ],
)
def test_what_a_real_edgecore_says_counts(name: str, expected: str) -> None:
    said = from_edge((KUBEEDGE / f"ws_upstream_v1alpha2_{name}.json").read_bytes()).body
    assert isinstance(said, TaskReport)
    assert outcome(an_entry(since=""), said, wanted="v1.23.1") == expected


def test_edgecores_rollback_is_a_failure() -> None:
    assert (
        outcome(an_entry(), legacy("Upgrade", ok=False), legacy("RollBack", code="RolledBack")) == "Failure/RolledBack"
    )


def test_edgecore_counts_only_for_an_entry_in_flight_and_after_the_dispatch() -> None:
    for phase in ("Pending", "Successful", "Skipped", "Failure"):
        entry = an_entry(phase=phase)
        assert fold(entry, legacy("Upgrade", code="")) is entry
    assert outcome(an_entry(phase="Unknown", reason_code="TimedOut"), legacy("Upgrade", code="")) == "Successful"
    old = an_entry(since=rfc3339(START + 60))
    assert fold(old, legacy("Upgrade", code="", at=START)) is old, "a report of an earlier upgrade under this name"


# ---- laws --------------------------------------------------------------------------------------------------------

codes = st.sampled_from(
    ["", "RolledBack", "CheckFailed", "Rejected", "Aborted", "AlreadyAtVersion", "TimedOut", "Busy"]
)
finals = st.builds(
    lambda code, text: {"final": True, "code": code, "reason": text, "action": "Upgrade"}, codes, st.text(max_size=8)
)
progress = st.builds(
    lambda code, action, text: {"code": code, "action": action, "reason": text},
    st.sampled_from(["", "WaitingConfirmation", "Busy"]),
    st.sampled_from(["", "Check", "BackUp", "Upgrade"]),
    st.text(max_size=8),
)
histories = st.lists(progress, max_size=4).flatmap(
    lambda before: st.lists(finals, max_size=2).map(lambda after: before + after)
)
attempts = st.sampled_from([1, 1, 1, 0, 2])
entries = st.sampled_from(
    [
        an_entry(),
        an_entry(phase="Pending", reason_code=""),
        an_entry(phase="Pending", reason_code="Busy"),
        an_entry(phase="Unknown", reason_code="TimedOut"),
        an_entry(phase="Skipped", reason_code="NotConnected"),
        an_entry(phase="Skipped", reason_code="BudgetExceeded"),
    ]
)


@given(entry=entries, history=histories, attempt=attempts, data=st.data())
@example(entry=an_entry(), history=[{"code": "Busy"}, {"action": "BackUp"}], attempt=1, data=None)
def test_any_order_and_any_repetition_come_to_the_same(
    entry: NodeEntry, history: list[dict[str, object]], attempt: int, data: st.DataObject | None
) -> None:
    reports = [a_report(number, **{"attempt": attempt, **one}) for number, one in enumerate(history, 1)]
    expected = entry
    for report in reports:
        expected = fold(expected, report)
    if data is None:
        orders = [list(order) for order in itertools.permutations(reports)]
    else:
        twice = [*reports, *data.draw(st.lists(st.sampled_from(reports), max_size=3) if reports else st.just([]))]
        orders = [data.draw(st.permutations(twice))]
    for order in orders:
        found = entry
        for report in order:
            found = fold(found, report)
            assert fold(found, report) == found
        assert found == expected


@given(entry=entries, report=st.builds(lambda one, number, attempt: a_report(number, **{"attempt": attempt, **one}),
                                       st.one_of(progress, finals), st.integers(-3, 10), attempts))  # fmt: skip
def test_identity_never_changes(entry: NodeEntry, report: TaskReport) -> None:
    found = fold(entry, report)
    assert (found.node_name, found.attempt, found.since) == (entry.node_name, entry.attempt, entry.since)
    assert found.phase in ("Pending", "InProgress", "Successful", "Failure", "Unknown", "Skipped")
