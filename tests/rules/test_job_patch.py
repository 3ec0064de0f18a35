"""Status patches, applied as a kube-apiserver applies them, make what was planned; and they are small."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from beehive.api.meta import Condition
from beehive.api.nodeupgradejob import JobStatus, NodeEntry
from beehive.messages.objects import PatchOperation
from modules.demo.apiserver.patch_json import apply
from modules.taskmanager.patch import status_patch
from tests.fakes.jobs import an_entry, result


def applied(before: JobStatus, operations: tuple[PatchOperation, ...]) -> JobStatus:
    whole: dict[str, Any] = {"spec": {}}
    if before.phase:
        whole["status"] = msgspec.json.decode(msgspec.json.encode(before))
    steps = msgspec.json.decode(msgspec.json.encode(operations))
    return msgspec.convert(apply(whole, steps).get("status", {"phase": ""}), JobStatus)


def status(*entries: NodeEntry, **more: Any) -> JobStatus:
    return JobStatus(phase=more.pop("phase", "InProgress"), node_status=entries, **more)


def many(count: int, **changed: NodeEntry) -> tuple[NodeEntry, ...]:
    return tuple(changed.get(f"n{number}", an_entry(f"n{number}", "Pending")) for number in range(count))


def test_first_status_is_added_whole_with_what_is_always_shown() -> None:
    (one,) = status_patch(JobStatus(phase=""), status(an_entry("a", "Pending"), phase="Init"))
    assert (one.op, one.path) == ("add", "/status")
    assert one.value["nodeStatus"][0]["revision"] == 0
    assert one.value["nodeStatus"][0]["attempt"] == 1


def test_nothing_changed_is_no_patch() -> None:
    one = status(*many(3))
    assert status_patch(one, msgspec.structs.replace(one, node_status=many(3))) == ()


def test_few_entries_are_replaced_one_by_one() -> None:
    after = status(*many(100, n7=an_entry("n7"), n9=an_entry("n9")))
    operations = status_patch(status(*many(100)), after)
    assert [(one.op, one.path) for one in operations] == [
        ("replace", "/status/nodeStatus/7"),
        ("replace", "/status/nodeStatus/9"),
    ]


def test_bulk_is_one_replace_of_the_list() -> None:
    after = tuple(an_entry(f"n{number}") for number in range(100))
    operations = status_patch(status(*many(100)), status(*after))
    assert [one.path for one in operations] == ["/status/nodeStatus"]


def test_patch_never_has_more_operations_than_the_api_server_takes() -> None:
    names = {f"n{number}": an_entry(f"n{number}") for number in range(0, 5000, 4)}
    operations = status_patch(status(*many(5000)), status(*many(5000, **names)))
    assert len(operations) < 10_000


def test_counter_that_falls_to_zero_and_time_that_is_taken_back() -> None:
    before = status(*many(1), pending=3, completion_time="2026-01-01T00:00:00Z", reason="Aborted", waiting="x")
    after = status(*many(1))
    assert applied(before, status_patch(before, after)) == after


entries = st.builds(
    an_entry,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["Pending", "InProgress", "Failure"]),
    reason=st.text(max_size=5),
    revision=st.integers(0, 3),
    action_flow=st.sampled_from([None, (result("Check"),)]),
)
statuses = st.builds(
    lambda phase, rows, pending, end, said: JobStatus(
        phase=phase,
        node_status=tuple(rows),
        pending=pending,
        completion_time=end,
        conditions=said,
        waiting="x" * pending,
    ),
    st.sampled_from(["Init", "InProgress", "Failure"]),
    st.lists(entries, max_size=5),
    st.integers(0, 3),
    st.sampled_from([None, "2026-01-01T00:00:00Z"]),
    st.sampled_from([None, (Condition(type="Complete", status="True", reason="R"),)]),
)


@given(before=st.one_of(st.just(JobStatus(phase="")), statuses), after=statuses)
def test_patch_makes_what_was_planned(before: JobStatus, after: JobStatus) -> None:
    found = applied(before, status_patch(before, after))
    assert found == after or msgspec.structs.replace(found, node_status=found.node_status or ()) == after
