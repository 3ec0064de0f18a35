"""May a member be added, may a Node go down, may a member be removed, and why not? Pure.

All of it rests on our own probes of this look, and a member that hangs counts as dead: etcd's own check does not see a
hung peer for a minute (spec/k3s-etcd.md 12b.3).
"""

from collections.abc import Mapping

from msgspec import Struct

from modules.etcdmanager.sight import Facts, Member, Seen, alarms, label, majority

_TWO = "neither can be removed safely, for the order would hang and come true later; bring it back first"


class Quorum(Struct, frozen=True):
    """How it stands."""

    voters: int
    living: int
    needed: int
    critical: tuple[str, ...]
    """Nodes whose loss now would cost the quorum."""
    reason: str
    """How it stands, as a sentence."""
    why_not_add: str
    """Empty: a member may be added now."""


def quorum(seen: Seen, known: Facts, silent_before: frozenset[int]) -> Quorum:
    """`silent_before`: members that did not answer in the last pass."""
    nodes = nodes_of(seen)
    spare = known.has_quorum and known.living_voters - 1 >= known.needed
    losable = [one for one in known.voters if one.id in known.alive or not known.has_quorum]
    critical = () if spare else sorted(node for one in losable for node in nodes.get(one.name, ()))
    return Quorum(
        len(known.voters), known.living_voters, known.needed, tuple(critical), _sentence(known, spare),
        why_not_add(seen, known, silent_before),
    )  # fmt: skip


def _sentence(known: Facts, spare: bool) -> str:
    state = f"{known.living_voters} of {len(known.voters)} voters answer, {known.needed} are needed"
    silent = ", ".join(sorted(label(one) for one in known.voters if one.id not in known.alive))
    with_silent = f" (silent: {silent})" if silent else ""
    if not known.leader:
        return f"{state}{with_silent}; no majority of them names one leader"
    if known.leader not in known.alive:
        return f"{state}{with_silent}; their leader is silent, and they have not elected another"
    return f"{state}{with_silent}" + ("" if spare else ": losing another one would lose the quorum")


def why_not_add(seen: Seen, known: Facts, silent_before: frozenset[int]) -> str:
    """Stricter than etcd 3.6, which takes a learner beside a dead voter of five. Empty: it may be added."""
    if not known.has_quorum:
        return "the cluster has no live majority"
    learners = [label(one) for one in seen.members if one.is_learner]
    if learners:
        return f"{learners[0]} is still a learner; members join one at a time"
    silent = sorted(label(one) for one in known.voters if one.id not in known.alive or one.id in silent_before)
    if silent:
        return f"{', '.join(silent)} did not answer in the last two passes; mend or remove it first"
    if raised := [one.kind for one in alarms(seen)]:
        return f"alarm {raised[0]} is raised"
    return ""


def why_not_remove(member: Member, seen: Seen, known: Facts) -> str:
    """Empty: it may be removed for good. A living ghost counts as unhealthy here: nobody keeps it alive."""
    if not known.has_quorum:
        two = len(known.voters) == 2 and known.living_voters == 1
        return f"of two voters one is dead: {_TWO}" if two else "the cluster has no live majority"
    if member.is_learner:
        return ""
    rest = [one for one in known.voters if one.id != member.id]
    if not rest:
        return "it is the only voter"
    named = nodes_of(seen)
    healthy = sum(one.id in known.alive and one.name in named for one in rest)
    if healthy < majority(len(rest)):
        return f"of the {len(rest)} voters that would stay {healthy} are healthy, {majority(len(rest))} are needed"
    return ""


def nodes_of(seen: Seen) -> Mapping[str, tuple[str, ...]]:
    """Member name -> the Nodes that claim it."""
    found: dict[str, tuple[str, ...]] = {}
    for node, name in sorted(seen.nodes.items()):
        if name:
            found[name] = (*found.get(name, ()), node)
    return found


def ghosts(seen: Seen) -> tuple[Member, ...]:
    """Members that no Node claims."""
    named = nodes_of(seen)
    return tuple(one for one in seen.members if one.name and one.name not in named)
