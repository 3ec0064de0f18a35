"""What an operator graphs of the jobs."""

from beehive.api.nodeupgradejob import JobStatus
from modules.informer.figures import figures
from tests.fakes.jobs import a_job, with_spec, with_status


def test_nothing_is_zero_and_every_series_is_there_from_the_start() -> None:
    told = figures(())
    assert len(told) == 12
    assert set(told.values()) == {0}


def test_jobs_are_counted_by_phase_and_nodes_over_all_of_them() -> None:
    running = with_status(a_job("a"), JobStatus(phase="InProgress", pending=3, in_progress=2, failed=1, unknown=1))
    suspended = with_spec(running, suspend=True)
    ended = with_spec(with_status(a_job("a"), JobStatus(phase="Completed", successful=7, skipped=2)), suspend=True)
    told = figures([running, suspended, ended, a_job("b"), with_status(a_job("c"), JobStatus(phase="Nonsense"))])
    assert {name: count for name, count in told.items() if count} == {
        "jobs_in_progress": 2, "jobs_completed": 1, "jobs_new": 2, "jobs_suspended": 1, "nodes_pending": 6,
        "nodes_in_progress": 4, "nodes_failed": 2, "nodes_unknown": 2, "nodes_successful": 7, "nodes_skipped": 2,
    }  # fmt: skip
