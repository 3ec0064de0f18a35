"""The uplink of an edge host: the websocket to the cloud, the node's identity, and what the cloud has not yet seen.

What belongs here: when to dial, how to join, which reports are still unacknowledged.
What does not: what the messages mean (taskmanager), how they are spelt (`beehive.messages.wire`).
"""

from beehive.journal import Journal
from beehive.module import Module
from beehive.world import World
from modules.edgehub.config import Config

__all__ = ["Config", "make"]


def make(config: Config, world: World, journal: Journal) -> Module:
    """The uplink of this host; its journal keeps the reports that the cloud has not acknowledged."""
    from modules.edgehub.module import EdgeHub  # noqa: PLC0415 - brings websockets

    return EdgeHub(config, world, journal)
