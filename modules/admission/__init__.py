"""The socket on which the API server asks about a NodeUpgradeJob: may it be written, what is it in the other version?

What belongs here: the answers (`review.py`, `mutation.py`, `conversion.py`), the HTTPS server, its certificate, and
keeping the caBundle of webhook configurations and CRD right. What does not: the rules about a job themselves and the
conversion (`beehive.api`), and any word to the API server but through the informer. The controller judges again and
speaks the stored version: nothing depends on this module being up but the clients of v1alpha1.
"""

from beehive.journal import Journal
from beehive.module import Module
from beehive.world import World
from modules.admission.config import Config

__all__ = ["Config", "make"]


def make(config: Config, world: World, journal: Journal) -> Module:
    """The webhook of this process; every replica serves it, leading or not. Its journal stays empty."""
    from modules.admission.module import Admission  # noqa: PLC0415 - brings uvicorn and cryptography

    return Admission(config, world)
