"""What people see of a job: table, bar, sentences; pure, so shown by examples."""

import pytest

from beehive.api.meta import ObjectMeta
from beehive.api.nodeupgradejob import ActionResult, JobStatus, NodeEntry, NodeUpgradeJob, NodeUpgradeJobSpec
from modules.console.sentences import sentence
from modules.console.view import Row, bar, lines, row, summary


def entry(phase: str, code: str = "", reason: str = "", *actions: str) -> NodeEntry:
    flow = tuple(ActionResult(action=action, status="True") for action in actions)
    return NodeEntry(
        node_name="edge-1", phase=phase, reason_code=code, reason=reason, action_flow=flow or None,
        historic_version="v1.22.0",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (entry("Successful"), "upgraded from v1.22.0"),
        (entry("InProgress"), "checking"),
        (entry("InProgress", "", "", "Check"), "backing up"),
        (entry("InProgress", "", "", "Check", "BackUp"), "upgrading"),
        (entry("InProgress", "WaitingConfirmation", "", "Check"), "waits for its owner"),
        (entry("InProgress", "", "was interrupted once", "Check"), "was interrupted once"),
        (entry("Failure", "RolledBack", "v1.23.0 exited with code 1"), "rolled back: v1.23.0 exited with code 1"),
        (entry("Failure", "RolledBack", "rolled back to v1.22.0"), "rolled back to v1.22.0"),
        (entry("Failure", "CheckFailed", "disk: 1 GB free, 2 GB needed"), "disk: 1 GB free, 2 GB needed"),
        (entry("Skipped", "BudgetExceeded"), "not started: too many others failed"),
        (entry("Unknown", "TimedOut"), "said nothing until its deadline"),
        (entry("Failure", "SomethingNew"), "SomethingNew"),
        (entry("Pending"), ""),
    ],
)
def test_every_state_has_a_sentence(shown: NodeEntry, said: str) -> None:
    assert sentence(shown) == said


def test_a_table_has_no_borders_aligned_columns_and_fits() -> None:
    rows = [
        Row("edge-1", "Successful", "Upgrade", "v1.22.0", "v1.23.0", "upgraded"),
        Row("a-much-longer-name", "Failure", "RollBack", "v1.22.0", "v1.22.0", "because " * 20),
    ]
    drawn = lines(rows, width=100)
    assert drawn[0].split() == ["NODE", "PHASE", "STEP", "FROM", "RUNNING", "WHY"]
    assert {line.index(word) for line, word in zip(drawn, ("PHASE", "Successful", "Failure"), strict=True)} == {21}
    assert [len(line) <= 100 for line in drawn] == [True] * 3
    assert drawn[2].endswith("…")


def test_a_row_shows_the_step_and_what_runs() -> None:
    assert row(entry("InProgress", "", "", "Check", "BackUp"), "v1.22.0", "why") == Row(
        "edge-1", "InProgress", "Upgrade", "v1.22.0", "v1.22.0", "why"
    )
    assert row(entry("InProgress"), "", "").step == "Check"
    assert row(entry("Successful", "", "", "Check", "BackUp", "Upgrade"), "", "").step == "Upgrade"
    assert row(entry("Pending"), "", "").step == "-"


@pytest.mark.parametrize(
    ("status", "drawn"),
    [
        (JobStatus(phase="", total=0), " " + "░" * 36 + "  0/0   0 failed (tolerance 2)   00:09"),
        (
            JobStatus(phase="InProgress", total=4, in_progress=1, successful=2, failed=1),
            " " + "█" * 27 + "░" * 9 + "  3/4   1 failed (tolerance 2)   00:09",
        ),
        (
            JobStatus(phase="Failure", total=2, unknown=1, failed=1),
            " " + "█" * 36 + "  2/2   2 failed (tolerance 2)   00:09",
        ),
    ],
)
def test_a_bar_counts_what_is_closed(status: JobStatus, drawn: str) -> None:
    assert bar(status, 2, 9.7) == drawn


def test_the_summary_counts_by_outcome_and_names_the_phase() -> None:
    entries = (entry("Failure", "RolledBack"), entry("Failure", "CheckFailed"))
    status = JobStatus(phase="Completed", total=5, successful=1, failed=2, skipped=1, unknown=1, node_status=entries)
    job = NodeUpgradeJob(metadata=ObjectMeta(name="north"), spec=NodeUpgradeJobSpec(version="v1.23.0"), status=status)
    assert summary(job, 11.44) == (
        " Done in 11.4 s: 1 upgraded, 1 rolled back, 1 failed, 1 unknown, 1 skipped. Job north is Completed."
    )
