"""Tells the truth about etcd members on their Node objects: the condition `EtcdIsVoter`, as K3s means it.

What belongs here: members, probes, standings, quorum (spec/k3s-etcd.md 14). What does not: Nodes other than their
condition, and any upgrade; who asks whether a node may go hears `MembershipJudged`.
"""

from beehive.journal import Journal
from beehive.module import Module
from beehive.world import World
from modules.etcdmanager.config import Config, checked
from modules.etcdmanager.resting import Resting

__all__ = ["Config", "make"]


def make(config: Config, world: World, journal: Journal) -> Module:
    """The observer; it keeps no record, for the conditions are on the Nodes. Without endpoints it rests."""
    if not checked(config).endpoints:
        return Resting()
    from modules.etcdmanager.module import EtcdManager  # noqa: PLC0415 - grpc only where it runs

    return EtcdManager(config, world)
