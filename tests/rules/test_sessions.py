"""Who is connected: the laws of `modules/cloudhub/sessions.py`."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from modules.cloudhub.fleet import message_ids
from modules.cloudhub.sessions import BLOCK, Sessions, first_epoch


def test_the_newest_wins_and_the_end_of_the_old_changes_nothing() -> None:
    sessions = Sessions(10)
    old, replaced = sessions.begin("n1", 1.0, legacy=False)
    assert replaced is None
    new, replaced = sessions.begin("n1", 2.0, legacy=True)
    assert replaced == old
    assert new.epoch > old.epoch > 10
    assert not sessions.end("n1", old.epoch)
    assert sessions.all() == (new,)
    assert sessions.end("n1", new.epoch)
    assert not sessions.end("n1", new.epoch)
    assert sessions.all() == ()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 30)), max_size=80))
def test_at_most_one_session_a_node_and_epochs_only_grow(events: list[tuple[str, bool, int]]) -> None:
    sessions = Sessions(0)
    newest: dict[str, int] = {}
    last = 0
    for node, begins, epoch in events:
        if begins:
            session, _ = sessions.begin(node, 0.0, legacy=False)
            assert session.epoch > last
            last = newest[node] = session.epoch
        else:
            ended = sessions.end(node, epoch)
            assert ended == (newest.get(node) == epoch)
            if ended:
                del newest[node]
        assert {one.node: one.epoch for one in sessions.all()} == newest


@given(st.floats(0, 4e9), st.integers(0, 10**13), st.integers(0, BLOCK))
def test_a_later_process_begins_after_everything_that_was_given_out(now: float, reserved: int, given_out: int) -> None:
    """Also when its clock was set back: an earlier process notes a block before it uses it."""
    assert first_epoch(now, reserved) >= reserved
    assert Sessions(first_epoch(now, reserved)).begin("n", now, legacy=False)[0].epoch > reserved - BLOCK + given_out


def test_without_a_note_the_clock_decides() -> None:
    assert first_epoch(1767225600.5, 0) == 1767225600500


def test_ids_of_messages_look_like_uuids_and_are_never_given_twice() -> None:
    one, other = (message_ids(str(uuid.uuid4())) for _ in range(2))
    made = [make() for make in (one, other) for _ in range(1000)]
    assert len(set(made)) == 2000
    assert {str(uuid.UUID(text)) for text in made} == set(made)
    assert {uuid.UUID(text).version for text in made} == {4}
