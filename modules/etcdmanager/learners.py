"""When does a learner become a voter, and when is it thrown out? Pure.

Theory. etcd promotes whoever holds nine tenths of the log, alive or not (spec/k3s-etcd.md 12b.3), so we ask more: it
answered in this very look, it lags by a bounded number of entries, it has no alarm, and with it counted as a voter a
majority still lives. One that does not move for `stall` is removed; moving is: the leader knows more of its log, it
applied more, or a snapshot is on its way to it (during one neither number moves). Each learner has a clock of its own.
"""

from collections.abc import Mapping

from msgspec import Struct

from modules.etcdmanager.sight import ANSWERED, BUSY, STARTING, Facts, Member, Seen, alarms, majority, state_of

LONGEST_SNAPSHOT = 3600.0
"""Seconds for which a snapshot on its way counts as moving; a receiver that hangs holds one for ever."""


class Patience(Struct, frozen=True):
    """How long and how far."""

    stall: float = 300.0
    """Seconds without progress after which a learner is removed."""
    lag: int = 1000
    """Entries that a learner may lag behind and still be promoted."""


class Clock(Struct, frozen=True):
    """How far a learner came, and when it last moved."""

    name: str
    match: int = 0
    applied: int = 0
    since: float = 0.0
    """When it last made progress, by the wall clock."""
    snapshot: float = 0.0
    """Since when a snapshot is on its way; 0.0: none is."""


def clocks(seen: Seen, before: Mapping[int, Clock], now: float) -> dict[int, Clock]:
    """One for each learner of the list; those of members that are gone or vote are forgotten."""
    return {one.id: _clock(one, seen, before.get(one.id), now) for one in seen.members if one.is_learner}


def _clock(member: Member, seen: Seen, old: Clock | None, now: float) -> Clock:
    probe, progress = seen.probes.get(member.id), seen.progress
    applied = probe.applied if probe and state_of(member, seen) == ANSWERED else 0
    match = progress.match.get(member.id, 0) if progress else 0
    in_flight = progress is not None and member.id in progress.snapshot
    if old is None or old.name != member.name:
        return Clock(member.name, match, applied, now, now if in_flight else 0.0)
    snapshot = (old.snapshot or now) if in_flight else 0.0
    moved = match > old.match or applied > old.applied or (in_flight and now - snapshot < LONGEST_SNAPSHOT)
    since = now if moved else min(old.since, now)
    return Clock(member.name, max(match, old.match), max(applied, old.applied), since, snapshot)


def lag(member: Member, seen: Seen, known: Facts) -> int | None:
    """Entries that it lacks; None: nobody can say."""
    if seen.progress and member.id in seen.progress.match and known.leader in seen.progress.match:
        return max(0, seen.progress.match[known.leader] - seen.progress.match[member.id])
    if state_of(member, seen) == ANSWERED:
        return max(0, known.index - seen.probes[member.id].applied)
    return None


def why_not_promoted(member: Member, seen: Seen, known: Facts, patience: Patience) -> str:
    """Empty: it may be promoted now."""
    if not known.has_quorum:
        return "the cluster has no live majority"
    if state_of(member, seen) != ANSWERED:
        return "it did not answer"
    if not seen.probes[member.id].is_learner:
        return "it says that it is no learner"
    if blocked := [one for one in alarms(seen) if one.kind == "CORRUPT" or one.member_id == member.id]:
        return f"alarm {blocked[0].kind}"
    behind = lag(member, seen, known)
    if behind is None or behind > patience.lag:
        return f"catching up, {behind:,} entries behind"
    if known.living_voters + 1 < majority(len(known.voters) + 1):
        return "with it as a voter no majority would live"
    return ""


def why_not_evicted(
    member: Member, seen: Seen, known: Facts, clock: Clock, now: float, patience: Patience
) -> str:  # fmt: skip
    """Empty: it has not moved for longer than the patience, and it may be removed now."""
    idle = now - clock.since
    if idle <= patience.stall:
        return f"last moved {idle:.0f} s ago"
    if not known.has_quorum:
        return "the cluster has no live majority"
    state = state_of(member, seen)
    if state == BUSY:
        return "it is busy"
    if state == STARTING and seen.progress is None:
        return "its port is open and silent, and the leader's /debug/vars does not tell whether it receives a snapshot"
    return ""
