"""The cloud's own process with a bug in it: the plan of a job called `trips` raises, in its first generation.

Started as `python -m tests.fakes.tripping_cloud`, with the arguments of `beehive`.
"""

from beehive.api.nodeupgradejob import JobStatus, NodeUpgradeJob
from beehive_cli import main
from modules.taskmanager.job import round as rounds
from modules.taskmanager.job.phases import next_status
from modules.taskmanager.job.view import Scene


def _trips(job: NodeUpgradeJob, scene: Scene) -> JobStatus:
    if job.metadata.name == "trips" and job.metadata.generation == 1:
        raise RuntimeError("a bug in the plan")
    return next_status(job, scene)


if __name__ == "__main__":
    vars(rounds)["next_status"] = _trips
    main()
