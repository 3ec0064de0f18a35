"""What is the standing of each member, and which Node may not go? Pure: what was seen, what is remembered -> a verdict.

Theory. A pass reads the member list and probes every member at its own address. Only the voters can say who leads:
the leader is whom a majority of all voters names at the highest term that was seen; a learner's word about the leader
counts for nothing (spec/k3s-etcd.md 14). Where no such leader exists nobody can know who votes, so every standing is
`Unknown`, never a stale `True`. A member that is silent for the first time keeps its standing; the second time in a row
it is `Unhealthy` with the probe's text. Alarms are the whole cluster's list, repeated by every member: each belongs to
the member that it names.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

_ALARM = re.compile(r"(?:memberID:([0-9]+) )?alarm:([A-Z]+)\s*")


class Member(Struct, frozen=True):
    """A line of the member list."""

    id: int
    name: str
    """Empty until it was started for the first time."""
    client_urls: tuple[str, ...] = ()
    is_learner: bool = False


class Probe(Struct, frozen=True):
    """What one member answered to `Status`, or why it did not."""

    trouble: str = ""
    """Why there is no answer, as a phrase; empty when it answered."""
    member_id: int = 0
    leader: int = 0
    term: int = 0
    is_learner: bool = False
    errors: tuple[str, ...] = ()


class Seen(Struct, frozen=True):
    """One pass."""

    members: tuple[Member, ...]
    probes: Mapping[int, Probe]
    """By member id; a member without client URLs is not probed."""
    nodes: Mapping[str, str]
    """Name of each Node with the etcd role -> the member name that its annotation gives; may be empty."""


class Standing(Struct, frozen=True):
    """The condition of one Node."""

    status: str
    reason: str
    message: str


class Verdict(Struct, frozen=True):
    """What follows from a pass."""

    standings: Mapping[str, Standing]
    """One for each Node of the pass."""
    silent: frozenset[int]
    """Members that did not answer: to be remembered for the next pass."""
    critical_nodes: tuple[str, ...]
    """Nodes whose loss now would cost the quorum."""
    reason: str
    """How the quorum stands, as a sentence."""


VOTER = Standing("True", "MemberNotLearner", "Node is a voting member of the etcd cluster")
LEARNER = Standing("False", "MemberIsLearner", "Node has not been promoted to voting member of the etcd cluster")
NOT_A_MEMBER = Standing("False", "NotAMember", "Node is not a member of the etcd cluster")
UNSTARTED = Standing("False", "Unhealthy", "etcd member ClientURLs list is empty")
LEADER_MISSING = Standing("Unknown", "LeaderMissing", "no majority of the etcd voters names one leader")


def judge(seen: Seen, silent_before: frozenset[int], before: Mapping[str, Standing]) -> Verdict:
    """`silent_before` and `before` are what the last pass found: silent members, standings of Nodes."""
    silent = frozenset(one.id for one in seen.members if _trouble(one, seen))
    by_name = {one.name: one for one in seen.members if one.name}
    leads = leader(seen)
    standings = {}
    for node, name in seen.nodes.items():
        member = by_name.get(name) if name else None
        if not leads:
            standings[node] = LEADER_MISSING
        elif member is None:
            standings[node] = NOT_A_MEMBER
        else:
            standings[node] = _standing(member, seen, member.id in silent_before, before.get(node))
    critical, reason = _quorum(seen, silent, bool(leads))
    return Verdict(standings, silent, critical, reason)


def leader(seen: Seen) -> int:
    """Id of the member that a majority of all voters names at the highest term; 0 when there is none."""
    voters = [one for one in seen.members if not one.is_learner]
    answers = [probe for one in voters if (probe := seen.probes.get(one.id)) and not probe.trouble]
    term = max((answer.term for answer in answers), default=0)
    named = Counter(answer.leader for answer in answers if answer.term == term and answer.leader)
    for candidate, votes in named.items():
        if votes > len(voters) // 2 and any(one.id == candidate for one in voters):
            return candidate
    return 0


def _standing(member: Member, seen: Seen, silent_before: bool, before: Standing | None) -> Standing:
    if not member.client_urls:
        return UNSTARTED
    probe = seen.probes[member.id]
    trouble = _trouble(member, seen)
    if trouble:
        kept = before if before and before.status != "Unknown" else None
        return kept if kept and not silent_before else Standing("False", "Unhealthy", trouble)
    if probe.is_learner != member.is_learner:
        is_, says = ("learner", "voter") if member.is_learner else ("voter", "learner")
        return Standing("Unknown", "MembershipMismatch", f"the list says {is_}, the member itself says {says}")
    alarms = _alarms_of(member.id, probe.errors)
    if alarms:
        return Standing("False", "Unhealthy", f"etcd member has status errors: {','.join(alarms)}")
    return LEARNER if member.is_learner else VOTER


def _trouble(member: Member, seen: Seen) -> str:
    """Why its answer is none: silence, or somebody else's voice at its address."""
    probe = seen.probes.get(member.id)
    if probe is None:
        return "etcd member ClientURLs list is empty" if not member.client_urls else "was not probed"
    if not probe.trouble and probe.member_id != member.id:
        return f"another member ({probe.member_id:x}) answers at {member.client_urls[0]}"
    return probe.trouble


def _alarms_of(member_id: int, errors: Iterable[str]) -> list[str]:
    """Its own alarms, and other errors that it reports of itself (but for those about the leader)."""
    own = []
    for text in errors:
        alarm = _ALARM.fullmatch(text)
        if alarm and alarm[1] == str(member_id):
            own.append(f"alarm {alarm[2]}")
        elif not alarm and "no leader" not in text:
            own.append(text.strip())
    return own


def _quorum(seen: Seen, silent: frozenset[int], has_leader: bool) -> tuple[tuple[str, ...], str]:
    voters = [one for one in seen.members if not one.is_learner]
    needed = len(voters) // 2 + 1
    alive = {one.id for one in voters if one.id not in silent}
    node_of = {name: node for node, name in seen.nodes.items() if name}
    state = f"{len(alive)} of {len(voters)} voters answer, {needed} are needed"
    if has_leader and len(alive) - 1 >= needed:
        return (), state
    critical = sorted(
        node_of[one.name] for one in voters if one.name in node_of and (one.id in alive or not has_leader)
    )
    return tuple(critical), f"{state}: losing another one would lose the quorum"
