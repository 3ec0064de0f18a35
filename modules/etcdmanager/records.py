"""Records of learners' progress in etcd: K3s' one, which both sides read and write, and our own, one per learner. Pure.

K3s keeps a single record for the cluster (spec/k3s-etcd.md 4), so with two learners it would forget one for the other;
ours are beside it under a prefix of their own. What cannot be read counts as absent: a damaged record must not stop
the observer, as it stops K3s'.
"""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Struct, UnsetType

from beehive.world import from_rfc3339, rfc3339
from modules.etcdmanager.learners import Clock

PREFIX = "beehive/etcd/learners/"


class K3sRecord(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """As Go writes it: an id beyond 2**53 as a JSON number, whole seconds, `null` for no time."""

    id: int = 0
    name: str = ""
    raft_applied_index: int = 0
    last_progress: str | UnsetType | None = UNSET


class OwnRecord(Struct, frozen=True, rename="camel"):
    """Of one learner."""

    name: str
    match: int
    applied: int
    last_progress: str
    snapshot_since: str | None = None


_k3s = msgspec.json.Decoder(K3sRecord)
_own = msgspec.json.Decoder(OwnRecord)


def key(member_id: int) -> str:
    """Under which a learner's own record lies."""
    return f"{PREFIX}{member_id:016x}"


def write_k3s(member_id: int, clock: Clock) -> bytes:
    """The record that K3s reads, ended by a newline as Go's encoder does."""
    record = K3sRecord(member_id, clock.name, clock.applied or clock.match, rfc3339(clock.since))
    return msgspec.json.encode(record) + b"\n"


def write_own(clock: Clock) -> bytes:
    """Our own record."""
    snapshot = rfc3339(clock.snapshot) if clock.snapshot else None
    return msgspec.json.encode(OwnRecord(clock.name, clock.match, clock.applied, rfc3339(clock.since), snapshot))


def read_k3s(text: bytes, now: float) -> tuple[dict[int, Clock], str]:
    """At most one clock, and why there is none; a time in the future counts as now."""
    try:
        record = _k3s.decode(text)
        if not record.id:
            return {}, ""
        since = from_rfc3339(record.last_progress) if isinstance(record.last_progress, str) else now
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        return {}, f"the progress record of K3s cannot be read and counts as absent: {error}"
    return {record.id: Clock(record.name, 0, max(0, record.raft_applied_index), min(since, now))}, ""


def read_own(entries: Mapping[str, bytes], now: float) -> tuple[dict[int, Clock], str]:
    """A clock for each record that can be read, and what is wrong with the last that cannot."""
    found, trouble = {}, ""
    for name, text in entries.items():
        try:
            record = _own.decode(text)
            snapshot = min(from_rfc3339(record.snapshot_since), now) if record.snapshot_since else 0.0
            since = min(from_rfc3339(record.last_progress), now)
            found[int(name.removeprefix(PREFIX), 16)] = Clock(
                record.name, record.match, record.applied, since, snapshot
            )  # fmt: skip
        except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
            trouble = f"the progress record {name} cannot be read and counts as absent: {error}"
    return found, trouble


def merged(remembered: Mapping[int, Clock], k3s: Mapping[int, Clock], own: Mapping[int, Clock]) -> dict[int, Clock]:
    """What is known best of each learner: remembered, else recorded; of the same one, the later progress."""
    best: dict[int, Clock] = dict(remembered)
    for clocks in (own, k3s):
        for member_id, clock in clocks.items():
            known = best.get(member_id)
            if known is None or (known.name == clock.name and clock.since > known.since and clock is not known):
                best[member_id] = clock if known is None else msgspec.structs.replace(known, since=clock.since)
    return best
