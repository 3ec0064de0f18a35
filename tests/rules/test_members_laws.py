"""Laws of `judge`, under whatever a cluster may show, pass after pass."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from modules.etcdmanager.members import Memory, Verdict
from modules.etcdmanager.orders import Evict, MoveLeader, Promote, Remove
from modules.etcdmanager.report import Remarks, report, volatile
from modules.etcdmanager.sight import ANSWERED, BUSY, Member, Probe, Progress, Seen, facts, majority, state_of
from tests.rules.members import DEAD, HUNG, NOW, answer, judged

EXAMPLES = settings(max_examples=150, deadline=None)
BUSY_PROBE = Probe(trouble="busy", state=BUSY)

FAULTS = (
    "dead", "hung", "busy", "alien", "unstarted", "disagrees", "no leader", "ex-leader", "lags", "alarm", "corrupt",
    "nameless", "namesake", "no node", "node of nothing", "two nodes", "wish", "wish", "snapshot", "told", "unfenced",
)  # fmt: skip


@st.composite
def looks(draw: st.DrawFn) -> Seen:
    """A healthy cluster of up to five voters and two learners, and up to four things that are wrong with it."""
    voters = draw(st.integers(1, 5))
    numbers = range(1, voters + draw(st.integers(0, 2)) + 1)
    members = {n: Member(n, f"m-{n}", ("https://x:1",), n > voters) for n in numbers}
    probes = {n: answer(n, learner=n > voters) for n in numbers}
    nodes = {f"s-{n}": f"m-{n}" for n in numbers}
    more: dict[str, Any] = {"fenced": True, "wishes": frozenset()}
    wrong = st.tuples(st.sampled_from(FAULTS), st.sampled_from(numbers))
    for fault, number in draw(st.lists(wrong, max_size=4)):
        spoil(fault, members[number], members, probes, nodes, more)
    kept = {one.id: probes[one.id] for one in members.values() if one.client_urls}
    return Seen(tuple(members.values()), kept, nodes, **more)


def spoil(
    fault: str, one: Member, members: dict[int, Member], probes: dict[int, Probe], nodes: dict[str, str],
    more: dict[str, Any],
) -> None:  # fmt: skip
    number, probe = one.id, probes[one.id]
    changed = {
        "dead": DEAD, "hung": HUNG, "busy": BUSY_PROBE, "alien": answer(99), "lags": replace(probe, applied=-5_000),
        "disagrees": replace(probe, is_learner=not probe.is_learner), "no leader": replace(probe, leader=0),
        "ex-leader": replace(probe, leader=number, term=1), "corrupt": replace(probe, errors=("alarm:CORRUPT ",)),
        "alarm": replace(probe, errors=(f"memberID:{number} alarm:NOSPACE ",)),
    }  # fmt: skip
    renamed = {
        "nameless": replace(one, name=""), "namesake": replace(one, name="m-1"),
        "unstarted": replace(one, name="", client_urls=()),
    }  # fmt: skip
    probes[number] = changed.get(fault, probe)
    members[number] = renamed.get(fault, one)
    if fault == "no node":
        nodes.pop(f"s-{number}", None)
    elif fault in ("node of nothing", "two nodes"):
        nodes["more"] = "" if fault == "node of nothing" else f"m-{number}"
    elif fault == "wish":
        more["wishes"] |= {f"s-{number}"}
    elif fault in ("snapshot", "told"):
        in_flight = frozenset({number}) if fault == "snapshot" else frozenset()
        more["progress"] = Progress(dict.fromkeys(members, 100), in_flight)
    elif fault == "unfenced":
        more["fenced"] = False


def passes(draws: list[tuple[Seen, float]], leaving: frozenset[int]) -> list[tuple[Seen, Verdict]]:
    memory, now, found = Memory(leaving=leaving), NOW, []
    for look, pause in draws:
        now += pause
        verdict = judged(look, memory, now)
        assert judged(look, memory, now) == verdict
        found.append((look, verdict))
        memory = verdict.memory
    return found


several = st.lists(st.tuples(looks(), st.sampled_from([15.0, 15.0, 301.0, -60.0])), min_size=1, max_size=3)


def check_every_node_has_one_standing_and_unknown_means_no_order(found: list[tuple[Seen, Verdict]]) -> None:
    for look, verdict in found:
        assert verdict.standings.keys() == look.nodes.keys()
        leads = facts(look).leader
        for one in verdict.standings.values():
            assert (one.reason == "LeaderMissing") == (leads == 0)
            assert (one.status == "True") == (one.reason == "MemberNotLearner")
        if not leads:
            assert verdict.order is None
            assert not verdict.wishes.fulfilled


def check_nobody_is_called_a_voter_who_is_not_one(found: list[tuple[Seen, Verdict]]) -> None:
    """True only for a voter of the list that answers, is busy, or was silent for the first time in a row."""
    before: frozenset[int] = frozenset()
    for look, verdict in found:
        if verdict.rebuilt:
            before = frozenset()
        for node, standing in verdict.standings.items():
            if standing.status == "True":
                (member,) = (one for one in look.members if one.name == look.nodes[node])
                silent = state_of(member, look) not in (ANSWERED, BUSY)
                assert not (silent and member.id in before)
                assert silent or not member.is_learner
        before = frozenset(verdict.memory.silent)


def check_orders_keep_a_live_majority(found: list[tuple[Seen, Verdict]]) -> None:
    for look, verdict in found:
        order = verdict.order
        if order is None:
            continue
        known = facts(look)
        assert not verdict.memory.leaving
        assert known.living_voters >= known.needed
        member = next(one for one in look.members if one.id == order.id)
        if isinstance(order, Promote):
            assert member.is_learner
            assert state_of(member, look) == ANSWERED
            assert known.living_voters + 1 >= majority(len(known.voters) + 1)
        elif isinstance(order, Evict):
            assert member.is_learner
        elif isinstance(order, Remove):
            rest = [one for one in known.voters if one.id != member.id]
            assert order.id != known.leader
            assert rest
            assert sum(one.id in known.alive for one in rest) >= majority(len(rest))
        else:
            assert isinstance(order, MoveLeader)
            assert state_of(member, look) == ANSWERED
            assert not member.is_learner


def check_whose_loss_would_break_the_quorum_is_critical(found: list[tuple[Seen, Verdict]]) -> None:
    for look, verdict in found:
        known = facts(look)
        for node, name in look.nodes.items():
            own = {one.id for one in known.voters if one.name == name and name and one.id in known.alive}
            breaks = known.has_quorum and bool(own) and known.living_voters - 1 < known.needed
            assert not breaks or node in verdict.quorum.critical


CHECKS = (
    check_every_node_has_one_standing_and_unknown_means_no_order,
    check_nobody_is_called_a_voter_who_is_not_one,
    check_orders_keep_a_live_majority,
    check_whose_loss_would_break_the_quorum_is_critical,
)


@EXAMPLES
@given(several, st.frozensets(st.integers(1, 6), max_size=1))
def test_all_laws_hold_pass_after_pass(draws: list[tuple[Seen, float]], leaving: frozenset[int]) -> None:
    found = passes(draws, leaving)
    for check in CHECKS:
        check(found)


@EXAMPLES
@given(looks())
def test_a_cluster_that_stands_still_is_judged_the_same_and_can_be_reported(look: Seen) -> None:
    first = judged(look)
    second = judged(look, first.memory, NOW + 15)
    third = judged(look, second.memory, NOW + 30)
    assert second.standings == third.standings
    verdict = first
    told = report(look, verdict, Remarks(NOW, "me"))
    assert {one.node for one in told.members} - {"-"} >= {node for node, name in look.nodes.items() if not name}
    assert sum(bool(one.id) for one in told.members) == len(look.members)
    assert not told.healthy or verdict.facts.has_quorum
    assert volatile(told) == volatile(report(look, verdict, Remarks(NOW + 60, "me")))
