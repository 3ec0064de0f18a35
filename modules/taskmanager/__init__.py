"""Carries jobs out: in the cloud it plans which node is upgraded when, on the edge it runs one node's action flow.

What belongs here: the plan of a job, what a report changes, cordons, deadlines, budgets (cloud: `cloud.py` with the
rules in `job/` and `fold.py`); the order of a node's actions and how they resume (edge: `edge.py` with `flow.py`).
What does not: any socket, file, process or API call. It has no port; it asks the informer, the hubs and the upgrader.
"""

from beehive.journal import Journal
from beehive.messages.attempts import Attempts
from beehive.module import Module
from beehive.world import World
from modules.taskmanager.config import Config

__all__ = ["Config", "make_cloud", "make_edge", "remembered_in"]


def make_cloud(config: Config, world: World, journal: Journal) -> Module:
    """The planner; its memory is the status of the jobs, so the journal stays empty."""
    from modules.taskmanager.cloud import CloudTaskManager  # noqa: PLC0415 - not in the edge process

    return CloudTaskManager(config.cloud, world)


def make_edge(config: Config, world: World, journal: Journal) -> Module:
    """The runner of one node's attempt; its memory is the journal."""
    from modules.taskmanager.edge import EdgeTaskManager  # noqa: PLC0415 - not in the cloud process

    return EdgeTaskManager(config.edge, world, journal)


def remembered_in(journal: Journal, world: World) -> Attempts:
    """What the edge's journal says while no agent runs; changes nothing."""
    from modules.taskmanager.clock import host_moment  # noqa: PLC0415 - not in the cloud process
    from modules.taskmanager.edge import RECORD  # noqa: PLC0415
    from modules.taskmanager.record import Record  # noqa: PLC0415
    from modules.taskmanager.words import remembered  # noqa: PLC0415

    record, problem = journal.peek(RECORD, Record)
    return Attempts(fault=problem) if problem else remembered(record or Record(), host_moment(world.now()))
