"""Topic `etcd`, owned by etcdmanager: whether members may go."""

from beehive.message import Event


class MembershipJudged(Event, frozen=True, kw_only=True, gc=False, tag="etcd.membership-judged"):
    """etcdmanager, after each pass. If lost: the next pass says it again; who never heard it assumes nothing."""

    critical_nodes: tuple[str, ...]
    """Names of Nodes whose loss now would cost the quorum: no upgrade may begin there."""
    reason: str = ""
    """Why, as a sentence."""
