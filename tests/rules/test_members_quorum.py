"""May a member be added, may a node go down: the verdict and its words."""

import pytest

from modules.etcdmanager.members import Memory, Silence
from modules.etcdmanager.quorum import ghosts
from modules.etcdmanager.sight import Alarm, Seen, alarms, majority
from tests.rules.members import DEAD, HUNG, NODES, THREE, WELL, answer, judged, member, seen

FIVE = tuple(member(number) for number in range(1, 6))
WELL_FIVE = {number: answer(number) for number in range(1, 6)}
NODES_FIVE = {f"server-{number}": f"m-{number}" for number in range(1, 6)}


@pytest.mark.parametrize(("voters", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_majority(voters: int, needed: int) -> None:
    assert majority(voters) == needed


@pytest.mark.parametrize(
    ("look", "critical"),
    [
        pytest.param(seen(), (), id="three of three"),
        pytest.param(seen(probes={**WELL, 3: DEAD}), ("server-1", "server-2"), id="two of three"),
        pytest.param(seen(probes={**WELL, 3: HUNG}), ("server-1", "server-2"), id="a hung one counts as dead"),
        pytest.param(seen(THREE[:1], {1: answer(1)}), ("server-1",), id="a single voter"),
        pytest.param(seen(THREE[:2], {1: answer(1), 2: answer(2)}), ("server-1", "server-2"), id="two of two"),
        pytest.param(seen(FIVE, {**WELL_FIVE, 5: DEAD}, NODES_FIVE), (), id="four of five"),
        pytest.param(seen(FIVE, {**WELL_FIVE, 4: DEAD, 5: DEAD}, NODES_FIVE),
                     ("server-1", "server-2", "server-3"), id="three of five"),
        pytest.param(seen(probes={1: answer(1), 2: DEAD, 3: DEAD}), ("server-1", "server-2", "server-3"),
                     id="no quorum: nobody may touch anything"),
        pytest.param(seen((*THREE, member(4, learner=True)), {**WELL, 3: DEAD, 4: answer(4, learner=True)},
                          {**NODES, "server-4": "m-4"}), ("server-1", "server-2"), id="a learner may go"),
    ],
)  # fmt: skip
def test_critical_nodes(look: Seen, critical: tuple[str, ...]) -> None:
    assert judged(look).quorum.critical == critical


def test_the_sentence_names_the_silent_ones() -> None:
    assert judged(seen(probes={**WELL, 3: DEAD})).quorum.reason == (
        "2 of 3 voters answer, 2 are needed (silent: m-3): losing another one would lose the quorum"
    )
    assert judged(seen(probes={1: answer(1), 2: DEAD, 3: DEAD})).quorum.reason == (
        "1 of 3 voters answer, 2 are needed (silent: m-2, m-3); no majority of them names one leader"
    )


@pytest.mark.parametrize(
    ("look", "memory", "why"),
    [
        (seen(), Memory(), ""),
        (seen((*THREE, member(4, learner=True)), {**WELL, 4: answer(4, learner=True)}), Memory(),
         "m-4 is still a learner; members join one at a time"),
        (seen(probes={**WELL, 3: DEAD}), Memory(),
         "m-3 did not answer in the last two passes; mend or remove it first"),
        (seen(), Memory(silent={2: Silence(1)}), "m-2 did not answer in the last two passes; mend or remove it first"),
        (seen(FIVE, {**WELL_FIVE, 5: DEAD}, NODES_FIVE), Memory(),
         "m-5 did not answer in the last two passes; mend or remove it first"),
        (seen(probes={**WELL, 1: answer(1, errors=("memberID:3 alarm:NOSPACE ",))}), Memory(),
         "alarm NOSPACE is raised"),
        (seen(probes={n: answer(n, leads=0) for n in (1, 2, 3)}), Memory(), "the cluster has no live majority"),
    ],
)  # fmt: skip
def test_may_a_member_be_added(look: Seen, memory: Memory, why: str) -> None:
    assert judged(look, memory).quorum.why_not_add == why


def test_ghosts_are_members_that_no_node_claims() -> None:
    assert [one.name for one in ghosts(seen(nodes={"server-1": "m-1"}))] == ["m-2", "m-3"]


def test_alarms_are_told_once_and_those_of_gone_members_too() -> None:
    texts = ("memberID:3 alarm:NOSPACE ", "memberID:77 alarm:NOSPACE", "alarm:CORRUPT ", "etcdserver: no leader")
    look = seen(probes={number: answer(number, errors=texts) for number in (1, 2, 3)})
    assert alarms(look) == (Alarm("CORRUPT", 0), Alarm("NOSPACE", 3), Alarm("NOSPACE", 77))
