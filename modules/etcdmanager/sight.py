"""What one look at a cluster shows, and the plain facts that follow from it: who leads, who lives, who has an alarm.

Only the voters can say who leads: it is whom a majority of all voters names at the highest term that was seen. A
learner's word about the leader counts for nothing, for it never notices a lost quorum (spec/k3s-etcd.md 14).
"""

import re
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

_ALARM = re.compile(r"(?:memberID:([0-9]+) )?alarm:(\w+)\s*")

ANSWERED, BUSY, STARTING, SILENT = "answered", "busy", "starting", "silent"
"""How a member met the probe: with an answer; with an answer to a lesser question only (it defragments); its port is
open but says nothing (it receives a snapshot, waits for a quorum, or hangs); not at all."""


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
    state: str = ""
    """BUSY or STARTING where that is known; else it follows from `trouble`."""
    member_id: int = 0
    cluster_id: int = 0
    leader: int = 0
    term: int = 0
    is_learner: bool = False
    errors: tuple[str, ...] = ()
    index: int = 0
    """The committed index, as this member knows it."""
    applied: int = 0
    db_size: int = 0
    """Bytes."""
    db_in_use: int = 0
    version: str = ""


class Progress(Struct, frozen=True):
    """What the leader knows of how far its followers are (`/debug/vars`, spec/k3s-etcd.md 12b.6)."""

    match: Mapping[int, int]
    """Member id -> the last log entry that it is known to hold."""
    snapshot: frozenset[int] = frozenset()
    """Members to which a snapshot is on its way."""


class Seen(Struct, frozen=True):
    """One look."""

    members: tuple[Member, ...]
    probes: Mapping[int, Probe]
    """By member id; a member without client URLs, or one that is being removed, is not probed."""
    nodes: Mapping[str, str]
    """Name of each Node with the etcd role -> the member name that its annotation gives; may be empty."""
    progress: Progress | None = None
    """None: all voters answer and there is no learner, or the leader did not tell."""
    wishes: frozenset[str] = frozenset()
    """Nodes whose annotation asks that their member be removed."""
    cluster_id: int = 0
    """Of the member list; 0: unknown."""
    endpoint_troubles: Mapping[str, str] = {}
    """Configured endpoint -> why it gave no member list."""
    fenced: bool = False
    """The member list was confirmed by a majority when it was read."""


class Facts(Struct, frozen=True):
    """What follows at once."""

    voters: tuple[Member, ...]
    alive: frozenset[int]
    """Members, learners too, that answered as themselves or are merely busy. Hung counts as dead."""
    leader: int
    """0: no majority of the voters names one."""
    term: int
    index: int
    """The highest committed index that a voter named."""

    @property
    def needed(self) -> int:
        """Voters that must live."""
        return majority(len(self.voters))

    @property
    def living_voters(self) -> int:
        return sum(one.id in self.alive for one in self.voters)

    @property
    def has_quorum(self) -> bool:
        """A majority lives, by our own probes, and its leader is among them: others name a dead one for a while."""
        return self.leader in self.alive and self.living_voters >= self.needed


def majority(voters: int) -> int:
    """Of so many voters."""
    return voters // 2 + 1


def facts(seen: Seen) -> Facts:
    """Of one look."""
    voters = tuple(one for one in seen.members if not one.is_learner)
    answers = [seen.probes[one.id] for one in voters if not trouble_of(one, seen)]
    alive = frozenset(one.id for one in seen.members if state_of(one, seen) in (ANSWERED, BUSY))
    term = max((answer.term for answer in answers), default=0)
    index = max((answer.index for answer in answers), default=0)
    return Facts(voters, alive, _leader(voters, answers, term), term, index)


def leader(seen: Seen) -> int:
    """Id of the member that leads; 0 when nobody can say."""
    return facts(seen).leader


def _leader(voters: tuple[Member, ...], answers: list[Probe], term: int) -> int:
    named = Counter(answer.leader for answer in answers if answer.term == term and answer.leader)
    for candidate, votes in named.items():
        if votes >= majority(len(voters)) and any(one.id == candidate for one in voters):
            return candidate
    return 0


def trouble_of(member: Member, seen: Seen) -> str:
    """Why its answer is none: silence, or somebody else's voice at its address. Empty: it answered as itself."""
    probe = seen.probes.get(member.id)
    if probe is None:
        return "etcd member ClientURLs list is empty" if not member.client_urls else "it is being removed"
    if probe.trouble:
        return f"{probe.trouble}; a snapshot is on its way to it" if _receives(member, seen) else probe.trouble
    if probe.member_id != member.id:
        return f"another member ({probe.member_id:x}) answers at {member.client_urls[0]}"
    if seen.cluster_id and probe.cluster_id and probe.cluster_id != seen.cluster_id:
        return f"a member of another cluster ({probe.cluster_id:x}) answers at {member.client_urls[0]}"
    return ""


def state_of(member: Member, seen: Seen) -> str:
    """How it met the probe."""
    if not trouble_of(member, seen):
        return ANSWERED
    probe = seen.probes.get(member.id)
    if not probe or not probe.trouble:
        return SILENT
    # Some builds refuse connections while they receive a snapshot, so the leader's word counts before the port's.
    return probe.state if probe.state == BUSY else STARTING if _receives(member, seen) else probe.state or SILENT


def _receives(member: Member, seen: Seen) -> bool:
    return seen.progress is not None and member.id in seen.progress.snapshot


class Alarm(Struct, frozen=True, order=True):
    """An alarm of the cluster. It is raised by one member and repeated by all."""

    kind: str
    member_id: int = 0
    """0: etcd 3.4 does not say whose a CORRUPT is."""


def alarms(seen: Seen) -> tuple[Alarm, ...]:
    """Every alarm that any member repeats, once."""
    found = set()
    for one in seen.members:
        if not trouble_of(one, seen):
            found |= {alarm for text in seen.probes[one.id].errors if (alarm := _alarm(text))}
    return tuple(sorted(found))


def own_errors(member_id: int, errors: tuple[str, ...]) -> list[str]:
    """Its own alarms, and other errors that it reports of itself (but for those about the leader)."""
    own = []
    for text in errors:
        alarm = _alarm(text)
        if alarm and alarm.member_id == member_id:
            own.append(f"alarm {alarm.kind}")
        elif not alarm and "no leader" not in text:
            own.append(" ".join(text.split()))
    return own


def _alarm(text: str) -> Alarm | None:
    found = _ALARM.fullmatch(text)
    return Alarm(found[2], int(found[1] or 0)) if found else None


def label(member: Member) -> str:
    """How people call it: an unstarted one has no name yet."""
    return member.name or f"{member.id:x} (never started)"
