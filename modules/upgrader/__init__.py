"""The edge host: its files, its service manager, its image source. Only this module touches them.

What belongs here: what each step of an upgrade means on a host, evidence after a restart, the image client (`images/`),
the host's parts (`host/`), and the tool that swaps and rolls back in a process of its own (`tool/`, run as `keadm`).
What does not: the order of the steps and their record (taskmanager), the link to the cloud (edgehub).
"""

from beehive.journal import Journal
from beehive.messages.host import Decided, HostState, LogLines, OwnerDecides
from beehive.module import Module
from beehive.world import World
from modules.upgrader.config import Config

__all__ = ["Config", "decide_on", "logs_on", "make", "state_on"]


def make(config: Config, world: World, journal: Journal) -> Module:
    """The upgrader of this host; its memory is the tool's own records, so the journal stays empty."""
    from modules.upgrader.module import Upgrader  # noqa: PLC0415 - the image client only where it runs

    return Upgrader(config, world)


# ---- while no agent runs -------------------------------------------------------------------------------------------


def state_on(config: Config, now: float) -> HostState:
    """What is on this host."""
    from modules.upgrader import state  # noqa: PLC0415
    from modules.upgrader.host.host import Host  # noqa: PLC0415

    return state.state_of(Host(config), now)


def decide_on(config: Config, word: OwnerDecides) -> Decided:
    """Write the owner's word down, for the agent that will run. Raises OSError."""
    from modules.upgrader import state  # noqa: PLC0415
    from modules.upgrader.host.host import Host  # noqa: PLC0415

    return state.decide(Host(config), word)


def logs_on(config: Config, lines: int) -> LogLines:
    """What programs of this host wrote last."""
    from modules.upgrader import state  # noqa: PLC0415
    from modules.upgrader.host.host import Host  # noqa: PLC0415

    return state.logs_of(Host(config), lines)
