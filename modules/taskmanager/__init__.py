"""Carries jobs out: in the cloud it plans which node is upgraded when, on the edge it runs one node's action flow.

What belongs here: the plan of a job, what a report changes, cordons, deadlines, budgets (cloud: `cloud.py` with the
rules in `job/` and `fold.py`); the order of a node's actions and how they resume (edge: `edge.py` with `flow.py`).
What does not: any socket, file, process or API call. It has no port; it asks the informer, the hubs and the upgrader.
"""

from beehive.journal import Journal
from beehive.module import Module
from beehive.world import World
from modules.taskmanager.config import Config

__all__ = ["Config", "make_cloud", "make_edge"]


def make_cloud(config: Config, world: World, journal: Journal) -> Module:
    """The planner; its memory is the status of the jobs, so the journal stays empty."""
    from modules.taskmanager.cloud import CloudTaskManager  # noqa: PLC0415 - not in the edge process

    return CloudTaskManager(config.cloud, world)


def make_edge(config: Config, world: World, journal: Journal) -> Module:
    """The runner of one node's attempt; its memory is the journal."""
    from modules.taskmanager.edge import EdgeTaskManager  # noqa: PLC0415 - not in the cloud process

    return EdgeTaskManager(config.edge, world, journal)
