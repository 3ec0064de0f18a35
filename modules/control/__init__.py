"""Local control: a UNIX socket on this host, by which its owner looks at the agent and says yes or no.

What belongs here: who may ask, what may be asked, and the framing. What does not: what a word means for an upgrade, and
what is true of the host (upgrader), of the attempt (taskmanager), of the link (edgehub); those are asked.
"""

from pathlib import Path

from beehive.journal import Journal
from beehive.module import Module
from beehive.world import World
from modules.control.config import Config, place_of

__all__ = ["Config", "make", "place_of"]


def make(config: Config, world: World, journal: Journal) -> Module:
    """It remembers nothing; its socket lies beside the journals, unless the configuration says where."""
    from modules.control.module import Control  # noqa: PLC0415 - not in the cloud process

    del world
    return Control(config, place_of(config, _data(journal)))


def _data(journal: Journal) -> Path:
    """`runtime.data`, in which each module's journal is `journal/NAME`."""
    return journal.directory.parent.parent
