"""When a condition is written, who else writes it, and when it is too old to believe."""

import pytest

from beehive.api.meta import ObjectMeta
from beehive.api.node import Node, NodeCondition, NodeStatus
from beehive.world import rfc3339
from modules.etcdmanager.conditions import CONDITION, MARK, Found, due, foreigner, found, is_stale, standings
from modules.etcdmanager.members import LEADER_MISSING, NOT_A_MEMBER, VOTER, Standing

START = 1_767_225_600.0


def condition(age: float = 0, standing: Standing = VOTER) -> NodeCondition:
    return NodeCondition(
        type=CONDITION, status=standing.status, reason=standing.reason, message=standing.message,
        last_heartbeat_time=rfc3339(START - age), last_transition_time="2025-01-01T00:00:00Z",
    )  # fmt: skip


class TestDue:
    def test_not_while_nothing_changed_and_the_heartbeat_is_young(self) -> None:
        assert due(VOTER, condition(299), START, 300) is None

    def test_as_a_heartbeat_it_keeps_the_transition_time(self) -> None:
        new = due(VOTER, condition(300), START, 300)
        assert new is not None
        assert (new.last_heartbeat_time, new.last_transition_time) == ("2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z")

    def test_a_change_of_message_alone_keeps_it_too(self) -> None:
        """K3s moves it with every text (spec/k3s-etcd.md 6)."""
        new = due(Standing("True", VOTER.reason, "busy"), condition(1), START, 300)
        assert new is not None
        assert new.last_transition_time == "2025-01-01T00:00:00Z"

    def test_a_flip_moves_it(self) -> None:
        new = due(NOT_A_MEMBER, condition(1), START, 300)
        assert new is not None
        assert (new.status, new.last_transition_time) == ("False", "2026-01-01T00:00:00Z")

    def test_the_first_one_has_both_times(self) -> None:
        new = due(VOTER, None, START, 300)
        assert new is not None
        assert new.last_heartbeat_time == new.last_transition_time == "2026-01-01T00:00:00Z"

    @pytest.mark.parametrize("written", [None, "", "yesterday", "2099-01-01T00:00:00Z"])
    def test_a_time_that_nobody_can_believe_is_written_anew(self, written: str | None) -> None:
        old = NodeCondition(
            type=CONDITION, status="True", reason=VOTER.reason, message=VOTER.message, last_heartbeat_time=written
        )
        assert due(VOTER, old, START, 300) is not None


class TestForeigner:
    def test_nobody_where_there_is_no_condition(self) -> None:
        assert foreigner({"a": Found(None, marked=False)}, {}, START) == ""

    def test_a_young_one_without_our_mark_is_somebody_elses(self) -> None:
        assert foreigner({"a": Found(condition(599), marked=False)}, {}, START) == "a"

    def test_an_old_one_is_nobodys(self) -> None:
        assert foreigner({"a": Found(condition(601), marked=False)}, {}, START) == ""

    def test_a_marked_one_was_our_predecessors(self) -> None:
        assert foreigner({"a": Found(condition(5), marked=True)}, {}, START) == ""

    def test_what_we_wrote_and_somebody_changed_is_not_ours_any_more(self) -> None:
        written = {"a": condition(100)}
        assert foreigner({"a": Found(condition(100), marked=True)}, written, START) == ""
        assert foreigner({"a": Found(condition(20, NOT_A_MEMBER), marked=True)}, written, START) == "a"
        assert foreigner({"a": Found(condition(20), marked=True)}, written, START) == "a"

    def test_a_cache_that_lags_behind_our_own_write_is_no_stranger(self) -> None:
        written = {"a": condition(0)}
        assert foreigner({"a": Found(condition(300), marked=True)}, written, START) == ""

    def test_k3s_never_writes_unknown(self) -> None:
        assert foreigner({"a": Found(condition(5, LEADER_MISSING), marked=False)}, {}, START) == ""


@pytest.mark.parametrize(("age", "stale"), [(0, False), (345, False), (346, True), (86_400, True)])
def test_three_periods_beyond_the_heartbeat_nobody_writes_any_more(age: float, stale: bool) -> None:
    assert is_stale([Found(condition(age), marked=True)], START, 300, 15) == stale


def test_where_nothing_was_ever_written_nothing_is_stale() -> None:
    assert not is_stale([], START, 300, 15)
    assert not is_stale([Found(None, marked=False)], START, 300, 15)


def test_what_is_found_on_a_node() -> None:
    other = NodeCondition(type="Ready", status="True")
    node = Node(
        metadata=ObjectMeta(name="n", annotations={MARK: "true"}), status=NodeStatus(conditions=(other, condition()))
    )
    assert found(node) == Found(condition(), marked=True)
    assert found(Node(metadata=ObjectMeta(name="n"))) == Found(None, marked=False)
    assert standings({"n": found(node), "m": Found(None, marked=False)}) == {"n": VOTER}
