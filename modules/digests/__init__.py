"""Asks registries which digest an image has, for jobs that give `registryAPI` and no digests of their own.

What belongs here: which registries may be asked (`config.py`), what is asked (`question.py`), what of the answer may be
believed (`answer.py`), and the HTTPS call (`registry.py`). What does not: pulling images, which hosts do themselves,
and keeping what was found, which is the job's status. Neither host nor token goes anywhere else (product.md 3.1).
"""

from beehive.journal import Journal
from beehive.module import Module
from beehive.world import World
from modules.digests.config import Config

__all__ = ["Config", "make"]


def make(config: Config, world: World, journal: Journal) -> Module:
    """The one who asks; it remembers nothing, so the journal stays empty."""
    from modules.digests.module import DigestsModule  # noqa: PLC0415 - in the cloud process alone

    return DigestsModule(config)
