"""The verdict on the whole cluster as one document: what the ConfigMap holds and `beehive etcd status` shows. Pure."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from beehive.world import rfc3339
from modules.etcdmanager.learners import Patience, lag, why_not_evicted, why_not_promoted
from modules.etcdmanager.members import Verdict
from modules.etcdmanager.quorum import ghosts, nodes_of, why_not_remove
from modules.etcdmanager.sight import ANSWERED, Member, Seen, alarms, label, state_of, trouble_of

KEY = "report.json"
"""In the ConfigMap's data."""


class MemberLine(Struct, frozen=True, rename="camel"):
    """One member, or one Node without a member."""

    node: str
    member: str
    id: str
    """In hexadecimal, as etcdctl prints it."""
    role: str
    """`leader`, `voter`, `learner`, or `-`."""
    status: str
    """As the condition: True, False, Unknown; `-` for a ghost, which has no Node."""
    reason: str
    why: str
    lag: int | None = None
    db_size: int | None = None
    """Bytes."""
    version: str = ""
    last_seen: str | None = None
    """RFC 3339, of a member that does not answer."""
    may_be_removed: str = ""
    """`yes`, or why not."""
    may_go_down: str = ""


class Report(Struct, frozen=True, rename="camel"):
    """One pass."""

    as_of: str
    """RFC 3339."""
    observer: str
    healthy: bool
    """Every member stands as it should, a majority lives, no alarm, no ghost."""
    voters: int
    learners: int
    living: int
    needed: int
    leader: str
    term: int
    members: tuple[MemberLine, ...]
    may_go_down: str
    """The sentence on whether a node may go down now."""
    may_add: str
    """`yes`, or why not."""
    alarms: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    """What else is wrong: endpoints, records, orders that were refused, another writer."""
    heartbeat: float = 300.0
    """Seconds after which the report is written again when nothing changes."""
    period: float = 15.0
    """Seconds between two passes."""


class Remarks(Struct, frozen=True):
    """What the shell knows beside the verdict."""

    now: float
    observer: str
    troubles: tuple[str, ...] = ()
    heartbeat: float = 300.0
    period: float = 15.0
    patience: Patience = Patience()


def report(seen: Seen, verdict: Verdict, remarks: Remarks) -> Report:
    """Of one pass that saw something."""
    lines = [_line(one, seen, verdict, remarks) for one in seen.members]
    known = {one.name for one in seen.members}
    lines += [
        MemberLine(node, name or "-", "", "-", *_standing(verdict, node))
        for node, name in seen.nodes.items() if not name or name not in known
    ]  # fmt: skip
    raised = tuple(_alarm(one.kind, one.member_id, seen) for one in alarms(seen))
    lines.sort(key=lambda one: (one.node == "-", one.node, one.id))
    troubles = (*remarks.troubles, *(f"{url}: {why}" for url, why in sorted(seen.endpoint_troubles.items())))
    leads = next((label(one) for one in seen.members if one.id == verdict.facts.leader), "")
    return Report(
        rfc3339(remarks.now), remarks.observer, _healthy(verdict, raised, seen), verdict.quorum.voters,
        len(seen.members) - verdict.quorum.voters, verdict.quorum.living, verdict.quorum.needed, leads,
        verdict.facts.term, tuple(lines), may_go_down(verdict), verdict.quorum.why_not_add or "yes", raised,
        troubles, remarks.heartbeat, remarks.period,
    )  # fmt: skip


def may_go_down(verdict: Verdict) -> str:
    """Whether a node may go down now, as a sentence."""
    if not verdict.facts.has_quorum or verdict.quorum.living - 1 < verdict.quorum.needed:
        return f"No: {verdict.quorum.reason}."
    return f"Yes, one of them: {verdict.quorum.reason}."


def _healthy(verdict: Verdict, raised: tuple[str, ...], seen: Seen) -> bool:
    sound = all(one.status == "True" or one.reason == "MemberIsLearner" for one in verdict.standings.values())
    return verdict.facts.has_quorum and sound and not raised and not ghosts(seen) and all(
        state_of(one, seen) == ANSWERED or (one.is_learner and not one.client_urls) for one in seen.members
    )  # fmt: skip


def _standing(verdict: Verdict, node: str) -> tuple[str, str, str]:
    one = verdict.standings[node]
    return one.status, one.reason, verdict.wishes.refused.get(node, one.message)


def _line(member: Member, seen: Seen, verdict: Verdict, remarks: Remarks) -> MemberLine:
    node = next(iter(nodes_of(seen).get(member.name, ())), "-") if member.name else "-"
    role = "leader" if member.id == verdict.facts.leader else "learner" if member.is_learner else "voter"
    status, reason = ("-", "") if node == "-" else _standing(verdict, node)[:2]
    probe = seen.probes.get(member.id)
    answered = state_of(member, seen) == ANSWERED and probe is not None
    silent = verdict.memory.silent.get(member.id)
    removable = why_not_remove(member, seen, verdict.facts)
    return MemberLine(
        node, label(member), f"{member.id:x}", role, status, reason, _why(member, node, seen, verdict, remarks),
        lag(member, seen, verdict.facts), probe.db_size if answered and probe else None,
        probe.version if answered and probe else "",
        rfc3339(silent.last_seen) if silent and silent.last_seen else None, removable or "yes",
        "no" if node in verdict.quorum.critical else "yes",
    )  # fmt: skip


def _why(member: Member, node: str, seen: Seen, verdict: Verdict, remarks: Remarks) -> str:
    if refused := verdict.wishes.refused.get(node):
        return f"not removed: {refused}"
    silent = verdict.memory.silent.get(member.id)
    if silent and member.client_urls:
        passes = f" ({silent.passes} passes)" if silent.passes > 1 else ""
        return f"{trouble_of(member, seen)}{passes}"
    if member.is_learner:
        waits = why_not_promoted(member, seen, verdict.facts, remarks.patience) or "about to be promoted"
        clock = verdict.memory.clocks[member.id]
        stuck = why_not_evicted(member, seen, verdict.facts, clock, remarks.now, remarks.patience)
        return f"{waits}; {stuck or 'removed next'}" if clock.since < remarks.now else waits
    if node == "-":
        return "a ghost: no Node claims this member"
    one = verdict.standings[node]
    return "" if one.status == "True" and one.reason == "MemberNotLearner" else one.message


def _alarm(kind: str, member_id: int, seen: Seen) -> str:
    if not member_id:
        return f"{kind}: etcd does not say of which member"
    owner = next((label(one) for one in seen.members if one.id == member_id), None)
    return f"{kind} of {owner}" if owner else f"{kind} of {member_id:x}, a member that is gone; it stays until disarmed"


def volatile(one: Report) -> object:
    """The report without what differs from pass to pass; equal means: not worth a write before the heartbeat."""
    plain: dict[str, object] = msgspec.to_builtins(one)
    plain.pop("asOf")
    for line in one_lines(plain):
        for name in ("dbSize", "lag", "lastSeen", "why"):
            line.pop(name)
    return plain


def one_lines(plain: Mapping[str, object]) -> list[dict[str, object]]:
    """The lines of a report as builtins."""
    lines = plain["members"]
    assert isinstance(lines, list | tuple)
    return list(lines)
