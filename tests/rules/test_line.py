"""Who is received next: fair between addresses."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modules.cloudhub.line import Line, Room, origin

ROOM = Room(places=3, places_each=2, queue=8, queue_each=4)
STEPS = st.lists(st.sampled_from(["a", "b", "c", "next", "leave"]), max_size=60)


@settings(max_examples=100)
@given(STEPS)
def test_laws(steps: list[str]) -> None:
    line: Line[int] = Line(ROOM)
    waiting: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    served: list[str] = []
    for number, step in enumerate(steps):
        if step in waiting:
            room = len(line) < ROOM.queue and len(waiting[step]) < ROOM.queue_each
            assert line.arrive(step, number) is room
            if room:
                waiting[step].append(number)
        elif step == "leave" and served:
            line.left(served.pop(0))
        elif step == "next":
            first = line.next()
            may = [one for one, queue in waiting.items() if queue and served.count(one) < ROOM.places_each]
            assert (first is None) == (not may or len(served) >= ROOM.places)
            if first is not None:
                assert waiting[first[0]].pop(0) == first[1]
                served.append(first[0])
        assert line.served == len(served) <= ROOM.places
        assert max(Counter(served).values(), default=0) <= ROOM.places_each
        assert len(line) == sum(map(len, waiting.values()))


def test_addresses_take_turns() -> None:
    line: Line[int] = Line(Room(places=100, places_each=100))
    for number in range(3):
        line.arrive("a", number)
    line.arrive("b", 3)
    assert [first and first[0] for first in (line.next(), line.next(), line.next(), line.next())] == [
        "a",
        "b",
        "a",
        "a",
    ]
    assert line.next() is None


def test_an_address_that_holds_all_its_places_does_not_hold_up_the_others() -> None:
    line: Line[int] = Line(Room(places=10, places_each=1))
    for address in ("a", "a", "b"):
        line.arrive(address, 0)
    assert line.next() == ("a", 0)
    assert line.next() == ("b", 0)
    assert line.next() is None
    line.left("a")
    assert line.next() == ("a", 0)


def test_clear_gives_back_who_waits() -> None:
    line: Line[int] = Line(ROOM)
    line.arrive("a", 1)
    line.arrive("b", 2)
    assert list(line.clear()) == [1, 2]
    assert (len(line), line.next()) == (0, None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"),
        ("fe80::1%eth0", "fe80::2%eth1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
    ],
)
def test_what_one_host_can_choose_from_counts_as_one_address(one: str, other: str) -> None:
    assert origin(one) == origin(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("2001:db8:1:2::1", "2001:db8:1:3::1"), ("192.0.2.1", "192.0.2.2"), ("::ffff:192.0.2.1", "::ffff:192.0.2.2")],
)
def test_others_do_not(one: str, other: str) -> None:
    assert origin(one) != origin(other)
