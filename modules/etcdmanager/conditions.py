"""When is a condition written, by whom, and what does its age tell? Pure.

Theory. A Node is written to when its standing changed, and as a heartbeat. K3s writes the same condition; two writers
would undo each other's work, so who finds one that another wrote within `FOREIGN` seconds only observes. A condition
does not say who wrote it, so each Node that we write to bears a mark (an annotation); with the mark, and as long as
nobody changes behind our back what we wrote, the condition is ours.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from beehive.api.node import Node, NodeCondition
from beehive.world import from_rfc3339, rfc3339
from modules.etcdmanager.members import Standing

CONDITION = "EtcdIsVoter"
MARK = "beehive/etcd-observer"
"""Annotation on the Nodes whose condition we write."""
FOREIGN = 600.0
"""Seconds for which somebody else's condition makes us mere observers."""
PERIODS_UNTIL_STALE = 3
SKEW = 5.0
"""Seconds by which another host's clock may be ahead."""


class Found(Struct, frozen=True):
    """What stands on a Node."""

    condition: NodeCondition | None
    marked: bool

    @property
    def heartbeat(self) -> float:
        """When it was last written; 0.0: never, or nobody can read the time."""
        try:
            return from_rfc3339(self.condition.last_heartbeat_time or "") if self.condition else 0.0
        except ValueError:
            return 0.0


def found(node: Node) -> Found:
    """The condition and the mark of a Node."""
    conditions = node.status.conditions or ()
    mine = next((one for one in conditions if one.type == CONDITION), None)
    return Found(mine, bool((node.metadata.annotations or {}).get(MARK)))


def due(standing: Standing, old: NodeCondition | None, now: float, heartbeat: float) -> NodeCondition | None:
    """The condition to write, or None: only on a change or when the last writing is `heartbeat` seconds old.

    The transition time moves only when the status flips (spec/k3s-etcd.md 14).
    """
    moment = rfc3339(now)
    same = old is not None and _standing(old) == standing
    age = now - Found(old, marked=False).heartbeat
    if same and -SKEW <= age < heartbeat:
        return None
    kept = old.last_transition_time if old is not None and old.status == standing.status else None
    return NodeCondition(
        type=CONDITION, status=standing.status, reason=standing.reason, message=standing.message,
        last_heartbeat_time=moment, last_transition_time=kept or moment,
    )  # fmt: skip


def foreigner(nodes: Mapping[str, Found], written: Mapping[str, NodeCondition], now: float) -> str:
    """The Node whose condition somebody else wrote within `FOREIGN` seconds; empty: we are the only writer."""
    for name, one in sorted(nodes.items()):
        # K3s never writes Unknown (spec/k3s-etcd.md 6): that was another process of ours.
        if one.condition is None or one.condition.status == "Unknown" or now - one.heartbeat > FOREIGN:
            continue
        ours = written.get(name)
        if ours is None:
            if not one.marked:
                return name
        elif one.condition != ours and one.heartbeat > Found(ours, marked=True).heartbeat:
            return name
    return ""


def is_stale(conditions: Iterable[Found], now: float, heartbeat: float, period: float) -> bool:
    """Who ought to write them has been silent for three periods beyond the heartbeat."""
    latest = max((one.heartbeat for one in conditions if one.condition), default=0.0)
    return 0.0 < latest < now - heartbeat - PERIODS_UNTIL_STALE * period


def standings(nodes: Mapping[str, Found]) -> dict[str, Standing]:
    """What the Nodes say now."""
    return {name: _standing(one.condition) for name, one in nodes.items() if one.condition}


def _standing(condition: NodeCondition) -> Standing:
    return Standing(condition.status, condition.reason, condition.message)
