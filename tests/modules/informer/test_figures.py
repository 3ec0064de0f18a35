"""What an operator watches of jobs, nodes and the API server."""

import itertools

from beehive.api.nodeupgradejob import ActionResult, JobStatus, NodeEntry
from beehive.world import rfc3339
from modules.informer import figures
from modules.informer.contest import Contest, warning
from modules.informer.kinds import JOBS
from tests.fakes.jobs import START, a_job, with_spec, with_status


def entry(name: str, phase: str, code: str = "", since: float = START, **more: object) -> NodeEntry:
    return NodeEntry(node_name=name, phase=phase, reason_code=code, since=rfc3339(since), **more)  # type: ignore[arg-type]


def test_every_phase_is_there_from_the_start() -> None:
    phases = [phase for (phase,), count in figures.by_phase(()).items() if count == 0]
    assert phases == ["New", "Init", "InProgress", "Completed", "Failure"]
    assert set(figures.NodeCount()(()).values()) == {0}
    assert len(figures.NodeCount()(())) == 6


def test_jobs_are_counted_by_phase() -> None:
    running = with_status(a_job("a"), JobStatus(phase="InProgress"))
    ended = with_spec(with_status(a_job("a"), JobStatus(phase="Completed")), suspend=True)
    jobs = [running, with_spec(running, suspend=True), ended, a_job("b"), with_status(a_job(), JobStatus(phase="Odd"))]
    told = figures.by_phase(jobs)
    assert {phase: count for (phase,), count in told.items() if count} == {"InProgress": 2, "Completed": 1, "New": 2}
    assert figures.suspended(jobs) == 1


def test_nodes_are_counted_by_phase_and_by_codes_that_we_know() -> None:
    entries = (entry("a", "Failure", "RolledBack"), entry("b", "Failure", "RolledBack"), entry("c", "Successful"),
               entry("d", "Failure", "SomebodysOwnWord"), entry("e", "Nonsense"))  # fmt: skip
    job = with_status(a_job(), JobStatus(phase="InProgress", node_status=entries))
    told = figures.NodeCount()([job, with_status(a_job(uid="2"), job.status)])
    assert {labels: count for labels, count in told.items() if count} == {
        ("Failure", "RolledBack"): 4, ("Successful", "none"): 2, ("Failure", "Other"): 2, ("Other", "none"): 2,
    }  # fmt: skip


def test_a_job_that_did_not_change_is_not_counted_anew() -> None:
    count, status = figures.NodeCount(), JobStatus(phase="InProgress", node_status=(entry("a", "Pending"),))
    assert count([with_status(a_job(), status)])["Pending", "none"] == 1
    changed = JobStatus(phase="InProgress", node_status=(entry("a", "Successful"),))
    told = count([with_status(a_job(), changed)])
    assert (told["Pending", "none"], told["Successful", "none"]) == (0, 1)
    assert count([])["Successful", "none"] == 0


def test_the_budget_is_told_of_the_twenty_oldest_open_jobs() -> None:
    status = JobStatus(phase="InProgress", total=10, failed=1, unknown=1)
    jobs = [with_status(a_job(name=f"j-{n:02}", created=START + n, failure_tolerate="30%"), status) for n in range(25)]
    ended = with_status(a_job(name="old", created=START - 9), JobStatus(phase="Failure", total=10))
    unread = with_status(a_job(name="new", created=START - 9), JobStatus(phase=""))
    told = figures.budgets([ended, unread, *reversed(jobs)])
    assert list(told) == [(f"j-{n:02}",) for n in range(20)]
    assert set(told.values()) == {1}
    spent = with_status(a_job(failure_tolerate="0"), JobStatus(phase="InProgress", total=4, failed=2))
    assert figures.budgets([spent]) == {("north",): -2}


def test_a_mark_is_unanswered_until_its_node_says_a_word() -> None:
    def job(*entries: NodeEntry, phase: str = "InProgress") -> object:
        return with_status(a_job(), JobStatus(phase=phase, in_progress=len(entries), node_status=entries))

    silent, answered = (
        entry("a", "InProgress", since=START - 90),
        entry("b", "InProgress", since=START - 500, revision=1),
    )
    legacy = entry("c", "InProgress", since=START - 600, action_flow=(ActionResult(action="Check", status="True"),))
    assert figures.unanswered([job(silent, answered, legacy)], START) == 90  # type: ignore[list-item]
    assert figures.unanswered([job(answered, legacy)], START) == 0  # type: ignore[list-item]
    assert figures.unanswered([job(silent, phase="Failure")], START) == 0  # type: ignore[list-item]
    assert figures.unanswered([job(entry("a", "InProgress", since=START + 90))], START) == 0  # type: ignore[list-item]


# ---- who else writes the status ------------------------------------------------------------------------------------

VERSIONS = itertools.count(1)


def written(*fields: tuple[str, str, float]) -> bytes:
    managed = ", ".join(
        f'{{"manager": "{manager}", "subresource": "{part}", "time": "{rfc3339(at)}", "operation": "Update"}}'
        for manager, part, at in fields
    )
    return (
        f'{{"metadata": {{"name": "north", "uid": "u", "resourceVersion": "{next(VERSIONS)}", '
        f'"managedFields": [{managed}]}}, "spec": {{"version": "v1.23.0"}}}}'
    ).encode()


def test_who_else_writes_the_status_is_named_for_ten_minutes() -> None:
    contest = Contest()
    read = contest.reading(JOBS.read)
    ours = ("beehive", "status", START)
    read(written(ours, ("kubectl", "", START)))
    assert contest.standing(START) == {}
    job = read(written(ours, ("cloudcore", "status", START - 60), ("older", "status", START - 70)))
    assert job.metadata.name == "north"
    assert contest.standing(START) == {"north": "cloudcore"}
    read(written(ours))
    assert contest.standing(START) == {"north": "cloudcore"}, "our next write took its fields over"
    assert contest.standing(START + 541) == {}
    contest.forget("north")
    assert contest.standing(START) == {}


def test_the_warning_says_who_and_what_to_do() -> None:
    assert warning({}) == ""
    said = warning({"south": "b", "north": "cloudcore", "east-9": "c"})
    assert said.startswith("c also writes the status of job east-9 and 2 more; ")
    assert "docs/beside-kubeedge.md" in said
