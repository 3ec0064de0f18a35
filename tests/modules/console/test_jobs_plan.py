"""`beehive job plan` says what the controller's own rules would do, without doing it."""

from typing import Any

import pytest

from beehive.api.nodeupgradejob import ImageDigests, LabelSelector, NodeUpgradeJob, RegistryAPI
from modules.console.jobs_plan import Preview, lines, plain, preview
from modules.taskmanager.job import Fleet, News, plan
from tests.fakes.jobs import NEW, START, a_job, a_node, an_entry, phases, with_status
from tests.modules.console.test_jobs_words import seen


def planned(job: NodeUpgradeJob, *others: NodeUpgradeJob, **nodes: Any) -> Preview:
    known = {name: a_node(name, **values) for name, values in nodes.items()}
    return preview(job, others, known, START)


def test_the_mock_up() -> None:
    fleet: dict[str, Any] = {f"edge{number}": {} for number in range(1, 9)}
    fleet |= {"edge9": {"version": NEW}, "edge99": {"ready": False}}
    job = a_job(*fleet, concurrency=2, failure_tolerate="0.1", on_offline="Wait")
    assert lines(planned(job, **fleet)) == [
        "Would upgrade 8 of 10 nodes selected to v1.23.0, 2 at a time.",
        "Tolerates 1 failure, stops at the second.",
        "      8  will be upgraded   edge1, edge2, edge3 and 5 more",
        "      1  will wait          edge99: NotReady (onOffline: Wait)",
        "      1  skipped            edge9: already at v1.23.0",
        "Nodes that wait have no end of their own: the job stays open until they come, or it is aborted.",
    ]


def test_a_name_without_a_node_fails_and_can_spend_the_budget_at_once() -> None:
    told = planned(a_job("a", "gone"), a={})
    assert (told.upgraded, told.selected) == (0, 2)
    assert {(group.phase, group.nodes) for group in told.groups} == {("Failure", ("gone",)), ("Skipped", ("a",))}
    assert any("too many nodes of this job failed" in line for line in lines(told))


def test_a_node_that_another_job_has_or_wants_waits_for_it() -> None:
    other = seen(an_entry("a", "InProgress"), an_entry("b", "Pending"), begun=START - 60)
    told = planned(a_job("a", "b", "c", name="south"), other, a={}, b={}, c={})
    assert told.upgraded == 1
    assert [(group.phase, group.why, group.nodes) for group in told.groups] == [
        ("InProgress", "", ("c",)),
        ("Pending", "job north comes first", ("a", "b")),
    ]


def test_a_job_that_has_ended_is_in_nobodys_way() -> None:
    other = seen(an_entry("a", "Failure"), phase="Failure", begun=START - 60)
    assert planned(a_job("a", name="south"), other, a={}).upgraded == 1


def test_nothing_selected_is_said() -> None:
    assert lines(planned(a_job(label_selector=LabelSelector())))[0].startswith(
        "Would upgrade nothing: no node is selected."
    )


def test_a_job_whose_digests_a_registry_tells_is_planned_as_if_it_had_answered() -> None:
    pins = ImageDigests(registry_api=RegistryAPI(host="r.io", token="t"))
    assert planned(a_job("a", image_digest_gatter=pins), a={}).upgraded == 1


def test_a_suspended_job_is_planned_as_if_it_ran() -> None:
    assert planned(a_job("a", suspend=True), a={}).upgraded == 1


def test_for_programs_every_node_is_named() -> None:
    fleet: dict[str, Any] = {f"n{number}": {} for number in range(40)}
    told = plain(planned(a_job(*fleet), **fleet))
    assert told["groups"] == [{"outcome": "will be upgraded", "reason": "", "nodes": list(fleet)}]


@pytest.mark.parametrize("on_offline", ["Skip", "Fail"])
def test_it_agrees_with_what_the_controller_then_does(on_offline: str) -> None:
    """The same rules with unlimited slots: each node of the preview is in the phase that the real plan gives it."""
    fleet: dict[str, Any] = {"a": {}, "b": {"version": NEW}, "c": {"ready": False}, "d": {"edge": False}, "e": {}}
    job = a_job(*fleet, on_offline=on_offline, failure_tolerate="1", concurrency=9)
    nodes = {name: a_node(name, **values) for name, values in fleet.items()}
    real = job
    for _ in range(2):
        status = plan({"u": real}, nodes, Fleet(dict.fromkeys(nodes, False), open_since=1.0), News(), START).statuses
        real = with_status(real, status[real.metadata.uid])
    told = {name: group.phase for group in preview(job, [], nodes, START).groups for name in group.nodes}
    assert told == {name: phase.partition("/")[0] for name, phase in phases(real.status).items()}
