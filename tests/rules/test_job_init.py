"""Init: which nodes, and what can be said of each before anything begins."""

from typing import Any

import pytest

from beehive.api.meta import condition
from beehive.api.nodeupgradejob import ImageDigests, LabelSelector, NodeUpgradeJob, RegistryAPI, SelectorRequirement
from beehive.api.selection import matches
from beehive.world import rfc3339
from modules.taskmanager.job import registry_to_ask
from modules.taskmanager.orders import start_task
from tests.fakes.jobs import NEW, OLD, START, a_job, a_node, nodes, phases, with_spec
from tests.rules.planning import planned, settled, written

REGISTRY = RegistryAPI(host="registry.example.org", token="t")
WORLD = {
    "old": a_node("old"),
    "new": a_node("new", f"v1.30.7-kubeedge-{NEW}"),
    "newer": a_node("newer", "v1.99.0"),
    "vendor": a_node("vendor", f"{NEW}-acme.5"),
    "server": a_node("server", edge=False),
    "labelled": a_node("labelled", labels={"node-role.kubernetes.io/edge": "yes"}),
    "down": a_node("down", ready=False),
}


@pytest.mark.parametrize(
    ("node", "verdict"),
    [
        ("old", "Pending"),
        ("new", "Skipped/AlreadyAtVersion"),
        ("newer", "Skipped/Newer"),
        ("vendor", "Pending"),
        ("server", "Failure/NotAnEdgeNode"),
        ("labelled", "Failure/NotAnEdgeNode"),
        ("ghost", "Failure/NotFound"),
        ("down", "Pending"),
    ],
)
def test_verdict(node: str, verdict: str) -> None:
    status = planned(a_job(node), nodes=WORLD).statuses["uid-north"]
    assert status.phase == "Init"
    assert phases(status) == {node: verdict}


def test_downgrade_must_be_allowed() -> None:
    status = planned(a_job("newer", allow_downgrade=True), nodes=WORLD).statuses["uid-north"]
    assert phases(status) == {"newer": "Pending"}


def test_version_without_v_is_the_same_version() -> None:
    status = planned(a_job("new", version="1.23.0"), nodes=WORLD).statuses["uid-north"]
    assert phases(status) == {"new": "Skipped/AlreadyAtVersion"}


def test_init_is_a_write_of_its_own_with_every_verdict() -> None:
    found = planned(a_job("old", "ghost", "old", "new", "ghost", concurrency=9), nodes=WORLD)
    status = found.statuses["uid-north"]
    assert (status.phase, found.start) == ("Init", ())
    assert phases(status) == {"old": "Pending", "ghost": "Failure/NotFound", "new": "Skipped/AlreadyAtVersion"}
    assert (status.total, status.pending, status.failed, status.skipped, status.done) == (3, 1, 1, 1, "2/3")
    assert (status.start_time, status.completion_time) == (rfc3339(START), None)
    accepted = condition(status.conditions or (), "Accepted")
    assert accepted is not None
    assert (accepted.status, accepted.reason, accepted.observed_generation) == ("True", "Valid", 1)


def test_every_entry_has_what_is_always_there() -> None:
    status = planned(a_job("old", "ghost", "new", "newer", "server"), nodes=WORLD).statuses["uid-north"]
    for entry in status.node_status or ():
        assert (entry.attempt, entry.revision, entry.since) == (1, 0, rfc3339(START))
        assert entry.phase == "Pending" or (entry.reason_code and entry.reason)


def test_job_that_selects_nothing_completes_and_says_so() -> None:
    job = settled(a_job(label_selector=LabelSelector(match_labels={"no": "where"})), nodes=WORLD)
    assert (job.status.phase, job.status.reason, job.status.done) == ("Completed", "NothingSelected", "0/0")


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        ({"version": "latest"}, "version"),
        ({"concurrency": 0}, "concurrency"),
        ({"failure_tolerate": "NaN"}, "failureTolerate"),
        ({"failure_tolerate": "2"}, "failureTolerate"),
        ({"on_offline": "Explode"}, "onOffline"),
        ({"image": "registry.io/UPPER"}, "image"),
        ({"upgrade_tool": "../../bin/sh"}, "upgradeTool"),
        ({"check_items": ("cpu", "gpu")}, "checkItems"),
        ({"image_digest_gatter": ImageDigests(amd64="sha256:short")}, "imageDigestGatter"),
        ({"label_selector": LabelSelector()}, "LabelSelector"),
        ({"timeout_seconds": -1}, "timeoutSeconds"),
    ],
)
def test_invalid_job_fails_at_once_and_says_why(spec: dict[str, Any], part: str) -> None:
    job = settled(a_job("old", **spec), nodes=WORLD)
    assert (job.status.phase, job.status.reason) == ("Failure", "Invalid")
    assert not job.status.node_status
    accepted = condition(job.status.conditions or (), "Accepted")
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("False", "Invalid")
    assert part.lower() in accepted.message.lower()
    failed = condition(job.status.conditions or (), "Failed")
    assert failed is not None
    assert failed.status == "True", "kubectl wait --for=condition=Failed ends"


def test_pins_beside_a_registry_are_what_counts() -> None:
    pins = ImageDigests(amd64=f"sha256:{'a' * 64}", registry_api=REGISTRY)
    job = settled(a_job("old", image_digest_gatter=pins), nodes=WORLD)
    assert (job.status.phase, job.status.digests) == ("InProgress", None)
    assert start_task(job, (job.status.node_status or ())[0], START).spec.digests == {"amd64": f"sha256:{'a' * 64}"}


def test_job_whose_digests_a_registry_must_tell_waits_for_them() -> None:
    job = a_job("old", image_digest_gatter=ImageDigests(registry_api=REGISTRY))
    assert registry_to_ask(job) == REGISTRY
    assert planned(job, nodes=WORLD).statuses == {}, "a pin must not become no pin"
    found = {"amd64": f"sha256:{'a' * 64}", "arm/v7": f"sha256:{'a' * 64}"}
    job = settled(job, nodes=WORLD, digests={"uid-north": found})
    assert (job.status.phase, job.status.digests) == ("InProgress", found)
    assert registry_to_ask(job) is None
    order = start_task(job, (job.status.node_status or ())[0], START)
    assert order.spec.digests == found
    assert REGISTRY.host not in repr(order)
    again = settled(job, nodes=WORLD, digests={"uid-north": {"amd64": f"sha256:{'b' * 64}"}})
    assert again.status.digests == found, "what was found at the start holds for every node"


def test_job_whose_digests_cannot_be_had_fails_and_says_why() -> None:
    job = a_job("old", image_digest_gatter=ImageDigests(registry_api=REGISTRY))
    job = settled(job, nodes=WORLD, digests={"uid-north": "registry r.io has no a/b:v1.0.0"})
    assert (job.status.phase, job.status.reason, job.status.node_status) == ("Failure", "Invalid", None)
    accepted = condition(job.status.conditions or (), "Accepted")
    assert accepted is not None
    assert accepted.message == "spec.imageDigestGatter.registryAPI: registry r.io has no a/b:v1.0.0"


@pytest.mark.parametrize(
    "job",
    [
        a_job("old"),
        a_job("old", image_digest_gatter=ImageDigests()),
        a_job("old", version="latest", image_digest_gatter=ImageDigests(registry_api=REGISTRY)),
        a_job("old", image_digest_gatter=ImageDigests(registry_api=RegistryAPI(host="http://r.io", token="t"))),
    ],
)
def test_no_registry_is_asked_for_a_job_that_is_unsound_or_wants_none(job: NodeUpgradeJob) -> None:
    assert registry_to_ask(job) is None


def test_job_without_nodes_is_invalid() -> None:
    assert settled(a_job(), nodes=WORLD).status.reason == "Invalid"


def test_invalid_job_cannot_be_retried_into_life() -> None:
    job = settled(a_job("old", version="latest"), nodes=WORLD)
    again = settled(with_spec(job, retry=1), nodes=WORLD)
    assert (again.status.phase, again.status.observed_retry, again.status.node_status) == ("Failure", 1, ())


def test_selection_whose_status_cannot_fit_is_refused() -> None:
    fleet = nodes(*(f"{'x' * 230}-{number:05}" for number in range(4000)))
    job = settled(a_job(label_selector=LabelSelector()), nodes=fleet)
    accepted = condition(job.status.conditions or (), "Accepted")
    assert accepted is not None
    assert "make several jobs" in accepted.message


def test_selector_is_evaluated_once_and_in_order_of_names() -> None:
    some = {name: a_node(name, labels={"region": "north"}) for name in ("c", "a", "b")}
    job = a_job(label_selector=LabelSelector(match_labels={"region": "north"}))
    job = written(job, planned(job, nodes=some))
    more = {**some, "d": a_node("d", labels={"region": "north"}), "a": a_node("a", labels={"region": "south"})}
    after = settled(job, nodes=more)
    assert [entry.node_name for entry in after.status.node_status or ()] == ["a", "b", "c"]


REQUIREMENTS = [
    ("In", ("a", "b"), {"k": "a"}, True),
    ("In", ("a", "b"), {"k": "c"}, False),
    ("In", ("a",), {}, False),
    ("NotIn", ("a",), {"k": "b"}, True),
    ("NotIn", ("a",), {"k": "a"}, False),
    ("NotIn", ("a",), {}, True),
    ("Exists", None, {"k": ""}, True),
    ("Exists", None, {}, False),
    ("DoesNotExist", None, {}, True),
    ("DoesNotExist", None, {"k": ""}, False),
    ("Gt", ("1",), {"k": "2"}, False),
]


@pytest.mark.parametrize(("operator", "values", "labels", "holds"), REQUIREMENTS)
def test_selector(operator: str, values: tuple[str, ...] | None, labels: dict[str, str], holds: bool) -> None:
    one = SelectorRequirement(key="k", operator=operator, values=values)
    assert matches(LabelSelector(match_expressions=(one,)), labels) is holds
    assert matches(LabelSelector(match_labels={"other": "x"}, match_expressions=(one,)), labels) is False


def test_empty_selector_means_every_node() -> None:
    assert matches(LabelSelector(), {})


def test_verdict_is_made_again_just_before_the_mark() -> None:
    job = written(a_job("a", "b", "c", "d", concurrency=4, failure_tolerate="1"), planned(
        a_job("a", "b", "c", "d", concurrency=4, failure_tolerate="1"), nodes=nodes("a", "b", "c", "d")))  # fmt: skip
    later = {"a": a_node("a", NEW), "b": a_node("b", edge=False), "d": a_node("d", OLD)}
    after = settled(job, nodes=later)
    assert phases(after.status) == {
        "a": "Skipped/AlreadyAtVersion",
        "b": "Failure/NotAnEdgeNode",
        "c": "Failure/NotFound",
        "d": "InProgress",
    }
