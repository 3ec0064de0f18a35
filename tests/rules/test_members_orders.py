"""Promotion, eviction, removal: what may be ordered, and above all what must not."""

from typing import Any

import pytest

from modules.etcdmanager.learners import LONGEST_SNAPSHOT
from modules.etcdmanager.members import Memory
from modules.etcdmanager.orders import Evict, MoveLeader, Promote, Remove
from modules.etcdmanager.sight import BUSY, Member, Probe, Progress, Seen
from tests.rules.members import DEAD, HUNG, NODES, NOW, THREE, WELL, answer, idle, judged, member, seen

FOUR = (*THREE, member(4, learner=True))
LEARNING = {**WELL, 4: answer(4, learner=True)}
PROMOTE, EVICT = Promote(4, "m-4"), Evict(4, "m-4")


def learning(probe: Probe | None = None, *, progress: Any = None, **others: Any) -> Seen:
    probes = {**LEARNING, 4: probe or LEARNING[4], **{int(name[1:]): one for name, one in others.items()}}
    return seen(FOUR, probes, progress=progress)


class TestPromotion:
    def test_a_learner_that_caught_up_is_promoted(self) -> None:
        assert judged(learning()).order == PROMOTE

    @pytest.mark.parametrize(
        "look",
        [
            pytest.param(learning(DEAD), id="silent: etcd would do it, and lose its leader"),
            pytest.param(learning(HUNG), id="hung"),
            pytest.param(learning(Probe(trouble="busy", state=BUSY)), id="busy"),
            pytest.param(learning(answer(3, learner=True)), id="another's voice"),
            pytest.param(learning(answer(4)), id="says that it votes"),
            pytest.param(learning(answer(4, learner=True, index=90), m1=answer(1, index=1_091)), id="1001 behind"),
            pytest.param(learning(progress=Progress({1: 5_000, 4: 3_999})), id="1001 behind by the leader's word"),
            pytest.param(learning(answer(4, learner=True, errors=("memberID:4 alarm:NOSPACE ",))), id="own alarm"),
            pytest.param(learning(m1=answer(1, errors=("alarm:CORRUPT ",))), id="somebody is corrupt"),
            pytest.param(learning(m2=DEAD, m3=HUNG), id="no live majority"),
            pytest.param(learning(m1=DEAD), id="the others still name a leader that is dead"),
            pytest.param(learning(**{f"m{n}": answer(n, leads=0) for n in (1, 2, 3)}), id="no leader"),
        ],
    )
    def test_not_while(self, look: Seen) -> None:
        assert judged(look).order is None

    def test_beside_one_dead_voter_it_still_helps(self) -> None:
        assert judged(learning(m3=DEAD)).order == PROMOTE

    def test_the_bound_itself_still_passes(self) -> None:
        assert judged(learning(progress=Progress({1: 5_000, 4: 4_000}))).order == PROMOTE

    def test_one_at_a_time(self) -> None:
        two = seen((*FOUR, member(5, learner=True)), {**LEARNING, 5: answer(5, learner=True)})
        assert judged(two).order == PROMOTE

    def test_nothing_while_the_outcome_of_a_removal_is_open(self) -> None:
        open_ = Memory(leaving=frozenset({3}))
        look = seen(FOUR, LEARNING, fenced=False)
        assert judged(look, open_).order is None
        assert judged(look, open_).memory.leaving == {3}

    def test_a_list_that_a_majority_confirmed_closes_it(self) -> None:
        verdict = judged(learning(), Memory(leaving=frozenset({3})))
        assert verdict.memory.leaving == frozenset()
        assert verdict.order == PROMOTE


class TestEviction:
    def test_after_more_than_five_minutes_without_progress(self) -> None:
        assert judged(learning(DEAD), idle(4, 300)).order is None
        assert judged(learning(DEAD), idle(4, 301)).order == EVICT

    def test_never_below_a_live_majority(self) -> None:
        assert judged(learning(DEAD, m2=DEAD, m3=HUNG), idle(4, 9_999)).order is None

    def test_one_that_hangs_is_evicted_by_the_leaders_word(self) -> None:
        still = Progress({1: 500, 4: 40})
        assert judged(learning(HUNG, progress=still), idle(4, 301, match=40)).order == EVICT

    def test_not_without_the_leaders_word_for_it_may_receive_a_snapshot(self) -> None:
        assert judged(learning(HUNG), idle(4, 9_999)).order is None

    def test_not_while_the_leader_sees_it_grow(self) -> None:
        verdict = judged(learning(HUNG, progress=Progress({1: 500, 4: 41})), idle(4, 301, match=40))
        assert verdict.order is None
        assert verdict.memory.clocks[4].since == NOW

    def test_not_while_a_snapshot_is_on_its_way_but_not_for_ever(self) -> None:
        look = learning(HUNG, progress=Progress({1: 500, 4: 0}, frozenset({4})))
        memory, now = Memory(), NOW
        while now < NOW + LONGEST_SNAPSHOT:
            verdict = judged(look, memory, now)
            assert verdict.order is None
            memory, now = verdict.memory, now + 15
        assert judged(look, memory, now + 301).order == EVICT

    def test_not_while_it_is_busy(self) -> None:
        assert judged(learning(Probe(trouble="busy", state=BUSY)), idle(4, 301)).order is None

    def test_one_that_never_started_is_evicted_too(self) -> None:
        look = seen((*THREE, member(4, name="", urls=(), learner=True)), WELL)
        memory = judged(look).memory
        assert judged(look, memory, NOW + 300).order is None
        assert judged(look, memory, NOW + 301).order == Evict(4, "4 (never started)")

    def test_each_learner_has_its_own_clock(self) -> None:
        """K3s' one record ping-pongs between two learners, so that neither is ever evicted."""
        look = seen((*FOUR, member(5, learner=True)), {**WELL, 4: DEAD, 5: DEAD})
        memory, now = judged(look).memory, NOW
        while now < NOW + 300:
            now += 15
            memory = judged(look, memory, now).memory
        assert judged(look, memory, now + 15).order == EVICT

    def test_a_clock_that_was_set_back_does_not_evict(self) -> None:
        verdict = judged(learning(DEAD), idle(4, -5_000))
        assert verdict.order is None
        assert verdict.memory.clocks[4].since == NOW

    def test_a_learner_that_became_a_voter_has_no_clock_any_more(self) -> None:
        look = seen((*THREE, member(4)), {**WELL, 4: answer(4)})
        assert judged(look, idle(4, 10)).memory.clocks == {}


def removal(node: str, members: tuple[Member, ...] = THREE, **probes: Probe) -> Seen:
    known = {one.id: answer(one.id, learner=one.is_learner) for one in members}
    known |= {int(name[1:]): one for name, one in probes.items()}
    nodes = {f"server-{one.id}": one.name for one in members}
    return seen(members, known, nodes, wishes=frozenset({node}))


class TestRemoval:
    def test_a_follower_of_three_is_removed(self) -> None:
        assert judged(removal("server-3")).order == Remove(3, "m-3", "server-3")

    def test_the_dead_one_of_three_is_removed(self) -> None:
        assert judged(removal("server-3", m3=DEAD)).order == Remove(3, "m-3", "server-3")

    def test_the_leader_hands_over_first_to_the_best_that_answers(self) -> None:
        look = removal("server-1", m2=answer(2, index=100), m3=answer(3, index=101))
        assert judged(look).order == MoveLeader(3, "m-3")
        assert judged(removal("server-1", m3=Probe(trouble="busy", state=BUSY))).order == MoveLeader(2, "m-2")

    @pytest.mark.parametrize(
        ("look", "why"),
        [
            (removal("server-3", m2=DEAD), "of the 2 voters that would stay 1 are healthy, 2 are needed"),
            (removal("server-3", m2=HUNG), "of the 2 voters that would stay 1 are healthy, 2 are needed"),
            (removal("server-1", THREE[:1]), "it is the only voter"),
            (removal("server-2", m1=DEAD, m3=DEAD), "the cluster has no live majority"),
        ],
    )
    def test_refused_with_the_reason(self, look: Seen, why: str) -> None:
        verdict = judged(look)
        assert verdict.order is None
        assert verdict.wishes.refused == {next(iter(look.wishes)): why}

    @pytest.mark.parametrize("node", ["server-1", "server-2"])
    def test_of_two_voters_with_one_dead_neither_is_removed(self, node: str) -> None:
        """Removing the dead one hangs, and is carried out when it comes back (spec/k3s-etcd.md 12b.3)."""
        verdict = judged(removal(node, THREE[:2], m2=DEAD))
        assert verdict.order is None
        assert verdict.wishes.refused[node].startswith("of two voters one is dead: neither can be removed safely")

    def test_two_living_voters_can_become_one(self) -> None:
        assert judged(removal("server-2", THREE[:2])).order == Remove(2, "m-2", "server-2")

    def test_a_ghost_counts_as_unhealthy(self) -> None:
        look = seen(nodes={"server-1": "m-1", "server-3": "m-3"}, wishes=frozenset({"server-3"}))
        assert judged(look).order is None
        assert "1 are healthy" in judged(look).wishes.refused["server-3"]

    def test_a_member_that_is_gone_fulfils_the_wish_only_by_a_confirmed_list(self) -> None:
        nodes = {**NODES, "server-9": "m-9"}
        assert judged(seen(nodes=nodes, wishes=frozenset({"server-9"}))).wishes.fulfilled == {"server-9": "m-9"}
        old = seen(nodes=nodes, wishes=frozenset({"server-9"}), fenced=False)
        assert judged(old).wishes.fulfilled == {}

    @pytest.mark.parametrize(
        ("nodes", "why"),
        [
            ({"a": ""}, "no annotation of the Node says which member it is"),
            ({"a": "m-3", "b": "m-3"}, "m-3 is not one Node and one member: a, b claim it"),
        ],
    )
    def test_what_it_means_must_be_clear(self, nodes: dict[str, str], why: str) -> None:
        verdict = judged(seen(nodes=nodes, wishes=frozenset({"a"})))
        assert (verdict.order, verdict.wishes.refused) == (None, {"a": why})

    def test_one_of_two_wishes_at_a_time(self) -> None:
        look = removal("server-3", tuple(member(n) for n in range(1, 6)))
        both = seen(look.members, dict(look.probes), dict(look.nodes), wishes=frozenset({"server-3", "server-4"}))
        assert judged(both).order == Remove(3, "m-3", "server-3")

    def test_a_learner_can_be_removed_beside_a_dead_voter(self) -> None:
        look = removal("server-4", FOUR, m3=DEAD)  # and is not promoted first
        assert judged(look).order == Remove(4, "m-4", "server-4")
