"""What is the standing of each member, and what follows? Pure: what was seen, what is remembered -> a verdict.

Theory. A pass reads the member list and probes every member at its own address. Where no majority of the voters names
one leader nobody can know who votes, so every standing is `Unknown`, never a stale `True`, and nothing is ordered. A
member that is silent for the first time keeps its standing; the second time in a row it is `Unhealthy` with the
probe's text. One that is busy or starting is told from a dead one. Alarms are the whole cluster's list, repeated by
every member: each belongs to the member that it names.
"""

from collections.abc import Mapping

from msgspec import Struct

from modules.etcdmanager.learners import Clock, Patience, clocks
from modules.etcdmanager.orders import Order, Wishes, order
from modules.etcdmanager.quorum import Quorum, nodes_of, quorum
from modules.etcdmanager.sight import (
    ANSWERED,
    BUSY,
    STARTING,
    Facts,
    Member,
    Seen,
    facts,
    own_errors,
    state_of,
    trouble_of,
)


class Standing(Struct, frozen=True):
    """The condition of one Node."""

    status: str
    reason: str
    message: str


class Silence(Struct, frozen=True):
    """A member that does not answer."""

    passes: int
    """In a row."""
    last_seen: float = 0.0
    """When it last answered, by the wall clock; 0.0: not since we look."""


class Memory(Struct, frozen=True):
    """What one pass leaves to the next."""

    silent: Mapping[int, Silence] = {}
    last_seen: Mapping[int, float] = {}
    clocks: Mapping[int, Clock] = {}
    standings: Mapping[str, Standing] = {}
    leaving: frozenset[int] = frozenset()
    """Members whose removal was ordered and whose end is not known: a `Status` could make them panic, so none is
    sent, and nothing else is ordered (spec/k3s-etcd.md 12b.3)."""
    term: int = 0
    """The highest at which a leader was known; a fall means that the cluster was rebuilt."""


class Verdict(Struct, frozen=True):
    """What follows from a pass."""

    standings: Mapping[str, Standing]
    """One for each Node of the pass."""
    order: Order | None
    """What may be done now, by whom may act."""
    memory: Memory
    quorum: Quorum
    facts: Facts
    wishes: Wishes
    rebuilt: bool = False
    """The term fell: another cluster answers under the old names."""


VOTER = Standing("True", "MemberNotLearner", "Node is a voting member of the etcd cluster")
LEARNER = Standing("False", "MemberIsLearner", "Node has not been promoted to voting member of the etcd cluster")
NOT_A_MEMBER = Standing("False", "NotAMember", "Node is not a member of the etcd cluster")
UNSTARTED = Standing("False", "Unhealthy", "etcd member ClientURLs list is empty")
LEADER_MISSING = Standing("Unknown", "LeaderMissing", "no majority of the etcd voters names one leader")
OBSERVER_STALE = Standing("Unknown", "ObserverStale", "nobody has seen the etcd cluster for three periods")


def judge(seen: Seen, memory: Memory, now: float, patience: Patience) -> Verdict:
    """`now` by the wall clock."""
    known = facts(seen)
    rebuilt = 0 < known.term < memory.term and bool(known.leader)
    before = Memory() if rebuilt else memory
    times = clocks(seen, before.clocks, now)
    leaving = frozenset() if seen.fenced else before.leaving & {one.id for one in seen.members}
    ordered, wished = order(seen, known, times, leaving, now, patience)
    after = Memory(
        silent={one.id: _silence(one, before) for one in seen.members if state_of(one, seen) != ANSWERED},
        last_seen=_last_seen(seen, before, now),
        clocks=times, leaving=leaving, standings=_standings(seen, known, before),
        term=known.term if known.leader else before.term,
    )  # fmt: skip
    verdict = quorum(seen, known, frozenset(before.silent))
    return Verdict(after.standings, ordered, after, verdict, known, wished, rebuilt)


def _silence(member: Member, before: Memory) -> Silence:
    old = before.silent.get(member.id, Silence(0))
    return Silence(old.passes + 1, before.last_seen.get(member.id, 0.0))


def _last_seen(seen: Seen, before: Memory, now: float) -> dict[int, float]:
    return {
        one.id: now if state_of(one, seen) == ANSWERED else before.last_seen[one.id]
        for one in seen.members
        if state_of(one, seen) == ANSWERED or one.id in before.last_seen
    }


def _standings(seen: Seen, known: Facts, before: Memory) -> dict[str, Standing]:
    claims = nodes_of(seen)
    found = {}
    for node, name in seen.nodes.items():
        members = [one for one in seen.members if name and one.name == name]
        if not known.leader:
            found[node] = LEADER_MISSING
        elif not members:
            found[node] = NOT_A_MEMBER
        elif len(members) > 1:
            found[node] = _mismatch(f"{len(members)} members are named {name}")
        elif len(claims[name]) > 1:
            found[node] = _mismatch(f"{' and '.join(claims[name])} both claim the member {name}")
        else:
            found[node] = _standing(members[0], seen, before, before.standings.get(node))
    return found


def _standing(member: Member, seen: Seen, before: Memory, last: Standing | None) -> Standing:
    if not member.client_urls:
        return UNSTARTED
    state, trouble = state_of(member, seen), trouble_of(member, seen)
    role = LEARNER if member.is_learner else VOTER
    if state == BUSY or (state == STARTING and member.is_learner):
        return Standing(role.status, role.reason, f"{role.message}; {trouble}")
    if trouble:
        kept = last if last and last.status != "Unknown" else None
        return kept if kept and member.id not in before.silent else Standing("False", "Unhealthy", trouble)
    probe = seen.probes[member.id]
    if probe.is_learner != member.is_learner:
        is_, says = ("learner", "voter") if member.is_learner else ("voter", "learner")
        return _mismatch(f"the list says {is_}, the member itself says {says}")
    errors = own_errors(member.id, probe.errors)
    return Standing("False", "Unhealthy", f"etcd member has status errors: {','.join(errors)}") if errors else role


def _mismatch(message: str) -> Standing:
    return Standing("Unknown", "MembershipMismatch", message)


def recall(memory: Memory, standings: Mapping[str, Standing]) -> Memory:
    """The memory of a new process, with the standings that its predecessor wrote."""
    return Memory(
        memory.silent, memory.last_seen, memory.clocks, {**standings, **memory.standings}, memory.leaving, memory.term
    )
