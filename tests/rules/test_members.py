"""Standings of etcd members: the table, and the laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.etcdmanager.members import (
    LEADER_MISSING,
    LEARNER,
    NOT_A_MEMBER,
    UNSTARTED,
    VOTER,
    Member,
    Probe,
    Seen,
    Standing,
    judge,
    leader,
)  # fmt: skip

NODES = {"server-1": "m-1", "server-2": "m-2", "server-3": "m-3"}


def member(
    number: int, *, learner: bool = False, urls: tuple[str, ...] = ("https://x:2379",), name: str = ""
) -> Member:
    return Member(number, name or f"m-{number}", urls, learner)


def answer(number: int, *, leads: int = 1, term: int = 2, learner: bool = False, errors: tuple[str, ...] = ()) -> Probe:
    return Probe(member_id=number, leader=leads, term=term, is_learner=learner, errors=errors)


SILENT = Probe(trouble="failed to check etcd member status: did not answer in 2 s")
THREE = tuple(member(number) for number in (1, 2, 3))
WELL = {number: answer(number) for number in (1, 2, 3)}


def standing(seen: Seen, node: str, silent: frozenset[int] = frozenset(), before: Standing | None = None) -> Standing:
    return judge(seen, silent, {node: before} if before else {}).standings[node]


def test_three_voters_that_answer_are_voters_and_any_one_of_them_may_go() -> None:
    verdict = judge(Seen(THREE, WELL, NODES), frozenset(), {})
    assert verdict.standings == {"server-1": VOTER, "server-2": VOTER, "server-3": VOTER}
    assert verdict.critical_nodes == ()
    assert verdict.reason == "3 of 3 voters answer, 2 are needed"


def test_a_learner_is_no_voter() -> None:
    seen = Seen((member(1), member(2, learner=True)), {1: answer(1), 2: answer(2, learner=True)}, NODES)
    assert standing(seen, "server-2") == LEARNER


def test_a_node_without_a_member_or_without_a_name_is_not_a_member() -> None:
    seen = Seen((member(1),), {1: answer(1)}, {"server-1": "m-1", "server-9": "m-9", "server-8": ""})
    assert standing(seen, "server-9") == NOT_A_MEMBER
    assert standing(seen, "server-8") == NOT_A_MEMBER


def test_an_unstarted_member_has_no_name_and_belongs_to_no_node() -> None:
    """K3s binds it to the first Node without an annotation (spec/k3s-etcd.md 2, quirk c)."""
    unstarted = Member(7, "", (), is_learner=True)
    seen = Seen((member(1), unstarted), {1: answer(1)}, {"server-1": "m-1", "fresh": ""})
    assert standing(seen, "fresh") == NOT_A_MEMBER


def test_a_member_without_client_urls_is_unhealthy_with_k3s_text() -> None:
    seen = Seen((*THREE[:2], member(3, urls=())), {1: answer(1), 2: answer(2)}, NODES)
    assert standing(seen, "server-3") == UNSTARTED


def test_the_first_silence_keeps_the_standing_and_the_second_is_unhealthy_with_the_probes_text() -> None:
    seen = Seen(THREE, {**WELL, 3: SILENT}, NODES)
    first = judge(seen, frozenset(), {"server-3": VOTER})
    assert first.standings["server-3"] == VOTER
    assert first.silent == {3}
    second = judge(seen, first.silent, first.standings)
    assert second.standings["server-3"] == Standing("False", "Unhealthy", SILENT.trouble)


def test_a_silence_of_a_member_never_seen_before_is_unhealthy_at_once() -> None:
    assert standing(Seen(THREE, {**WELL, 3: SILENT}, NODES), "server-3").reason == "Unhealthy"


def test_a_silent_voter_makes_the_other_two_critical() -> None:
    verdict = judge(Seen(THREE, {**WELL, 3: SILENT}, NODES), frozenset({3}), {})
    assert verdict.critical_nodes == ("server-1", "server-2")
    assert verdict.reason == "2 of 3 voters answer, 2 are needed: losing another one would lose the quorum"


def test_a_single_voter_is_critical() -> None:
    assert judge(Seen((member(1),), {1: answer(1)}, NODES), frozenset(), {}).critical_nodes == ("server-1",)


@pytest.mark.parametrize(
    ("probes", "leads"),
    [
        pytest.param(WELL, 1, id="all agree"),
        pytest.param({**WELL, 3: SILENT}, 1, id="two of three agree"),
        pytest.param({1: answer(1), 2: SILENT, 3: SILENT}, 0, id="one of three is no majority"),
        pytest.param({n: answer(n, leads=0) for n in (1, 2, 3)}, 0, id="nobody leads"),
        pytest.param({1: answer(1), 2: answer(2, leads=2, term=3), 3: answer(3, leads=2, term=3)}, 2,
                     id="an ex-leader still names itself at a lower term"),
        pytest.param({1: answer(1, term=3), 2: answer(2, leads=2), 3: answer(3, leads=2)}, 0,
                     id="only one has seen the newest term"),
        pytest.param({n: answer(n, leads=99) for n in (1, 2, 3)}, 0, id="a leader that is no member"),
    ],
)  # fmt: skip
def test_the_leader_is_whom_a_majority_of_voters_names_at_the_highest_term(
    probes: dict[int, Probe], leads: int
) -> None:
    seen = Seen(THREE, probes, NODES)
    assert leader(seen) == leads
    assert (standing(seen, "server-1") == LEADER_MISSING) == (leads == 0)


def test_a_learners_word_about_the_leader_counts_for_nothing() -> None:
    members = (member(1), member(2), member(3, learner=True))
    probes = {1: answer(1), 2: SILENT, 3: answer(3, learner=True)}
    assert leader(Seen(members, probes, NODES)) == 0


def test_another_members_voice_at_an_address_is_no_answer() -> None:
    """The defect of K3s' probe since 2024: it always asked the local member (spec/k3s-etcd.md 5)."""
    seen = Seen(THREE, {**WELL, 3: answer(1)}, NODES)
    found = standing(seen, "server-3", frozenset({3}))
    assert found == Standing("False", "Unhealthy", "another member (1) answers at https://x:2379")


def test_list_and_member_that_disagree_are_unknown() -> None:
    seen = Seen(THREE, {**WELL, 3: answer(3, learner=True)}, NODES)
    assert standing(seen, "server-3") == Standing(
        "Unknown", "MembershipMismatch", "the list says voter, the member itself says learner"
    )


@pytest.mark.parametrize("space", [" ", ""])
def test_an_alarm_belongs_to_the_member_that_it_names(space: str) -> None:
    alarm = (f"memberID:3 alarm:NOSPACE{space}",)
    seen = Seen(THREE, {number: answer(number, errors=alarm) for number in (1, 2, 3)}, NODES)
    assert standing(seen, "server-1") == VOTER
    assert standing(seen, "server-3") == Standing("False", "Unhealthy", "etcd member has status errors: alarm NOSPACE")


@st.composite
def passes(draw: st.DrawFn) -> Seen:
    numbers = range(1, draw(st.integers(1, 6)) + 1)
    members = tuple(
        Member(
            n,
            draw(st.sampled_from(["", f"m-{n}", "m-1"])),
            draw(st.sampled_from([(), ("https://x:1",)])),
            draw(st.booleans()),
        )
        for n in numbers
    )
    probes = {
        one.id: draw(st.one_of(st.just(SILENT), st.builds(
            Probe, member_id=st.sampled_from([one.id, 1]), leader=st.integers(0, 4), term=st.integers(1, 3),
            is_learner=st.booleans(), errors=st.sampled_from([(), ("no leader",), ("memberID:1 alarm:CORRUPT ",)]),
        )))
        for one in members if one.client_urls
    }  # fmt: skip
    return Seen(
        members,
        probes,
        draw(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "m-1", "m-2", "m-3"]))),
    )


@given(passes(), st.frozensets(st.integers(1, 6)))
def test_laws(seen: Seen, silent: frozenset[int]) -> None:
    verdict = judge(seen, silent, {})
    assert verdict.standings.keys() == seen.nodes.keys()
    leads = leader(seen)
    for node, found in verdict.standings.items():
        assert (found.reason == "LeaderMissing") == (leads == 0)
        if found.status == "True":
            member_ = next(one for one in reversed(seen.members) if one.name == seen.nodes[node])
            assert member_.id not in verdict.silent
            assert not member_.is_learner
    voters = [one for one in seen.members if not one.is_learner]
    alive = [one for one in voters if one.id not in verdict.silent]
    if leads and len(alive) > len(voters) // 2 + 1:
        assert verdict.critical_nodes == ()
    assert judge(seen, silent, {}) == verdict
