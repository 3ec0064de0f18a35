"""informer: the module that owns kube-apiserver.

List and watch, guarded patches, Events, the Lease, our own Secrets. Its rules: `watch.py` (when to list, watch and
wait), `cache.py` (what is a real change), `answers.py` (what an HTTP answer means), `lease.py` (who leads),
`events.py` (which Events are one). Its port: `connection.py` and `client.py`.
"""

from beehive.journal import Journal
from beehive.module import Module
from beehive.world import World
from modules.informer.config import Config

__all__ = ["Config", "make"]


def make(config: Config, world: World, journal: Journal) -> Module:
    """Make the module; the Kubernetes client is imported only now."""
    from modules.informer.module import Informer  # noqa: PLC0415 - costs a second and 70 MB

    return Informer(config, world)
