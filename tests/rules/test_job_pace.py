"""The token bucket, the orders, and the story."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.api.nodeupgradejob import ImageDigests, JobStatus, NodeUpgradeJob, RegistryAPI
from modules.taskmanager.bucket import Bucket
from modules.taskmanager.orders import lease, start_task, task_spec
from modules.taskmanager.story import events
from tests.fakes.jobs import (
    START,
    a_job,
    a_node,
    a_report,
    an_entry,
    nodes,
    rolled_back,
    success,
    with_spec,
    with_status,
)
from tests.rules.planning import begun, planned, settled, written

# ---- the bucket --------------------------------------------------------------------------------------------------


def test_three_at_once_then_one_a_second() -> None:
    bucket = Bucket(3, 1.0, 100.0)
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert bucket.next_at(100.0) == 101.0
    assert [bucket.take(100.5), bucket.take(101.0), bucket.take(101.5), bucket.take(102.0)] == [
        False,
        True,
        False,
        True,
    ]


def test_slow_server_is_written_to_more_rarely() -> None:
    bucket = Bucket(1, 1.0, 0.0)
    assert bucket.take(0.0)
    bucket.wrote(0.5)
    assert bucket.next_at(0.0) == 5.0
    bucket.wrote(0.01)
    assert bucket.next_at(0.0) == 1.0


@given(burst=st.integers(0, 5), pauses=st.lists(st.floats(0, 10), max_size=50), took=st.floats(0, 3))
def test_never_more_than_the_burst_and_one_a_period(burst: int, pauses: list[float], took: float) -> None:
    bucket, now, taken = Bucket(burst, 1.0, 0.0), 0.0, 0
    bucket.wrote(took)
    for pause in pauses:
        now += pause
        while bucket.take(now):
            taken += 1
            assert taken < 1000
        assert bucket.next_at(now) > now
    assert taken <= max(1, burst) + now / max(1.0, 10 * took) + 0.01


# ---- orders ------------------------------------------------------------------------------------------------------


def test_node_is_told_what_it_must_know_and_no_more() -> None:
    pins = ImageDigests(
        amd64="sha256:" + "a" * 64, digests={"riscv64": "sha256:" + "b" * 64},
        registry_api=RegistryAPI(host="registry.example.com", token="s3cret"),
    )  # fmt: skip
    job = a_job("a", "other-node", version="1.23.0", image_digest_gatter=pins, check_items=("cpu",), timeout_seconds=0)
    order = start_task(job, an_entry(), START + 100)
    assert (order.spec.version, order.spec.timeout_seconds, order.lease_seconds) == ("v1.23.0", 300, 200.0)
    assert order.spec.digests == {"amd64": "sha256:" + "a" * 64, "riscv64": "sha256:" + "b" * 64}
    wire = msgspec.json.encode(order)
    assert not any(word in wire for word in (b"s3cret", b"registry.example.com", b"other-node"))


def test_no_pins_are_none() -> None:
    assert task_spec(a_job("a").spec).digests is None
    assert task_spec(a_job("a", image="").spec).image == "kubeedge/installation-package"


def test_lease_never_falls_below_nothing() -> None:
    assert lease(a_job("a"), an_entry(), START + 9999) == 0.0


# ---- the story ---------------------------------------------------------------------------------------------------


def told(before: NodeUpgradeJob | JobStatus, after: NodeUpgradeJob, count: int = 9) -> list[str]:
    former = before if isinstance(before, JobStatus) else before.status
    found = events(former, after, nodes(*(f"n{number}" for number in range(count))))
    return [f"{one.name} {one.reason}{'!' if one.warning else ''}" for one in found]


def a_run(count: int, **spec: Any) -> tuple[NodeUpgradeJob, dict[str, Any]]:
    names = [f"n{number}" for number in range(count)]
    return a_job(*names, concurrency=count, **spec), {name: a_node(name) for name in names}


def test_story_of_a_small_job() -> None:
    job, world = a_run(3, failure_tolerate="1")
    first = written(job, planned(job, nodes=world))
    assert told(JobStatus(phase=""), first) == ["north Started"]
    started = settled(first, nodes=world)
    assert told(first, started) == ["n0 UpgradeStarted", "n1 UpgradeStarted", "n2 UpgradeStarted"]
    end = settled(
        started,
        nodes=world,
        said={"n0": success(), "n1": rolled_back(), "n2": a_report(2, final=True, code="Rejected")},
    )
    assert told(started, end) == [
        "north NodesUpgraded",
        "north NodeFailed!",
        "north Completed",
        "n0 Upgraded",
        "n1 UpgradeFailed!",
        "n2 UpgradeSkipped",
    ]


def test_invalid_job_warns() -> None:
    assert told(JobStatus(phase=""), settled(a_job("n0", version="latest"), nodes=nodes("n0"))) == ["north Invalid!"]


def test_retry_is_told() -> None:
    job, world = a_run(1)
    end = settled(begun(job, world), nodes=world, said={"n0": rolled_back()})
    assert "north BudgetExceeded!" in told(begun(job, world), end)
    assert told(end, settled(with_spec(end, retry=1), nodes=world))[0] == "north Retried"


@pytest.mark.parametrize("word", [success, rolled_back])
def test_job_has_a_dozen_lines_however_many_nodes(word: Any) -> None:
    job, world = a_run(1000, failure_tolerate="1")
    job = begun(job, world)
    lines = 0
    for number in range(0, 1000, 5):
        said = {f"n{one}": word() for one in range(number, number + 5)}
        after = settled(job, nodes=world, said=said)
        found = [one for one in events(job.status, after, world) if one.kind == "NodeUpgradeJob"]
        assert all(len(one.note) <= 1000 for one in found)
        lines += len(found)
        job = after
    assert 10 <= lines <= 16


def test_same_status_tells_nothing() -> None:
    job, world = a_run(3)
    job = begun(job, world)
    assert told(job, with_status(job, job.status)) == []
