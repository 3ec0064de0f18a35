"""Why a job is where it is: every state of a job has sentences that say what to do."""

import io
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from beehive.api.meta import Condition
from beehive.api.nodeupgradejob import JobStatus, NodeEntry, NodeUpgradeJob
from beehive.world import rfc3339
from modules.console.jobs_view import EMPTY, chosen, described, listing, others
from modules.console.jobs_watch import drawn, last_word, progress
from modules.console.jobs_words import budget, head, ordinal, reasons, remaining, tolerates
from modules.console.times import moment, spoken
from tests.fakes.jobs import START, a_job, an_entry, result, with_status

NOW = START + 240
REFUSED = Condition(type="Accepted", status="False", message="no version")


def seen(*entries: NodeEntry, phase: str = "InProgress", begun: float = START, **more: Any) -> NodeUpgradeJob:
    """A job with these entries, its counters counted."""
    spec = more.pop("spec", {})
    count = [entry.phase for entry in entries]
    status = JobStatus(
        phase=phase, start_time=rfc3339(begun), node_status=entries, total=len(entries),
        pending=count.count("Pending"), in_progress=count.count("InProgress"), successful=count.count("Successful"),
        failed=count.count("Failure"), skipped=count.count("Skipped"), unknown=count.count("Unknown"),
        done=f"{len(entries) - count.count('Pending') - count.count('InProgress')}/{len(entries)}", **more,
    )  # fmt: skip
    return with_status(a_job(*(entry.node_name for entry in entries), created=begun, **spec), status)


def flying(node: str, *actions: str, ago: float = 40, **more: Any) -> NodeEntry:
    flow = tuple(result(action) for action in actions) or None
    return an_entry(node, "InProgress", action_flow=flow, since=rfc3339(NOW - ago), historic_version="v1.22.0", **more)


def done(count: int) -> list[NodeEntry]:
    return [an_entry(f"done-{number}", "Successful", historic_version="v1.22.0") for number in range(count)]


def test_the_head_is_the_one_of_the_mock_up() -> None:
    entries = (*done(6), an_entry("bad", "Failure"), flying("a"), flying("b"), an_entry("c", "Pending"))
    assert head(seen(*entries), NOW) == (
        "north   v1.22.0 → v1.23.0   InProgress for 4m   7/10 done, 1 failed, 2 in flight, about 1m42s to go"
    )


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (seen(flying("a", "Check", "BackUp"), flying("b", ago=3), an_entry("c", "Pending"), spec={"concurrency": 2}),
         "Why not faster: concurrency is 2 and all 2 slots are busy; the slowest is a, in Upgrade for 40s (limit 5m)."),
        (seen(flying("a"), an_entry("c", "Pending")),
         "Why not faster: concurrency is 1 and the only slot is busy; the slowest is a, in Check for 40s (limit 5m)."),
        (seen(flying("a", "Check")), "In flight: 1 node; the slowest is a, in BackUp for 40s (limit 5m)."),
        (seen(an_entry("a", "Pending"), spec={"suspend": True}),
         "Suspended, with 1 node to start. Go on: beehive job resume north"),
        (seen(flying("a"), spec={"abort": True}),
         "Aborted: no further node is started; it ends with those in flight (1 node)."),
        (seen(flying("a", "Check", reason_code="WaitingConfirmation")),
         "Waits for the owners of a: on the host, beehive edge confirm north, or reject."),
        (seen(an_entry("a", "Pending"), waiting="a: not ready"), "Waits: a: not ready."),
        (seen(an_entry("a", "Failure"), phase="Failure", reason="BudgetExceeded"),
         "It stopped itself: Tolerates no failure, stops at the first (1 so far)."),
        (seen(an_entry("a", "Failure"), *done(9), phase="Completed"),
         "Mend 1 node (the table says why), then try again: beehive job retry north"),
        (seen(*done(1), an_entry("b", "Skipped"), phase="Completed"),
         "Skipped: 1 node. Those that were away are tried again by: beehive job retry north"),
        (seen(phase="Completed", reason="NothingSelected"),
         "No node was selected. Look at the labels: kubectl get nodes --show-labels"),
        (seen(an_entry("a", "Skipped"), phase="Failure", reason="Aborted"),
         "It was aborted, which is final: nodes that had begun to swap finished, the others run what they ran."),
        (seen(phase="Failure", reason="Invalid", conditions=(REFUSED,)),
         "It could not be carried out: no version. Make a new job with that mended."),
        (a_job("a", created=NOW - 5), "It is new; the controller looks at it in a moment."),
        (a_job("a", created=NOW - 90),
         "No controller has looked at it for 1m30s: does the cloud side run, and lead? "
         "kubectl -n kubeedge get lease beehive"),
        (seen(flying("a"), spec={"failure_tolerate": "NaN"}), 'failureTolerate "NaN" cannot be read.'),
    ],
)  # fmt: skip
def test_it_says_why_and_what_to_do(job: NodeUpgradeJob, said: str) -> None:
    assert said in reasons(job, NOW)


def test_a_job_being_deleted_says_so() -> None:
    job = seen(flying("a"))
    meta = msgspec.structs.replace(job.metadata, deletion_timestamp=rfc3339(NOW))
    assert reasons(msgspec.structs.replace(job, metadata=meta), NOW)[0].startswith("It is being deleted: no further")


def test_tolerance_is_told_in_whole_nodes() -> None:
    assert budget(seen(*done(9), an_entry("a", "Unknown"))) == "Tolerates 1 failure, stops at the second (1 so far)."
    assert [tolerates(most) for most in (0, 2, 3, 1200)] == [
        "Tolerates no failure, stops at the first",
        "Tolerates 2 failures, stops at the third",
        "Tolerates 3 failures, stops at the 4th",
        "Tolerates 1,200 failures, stops at the 1,201st",
    ]
    assert [ordinal(number) for number in (11, 12, 13, 21, 22, 103, 111)] == [
        "11th", "12th", "13th", "21st", "22nd", "103rd", "111th",
    ]  # fmt: skip


def test_no_end_is_promised_where_there_is_no_pace() -> None:
    assert remaining(seen(flying("a"), *done(4)), NOW) == 60
    assert remaining(seen(flying("a"), an_entry("b", "Pending")), NOW) is None
    assert remaining(seen(an_entry("b", "Pending"), *done(4)), NOW) is None, "it stands still"
    assert remaining(seen(*done(4), phase="Completed"), NOW) is None


def test_describe_puts_first_what_wants_a_look_and_cuts_the_rest() -> None:
    entries = (*done(40), an_entry("bad", "Failure", reason_code="RolledBack", reason="v1.23.0 exited with code 1"))
    lines = described(seen(*entries, phase="Completed"), NOW)
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["NODE", "PHASE", "STEP", "FROM", "RUNNING", "WHY"]
    assert table[1].split()[:2] == ["bad", "Failure"]
    assert table[1].endswith("rolled back: v1.23.0 exited with code 1")
    assert table[-1] == "… and 21 more (21 Successful): beehive job describe north --all"
    assert len(table) == 22
    assert max(map(len, table)) <= 100
    assert len(described(seen(*entries), NOW, everything=True)) > 41


def test_a_list_has_a_line_for_each_job_the_youngest_first() -> None:
    old = seen(*done(9), an_entry("a", "Failure"), phase="Failure", begun=NOW - 7200, reason="BudgetExceeded")
    new = a_job("a", name="south", created=NOW - 3, suspend=True)
    assert listing([old, new], NOW) == [
        "NAME    VERSION   PHASE            DONE    FAILED   AGE",
        "south   v1.23.0   new, suspended   -       0        3s",
        "north   v1.23.0   Failure          10/10   1        2h",
    ]
    wide = listing([old], NOW, wide=True)
    assert wide[0].split()[-2:] == ["REASON", "WAITING"]
    assert "BudgetExceeded" in wide[1]
    assert "beehive job create" in EMPTY


def test_the_bar_has_pace_and_end_and_the_last_word_counts() -> None:
    line = progress(seen(flying("a"), *done(4)), NOW)
    assert line.endswith("4/5   0 failed (tolerance 0)   04:00   1.0 a minute, about 1m to go")
    ended = seen(*done(9), an_entry("b", "Failure"), phase="Completed", completion_time=rfc3339(START + 65))
    assert progress(ended, NOW + 9999).endswith("01:05"), "the clock stops with the job"
    assert last_word(ended) == "Job north is Completed after 1m5s: 9 upgraded, 1 failed."
    stopped = seen(an_entry("b", "Failure"), phase="Failure", reason="BudgetExceeded")
    assert last_word(stopped) == (
        "Job north is Failure (BudgetExceeded): 1 failed. Tolerates no failure, stops at the first (1 so far)."
    )


@given(st.floats(min_value=0, max_value=1e9))
@settings(max_examples=50)
def test_a_time_has_at_most_two_units_and_loses_less_than_a_tenth(seconds: float) -> None:
    text = spoken(seconds)
    sizes = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    total, number = 0, ""
    for letter in text:
        number, total = (number + letter, total) if letter.isdigit() else ("", total + int(number) * sizes[letter])
    assert total <= seconds + 1e-6
    assert seconds - total <= max(1, seconds / 10)
    assert sum(letter in sizes for letter in text) <= 2


@pytest.mark.parametrize("text", [None, "", "yesterday", "2026-11-30", "99999-01-01T00:00:00Z"])
def test_what_is_no_time_is_none(text: str | None) -> None:
    assert moment(text) is None


def test_a_large_job_shows_failures_and_the_slowest_beside_each_other() -> None:
    bad = [an_entry(f"bad-{n:02}", "Failure", reason_code="RolledBack", since=rfc3339(NOW - n)) for n in range(30)]
    slow = [flying(f"fly-{n:02}", "Check", ago=100 - n) for n in range(40)]
    job = seen(*done(500), *bad, *slow, an_entry("waits", "Pending"))
    shown = [entry.node_name for entry in chosen(job.status.node_status or (), 10)]
    assert shown == [*(f"bad-{n:02}" for n in range(5)), *(f"fly-{n:02}" for n in range(5))]
    few = seen(*bad[:2], *slow[:3], *done(30))
    names = [entry.node_name for entry in chosen(few.status.node_status or (), 10)]
    assert names == ["bad-00", "bad-01", "fly-00", "fly-01", "fly-02", *(f"done-{n}" for n in range(5))]
    assert others(job.status.node_status or (), chosen(job.status.node_status or (), 10)) == (
        "… and 561 more (500 Successful, 35 InProgress, 25 Failure, 1 Pending)"
    )


def test_what_to_do_is_said_for_each_kind_of_failure() -> None:
    rolled = [an_entry(f"r-{n}", "Failure", reason_code="RolledBack") for n in range(3)]
    lost = an_entry("lost", "Unknown", reason_code="TimedOut")
    told = reasons(seen(*rolled, lost, *done(3), phase="Failure"), NOW)
    assert told[-2].startswith("RolledBack (3): ")
    assert told[-1].startswith("TimedOut (1): ")
    assert all("{" not in line for line in told)


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_bar_and_its_words_fit_every_terminal(width: int) -> None:
    job = seen(*done(1200), *(flying(f"f{n}") for n in range(50)), *(an_entry(f"b{n}", "Failure") for n in range(90)))
    line = progress(job, NOW, width)
    assert len(line) <= max(width, 67)
    assert line.count("█") >= 8
    assert ("a minute" in line) == (width >= 100)
    assert ("to go" in line) == (width >= 80)


@pytest.mark.parametrize("width", [80, 100])
def test_the_redrawn_table_fits_a_terminal(width: int) -> None:
    bad = [an_entry(f"edge-{n}", "Failure", reason="x" * 300, historic_version="v1.22.0") for n in range(9)]
    console = Console(file=io.StringIO(), width=width, height=24)
    console.print(drawn(seen(*bad, *done(1000), flying("f")), NOW, width, 24))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) <= 23
    assert max(map(len, lines)) <= width
    assert ("RUNNING" in lines[1]) == (width >= 100)
