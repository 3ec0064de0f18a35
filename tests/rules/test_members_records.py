"""Progress records: readable by K3s, and never an obstacle."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.world import rfc3339
from modules.etcdmanager.learners import Clock
from modules.etcdmanager.records import key, merged, read_k3s, read_own, write_k3s, write_own

NOW = 1_767_225_600.0
BIG = 9368631610130652069


def test_the_record_reads_as_k3s_writes_it() -> None:
    """The example of spec/k3s-etcd.md 4."""
    text = (
        b'{"id":9368631610130652069,"name":"node2-1a2b3c4d","raftAppliedIndex":12345,'
        b'"lastProgress":"2023-09-14T12:00:00Z"}\n'
    )
    clocks, trouble = read_k3s(text, NOW)
    assert trouble == ""
    assert clocks == {BIG: Clock("node2-1a2b3c4d", 0, 12345, 1_694_692_800.0)}
    assert write_k3s(BIG, clocks[BIG]) == text


def test_the_id_stays_a_whole_number_and_unknown_keys_are_ignored() -> None:
    clocks, _ = read_k3s(b'{"id":18446744073709551615,"new":[1],"lastProgress":null}', NOW)
    assert clocks == {18446744073709551615: Clock("", 0, 0, NOW)}


@pytest.mark.parametrize(
    "text",
    [
        b"", b"not json", b"[]", b"null", b'{"id":"7"}', b'{"id":1,"lastProgress":"yesterday"}', b'{"id":-}',
        b'{"id":1,"lastProgress":"2023-09-14T12:00:00"}', b'{"id":1,"lastProgress":7}', b"[" * 100_000, b"\xff\xfe",
    ],
)  # fmt: skip
def test_what_cannot_be_read_counts_as_absent_and_is_named(text: bytes) -> None:
    """K3s stops all its condition updates on one (spec/k3s-etcd.md 2.2, step 4)."""
    clocks, trouble = read_k3s(text, NOW)
    assert clocks == {}
    assert trouble.startswith("the progress record of K3s cannot be read and counts as absent: ")
    assert read_own({key(7): text}, NOW)[0] == {}
    assert read_own({key(7): text}, NOW)[1].startswith(f"the progress record {key(7)} cannot be read")


def test_an_empty_record_is_no_trouble() -> None:
    assert read_k3s(b"{}", NOW) == ({}, "")


def test_a_record_from_the_future_counts_as_now() -> None:
    assert read_k3s(b'{"id":7,"lastProgress":"2099-01-01T00:00:00Z"}', NOW)[0][7].since == NOW
    own = write_own(Clock("m", 1, 2, NOW + 9_999, NOW + 9_999))
    assert read_own({key(7): own}, NOW)[0][7] == Clock("m", 1, 2, NOW, NOW)


def test_a_key_that_is_no_number_spoils_only_itself() -> None:
    good = write_own(Clock("m", 1, 2, NOW))
    clocks, trouble = read_own({"beehive/etcd/learners/nonsense": good, key(7): good}, NOW)
    assert list(clocks) == [7]
    assert "nonsense" in trouble


names = st.text(st.characters(codec="utf-8"), max_size=8)
clock = st.builds(
    Clock, names, st.integers(0, 2**63), st.integers(0, 2**63), st.integers(0, int(NOW)).map(float),
    st.one_of(st.just(0.0), st.integers(1, int(NOW)).map(float)),
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 2**64 - 1), clock)
def test_what_was_written_is_read(member: int, one: Clock) -> None:
    assert read_own({key(member): write_own(one)}, NOW) == ({member: one}, "")
    told = json.loads(write_k3s(member, one))
    assert (told.get("id"), told.get("name", ""), told["lastProgress"]) == (member, one.name, rfc3339(one.since))


@settings(max_examples=50, deadline=None)
@given(*(st.dictionaries(st.integers(1, 3), clock, max_size=3) for _ in range(3)))
def test_the_later_progress_of_the_same_learner_counts(
    memory: dict[int, Clock], k3s: dict[int, Clock], own: dict[int, Clock]
) -> None:
    best = merged(memory, k3s, own)
    assert best.keys() == {*memory, *k3s, *own}
    for member, one in best.items():
        assert one.name == (memory.get(member) or own.get(member) or k3s[member]).name
        if member in memory:
            assert one.since >= memory[member].since
    assert merged(best, k3s, own) == best


def test_a_record_of_an_earlier_bearer_of_the_id_does_not_count() -> None:
    memory = {7: Clock("new", 1, 1, NOW - 200)}
    assert merged(memory, {7: Clock("old", 9, 9, NOW)}, {})[7] == memory[7]
