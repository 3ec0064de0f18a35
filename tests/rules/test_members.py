"""Standings of etcd members: the table."""

import pytest

from modules.etcdmanager.members import (
    LEADER_MISSING,
    LEARNER,
    NOT_A_MEMBER,
    UNSTARTED,
    VOTER,
    Memory,
    Silence,
    Standing,
    recall,
)
from modules.etcdmanager.sight import BUSY, Member, Probe, Progress, Seen, leader
from tests.rules.members import DEAD, HUNG, NODES, NOW, THREE, URL, WELL, answer, judged, member, seen


def standing(look: Seen, node: str, memory: Memory | None = None) -> Standing:
    return judged(look, memory).standings[node]


def test_three_voters_that_answer_are_voters_and_any_one_of_them_may_go() -> None:
    verdict = judged(seen())
    assert verdict.standings == {"server-1": VOTER, "server-2": VOTER, "server-3": VOTER}
    assert verdict.quorum.critical == ()
    assert verdict.quorum.reason == "3 of 3 voters answer, 2 are needed"
    assert verdict.order is None


def test_a_learner_is_no_voter() -> None:
    look = seen((member(1), member(2, learner=True)), {1: answer(1), 2: answer(2, learner=True)})
    assert standing(look, "server-2") == LEARNER


def test_a_node_without_a_member_or_without_a_name_is_not_a_member() -> None:
    look = seen((member(1),), {1: answer(1)}, {"server-1": "m-1", "server-9": "m-9", "server-8": ""})
    assert standing(look, "server-9") == NOT_A_MEMBER
    assert standing(look, "server-8") == NOT_A_MEMBER


def test_an_unstarted_member_has_no_name_and_belongs_to_no_node() -> None:
    """K3s binds it to the first Node without an annotation (spec/k3s-etcd.md 2, quirk c)."""
    look = seen(
        (member(1), member(7, name="", urls=(), learner=True)), {1: answer(1)}, {"server-1": "m-1", "fresh": ""}
    )
    assert standing(look, "fresh") == NOT_A_MEMBER


def test_a_member_without_client_urls_is_unhealthy_with_k3s_text() -> None:
    assert standing(seen((*THREE[:2], member(3, urls=())), {1: answer(1), 2: answer(2)}), "server-3") == UNSTARTED


def test_the_first_silence_keeps_the_standing_and_the_second_is_unhealthy_with_the_probes_text() -> None:
    look = seen(probes={**WELL, 3: DEAD})
    first = judged(look, Memory(standings={"server-3": VOTER}, last_seen={3: NOW - 15}))
    assert first.standings["server-3"] == VOTER
    assert first.memory.silent == {3: Silence(1, NOW - 15)}
    second = judged(look, first.memory)
    assert second.standings["server-3"] == Standing("False", "Unhealthy", DEAD.trouble)
    assert second.memory.silent == {3: Silence(2, NOW - 15)}
    assert judged(seen(), second.memory).memory.silent == {}


def test_a_silence_of_a_member_never_seen_before_is_unhealthy_at_once() -> None:
    assert standing(seen(probes={**WELL, 3: DEAD}), "server-3").reason == "Unhealthy"


def test_a_new_process_keeps_what_its_predecessor_wrote_through_the_first_silence() -> None:
    memory = recall(Memory(), {"server-3": VOTER})
    assert standing(seen(probes={**WELL, 3: DEAD}), "server-3", memory) == VOTER


def test_a_busy_voter_stays_a_voter_and_says_so() -> None:
    busy = Probe(trouble="it is busy", state=BUSY)
    memory = Memory(silent={3: Silence(4)})
    found = standing(seen(probes={**WELL, 3: busy}), "server-3", memory)
    assert found == Standing("True", VOTER.reason, f"{VOTER.message}; it is busy")


def test_a_member_that_starts_stays_a_learner_but_is_no_healthy_voter() -> None:
    look = seen((*THREE[:2], member(3, learner=True)), {**WELL, 3: HUNG})
    memory = Memory(silent={3: Silence(4)})
    assert standing(look, "server-3", memory) == Standing(
        "False", LEARNER.reason, f"{LEARNER.message}; {HUNG.trouble}"
    )  # fmt: skip
    assert standing(seen(probes={**WELL, 3: HUNG}), "server-3", memory) == Standing("False", "Unhealthy", HUNG.trouble)


def test_the_leaders_word_on_a_snapshot_counts_before_a_closed_port() -> None:
    look = seen(
        (*THREE[:2], member(3, learner=True)), {**WELL, 3: DEAD}, progress=Progress({1: 9, 3: 0}, frozenset({3}))
    )
    message = f"{LEARNER.message}; {DEAD.trouble}; a snapshot is on its way to it"
    assert standing(look, "server-3") == Standing("False", LEARNER.reason, message)


@pytest.mark.parametrize(
    ("probes", "leads"),
    [
        pytest.param(WELL, 1, id="all agree"),
        pytest.param({**WELL, 3: DEAD}, 1, id="two of three agree"),
        pytest.param({1: answer(1), 2: DEAD, 3: DEAD}, 0, id="one of three is no majority"),
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
    look = seen(probes=probes)
    assert leader(look) == leads
    assert (standing(look, "server-1") == LEADER_MISSING) == (leads == 0)


def test_a_learners_word_about_the_leader_counts_for_nothing() -> None:
    members = (member(1), member(2), member(3, learner=True))
    assert leader(seen(members, {1: answer(1), 2: DEAD, 3: answer(3, learner=True)})) == 0


def test_another_members_voice_at_an_address_is_no_answer() -> None:
    """The defect of K3s' probe since 2024: it always asked the local member (spec/k3s-etcd.md 5)."""
    found = standing(seen(probes={**WELL, 3: answer(1)}), "server-3", Memory(silent={3: Silence(1)}))
    assert found == Standing("False", "Unhealthy", "another member (1) answers at https://x:2379")


def test_a_member_of_another_cluster_at_an_address_is_no_answer() -> None:
    stranger = Probe(member_id=3, cluster_id=0xAB, leader=1, term=2)
    look = seen(probes={**WELL, 3: stranger}, cluster_id=0xCD)
    assert standing(look, "server-3").message == "a member of another cluster (ab) answers at https://x:2379"


def test_list_and_member_that_disagree_are_unknown() -> None:
    look = seen(probes={**WELL, 3: answer(3, learner=True)})
    assert standing(look, "server-3") == Standing(
        "Unknown", "MembershipMismatch", "the list says voter, the member itself says learner"
    )


def test_two_members_of_one_name_are_unknown() -> None:
    look = seen((*THREE, member(4, name="m-3")), {**WELL, 4: answer(4)})
    assert standing(look, "server-3") == Standing("Unknown", "MembershipMismatch", "2 members are named m-3")
    assert standing(look, "server-1") == VOTER


def test_two_nodes_that_claim_one_member_are_both_unknown() -> None:
    """K3s believes the first and calls the second no member (spec/k3s-etcd.md 2)."""
    found = judged(seen(nodes={**NODES, "copy": "m-3"})).standings
    assert found["copy"] == found["server-3"]
    assert found["copy"].message == "copy and server-3 both claim the member m-3"
    assert found["server-1"] == VOTER


@pytest.mark.parametrize("space", [" ", ""])
def test_an_alarm_belongs_to_the_member_that_it_names(space: str) -> None:
    alarm = (f"memberID:3 alarm:NOSPACE{space}",)
    look = seen(probes={number: answer(number, errors=alarm) for number in (1, 2, 3)})
    assert standing(look, "server-1") == VOTER
    assert standing(look, "server-3") == Standing("False", "Unhealthy", "etcd member has status errors: alarm NOSPACE")


def test_an_alarm_that_names_nobody_spoils_nobodys_standing() -> None:
    """etcd 3.4 does not say whose data is corrupt (spec/k3s-etcd.md 12b.5)."""
    look = seen(probes={number: answer(number, errors=("alarm:CORRUPT ",)) for number in (1, 2, 3)})
    assert set(judged(look).standings.values()) == {VOTER}


def test_a_term_that_falls_means_another_cluster_and_old_memories_are_dropped() -> None:
    memory = Memory(term=9, silent={3: Silence(7)}, standings={"server-3": VOTER})
    verdict = judged(seen(probes={**WELL, 3: DEAD}), memory)
    assert verdict.rebuilt
    assert verdict.memory.silent == {3: Silence(1)}
    assert not judged(seen(), Memory(term=2)).rebuilt


def test_all_client_urls_of_a_member_are_its_own() -> None:
    both = Member(3, "m-3", (*URL, "https://[::1]:2379"))
    assert standing(seen((*THREE[:2], both)), "server-3") == VOTER
