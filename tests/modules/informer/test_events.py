"""Which Events are one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.messages.objects import RecordEvent
from modules.informer.events import COMBINED, Ledger, again, shortened


def said(note: str = "n", uid: str = "u", reason: str = "Started", *, warning: bool = False) -> RecordEvent:
    return RecordEvent(kind="NodeUpgradeJob", name="north", uid=uid, warning=warning, reason=reason, note=note)


def test_equal_ones_are_counted() -> None:
    ledger = Ledger("beehive", "host")
    lines = [ledger.record(said(), now)[1] for now in (0.0, 5.0, 9.0)]
    assert [(one.count, one.first, one.last) for one in lines] == [(1, 0.0, 0.0), (2, 0.0, 5.0), (3, 0.0, 9.0)]
    assert again(lines[-1]) == {"count": 3, "lastTimestamp": "1970-01-01T00:00:09Z", "message": "n"}


def test_after_ten_quiet_minutes_the_count_begins_anew() -> None:
    ledger = Ledger("beehive", "host")
    ledger.record(said(), 0.0)
    assert ledger.record(said(), 601.0)[1].count == 1


@pytest.mark.parametrize("other", [said(uid="v"), said(reason="Ended"), said(warning=True), said(note="m")])
def test_different_ones_are_not_mixed(other: RecordEvent) -> None:
    ledger = Ledger("beehive", "host")
    key, _ = ledger.record(said(), 0.0)
    other_key, line = ledger.record(other, 1.0)
    assert key != other_key
    assert line.count == 1


def test_from_the_eleventh_sentence_on_they_share_one() -> None:
    ledger = Ledger("beehive", "host")
    keys = {ledger.record(said(f"edge-{number}"), 0.0)[0] for number in range(1000)}
    assert len(keys) == 11
    _, line = ledger.record(said("edge-last"), 1.0)
    assert (line.note, line.count) == (f"{COMBINED}edge-last", 991)
    assert ledger.record(said("edge-3"), 1.0)[1].count == 2  # one of the ten still has its own


def test_the_body_is_an_event_of_the_object() -> None:
    ledger = Ledger("beehive", "host")
    _, line = ledger.record(said("5 nodes", warning=True), 1.0)
    body = ledger.body(line, "north.1")
    assert body["involvedObject"] == {
        "apiVersion": "operations.kubeedge.io/v1alpha2",
        "kind": "NodeUpgradeJob",
        "name": "north",
        "uid": "u",
    }
    assert body["metadata"] == {"name": "north.1", "namespace": "default"}
    assert (body["type"], body["reason"], body["message"], body["count"]) == ("Warning", "Started", "5 nodes", 1)


@given(st.text())
def test_a_note_is_at_most_a_kilobyte_in_whole_characters(note: str) -> None:
    short = shortened(note * 50)
    assert len(short.encode("utf-8", "replace")) <= 1024


def test_a_short_note_stays_and_a_long_one_ends_in_an_ellipsis() -> None:
    assert shortened("short") == "short"
    assert shortened("ö" * 600).endswith("ö…")


@given(st.lists(st.tuples(st.integers(0, 7000), st.floats(0, 1000)), max_size=200))
def test_what_is_remembered_is_bounded(many: list[tuple[int, float]]) -> None:
    ledger = Ledger("beehive", "host")
    for number, now in many:
        _, line = ledger.record(said(uid=str(number)), now)
        assert line.count >= 1
