"""What may be ordered of etcd in this pass: one membership change at most, and only what this look allows. Pure.

Two changes at once leave all but one without an answer (spec/k3s-etcd.md 12b.3), so there is never a second one while
the outcome of a first is unknown.
"""

from typing import TypeAlias

from msgspec import Struct

from modules.etcdmanager.learners import Clock, Patience, why_not_evicted, why_not_promoted
from modules.etcdmanager.quorum import nodes_of, why_not_remove
from modules.etcdmanager.sight import ANSWERED, Facts, Member, Seen, label, state_of


class Promote(Struct, frozen=True, tag=True):
    """Make this learner a voter."""

    id: int
    name: str


class Evict(Struct, frozen=True, tag=True):
    """Remove this learner: it does not move."""

    id: int
    name: str


class Remove(Struct, frozen=True, tag=True):
    """Remove this member, as its Node's annotation asks."""

    id: int
    name: str
    node: str


class MoveLeader(Struct, frozen=True, tag=True):
    """Let another member lead, for the one that leads is to be removed in a later pass."""

    id: int
    """The one that shall lead."""
    name: str


Order: TypeAlias = Promote | Evict | Remove | MoveLeader


class Wishes(Struct, frozen=True):
    """What becomes of the removals that Nodes ask for."""

    order: Order | None
    refused: dict[str, str]
    """Node -> why its member is not removed now."""
    fulfilled: dict[str, str]
    """Node -> the member name that is in the list no more."""


def order(
    seen: Seen, known: Facts, clocks: dict[int, Clock], leaving: frozenset[int], now: float, patience: Patience
) -> tuple[Order | None, Wishes]:  # fmt: skip
    """The one change of this pass; promotions first, for they make the cluster stronger."""
    wished = wishes(seen, known)
    if leaving or not known.has_quorum:
        return None, wished
    learners = [one for one in seen.members if one.is_learner]
    unwanted = {seen.nodes[node] for node in seen.wishes & seen.nodes.keys()}
    for one in learners:
        if one.name not in unwanted and not why_not_promoted(one, seen, known, patience):
            return Promote(one.id, label(one)), wished
    for one in learners:
        if not why_not_evicted(one, seen, known, clocks[one.id], now, patience):
            return Evict(one.id, label(one)), wished
    return wished.order, wished


def wishes(seen: Seen, known: Facts) -> Wishes:
    """Judge every removal that is asked for; at most one is ordered."""
    refused: dict[str, str] = {}
    fulfilled: dict[str, str] = {}
    first: Order | None = None
    claims = nodes_of(seen)
    for node in sorted(seen.wishes & seen.nodes.keys()):
        name = seen.nodes[node]
        named = [one for one in seen.members if one.name == name]
        if not name:
            refused[node] = "no annotation of the Node says which member it is"
        elif len(claims[name]) > 1 or len(named) > 1:
            refused[node] = f"{name} is not one Node and one member: {', '.join(claims[name])} claim it"
        elif not named:
            # A list that no majority confirmed may be old: it is not proof that the member is gone.
            if known.has_quorum and seen.fenced:
                fulfilled[node] = name
        elif why := why_not_remove(named[0], seen, known):
            refused[node] = why
        elif first is None:
            first, why = _removal(named[0], node, seen, known)
            refused |= {node: why} if why else {}
    return Wishes(first, refused, fulfilled)


def _removal(member: Member, node: str, seen: Seen, known: Facts) -> tuple[Order | None, str]:
    if member.id != known.leader:
        return Remove(member.id, member.name, node), ""
    able = [one for one in known.voters if one.id != member.id and state_of(one, seen) == ANSWERED]
    if not able:
        return None, "it leads, and no other voter answers that could lead"
    best = max(able, key=lambda one: (seen.probes[one.id].applied, one.id))
    return MoveLeader(best.id, label(best)), ""
