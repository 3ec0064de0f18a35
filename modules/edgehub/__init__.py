"""The uplink of an edge host: the websocket to the cloud, the node's identity, and what the cloud has not yet seen.

What belongs here: when to dial, how to join, which reports are still unacknowledged.
What does not: what the messages mean (taskmanager), how they are spelt (`beehive.messages.wire`).
"""

from pathlib import Path

from beehive.journal import Journal
from beehive.messages.uplink import Link
from beehive.module import Module
from beehive.world import World
from modules.edgehub.config import Config

__all__ = ["Config", "link_in", "make"]


def make(config: Config, world: World, journal: Journal) -> Module:
    """The uplink of this host; its journal keeps the reports that the cloud has not acknowledged."""
    from modules.edgehub.module import EdgeHub  # noqa: PLC0415 - brings websockets

    return EdgeHub(config, world, journal)


def link_in(config: Config, journal: Journal) -> Link:
    """What is known of the link while no agent runs."""
    from modules.edgehub.identity import read_or_none  # noqa: PLC0415 - brings ssl

    about = read_or_none(Path(config.identity))
    waiting = sum(name.startswith("report-") for name in journal.keys())  # noqa: SIM118 - a journal is no mapping
    return Link(False, 0.0, "", waiting, "the agent does not run", about.node, about.ends)
