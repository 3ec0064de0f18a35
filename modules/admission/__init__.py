"""The socket on which the API server asks whether a NodeUpgradeJob may be written.

What belongs here: the verdict on one AdmissionReview (`review.py`), the HTTPS server, its certificate, and keeping the
registration's caBundle right. What does not: the rules about a job themselves (`beehive.api.validate`), and any word
to the API server but through the informer. The controller judges again: nothing depends on this module being up.
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
