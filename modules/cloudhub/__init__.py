"""The edge-facing sockets: the websocket on which nodes are connected, the HTTPS port where they join, and the PKI.

What belongs here: who is connected (sessions), who may say what (identity), certificates and join tokens.
What does not: what the messages mean (taskmanager), how they are spelt (`beehive.messages.wire`), the API server (the
informer, through GetSecret and PutSecret).
"""

from beehive.journal import Journal
from beehive.module import Module
from beehive.world import World
from modules.cloudhub.config import Config

__all__ = ["Config", "make"]


def make(config: Config, world: World, journal: Journal) -> Module:
    """The hub of this cloud process; its journal keeps only how far the epochs have come."""
    from modules.cloudhub.module import CloudHub  # noqa: PLC0415 - brings picows, uvicorn and cryptography

    return CloudHub(config, world, journal)
