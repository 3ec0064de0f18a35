"""What a job may not be at its creation, how it may change, and how large it may grow."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.api.changes import change_problems, creation_problems
from beehive.api.nodeupgradejob import NodeEntry, NodeUpgradeJobSpec
from beehive.api.size import LARGEST_OBJECT, RESERVE, fits
from beehive.api.validate import problems

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def spec(**fields: Any) -> NodeUpgradeJobSpec:
    """A good job's spec, but for `fields` (JSON names; None takes one away)."""
    whole = {"version": "v1.23.1", "nodeNames": ["edge-a"], **fields}
    return msgspec.convert({k: v for k, v in whole.items() if v is not None}, NodeUpgradeJobSpec)


def test_a_new_job_was_not_tried_before() -> None:
    assert creation_problems(spec()) == []
    assert creation_problems(spec(retry=3)) == ["spec.retry: a new job has not been tried; leave it out instead of 3"]


CHANGES: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({}, {}, []),
    ({}, {"suspend": True, "abort": True}, []),
    ({"suspend": True}, {"suspend": False, "retry": 1}, []),
    ({"retry": 1}, {"retry": 7}, []),
    ({}, {"version": "v1.23.2"}, ["spec fields are not allowed to update once it's created: version"]),
    ({}, {"nodeNames": ["b"], "concurrency": 2},
     ["spec fields are not allowed to update once it's created: nodeNames, concurrency"]),
    ({"imageDigestGatter": {"amd64": A}}, {"imageDigestGatter": {"amd64": B}},
     ["spec fields are not allowed to update once it's created: imageDigestGatter"]),
    ({}, {"imageDigestGatter": {}}, []),
    ({}, {"checkItems": []}, []),
    ({"abort": True}, {"abort": False}, ["spec.abort: an abort cannot be taken back; make a new job"]),
    ({"retry": 2}, {"retry": 1}, ["spec.retry: it may only grow; it is 2"]),
    ({"abort": True}, {"abort": True, "retry": 1}, ["spec.retry: an aborted job is not tried again; make a new job"]),
    ({}, {"retry": 2**31}, [f"spec.retry: {2**31} is out of range; give 0 to {2**31 - 1}"]),
    ({"version": "bad", "concurrency": -3}, {"version": "bad", "concurrency": -3, "suspend": True}, []),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), CHANGES, ids=str)
def test_what_may_change(old: dict[str, Any], new: dict[str, Any], said: list[str]) -> None:
    assert change_problems(spec(**old), spec(**new)) == said


def test_five_thousand_nodes_with_usual_names_fit_and_with_long_ones_do_not() -> None:
    assert problems(spec(nodeNames=[f"edge-{i:05}" for i in range(5000)])) == []
    (said,) = problems(spec(nodeNames=[f"{i:05}-{'x' * 80}" for i in range(5000)]))
    assert said == (
        "spec.nodeNames: the status of 5000 nodes with names of up to 86 characters would not fit into one object; "
        "make several jobs"
    )


@given(st.integers(1, 5000), st.integers(1, 253), st.integers(200, 400_000))
def test_what_fits_really_fits(count: int, longest: int, beside: int) -> None:
    names = tuple("x" * longest for _ in range(count))
    if fits(beside, names):
        entry = NodeEntry(
            node_name=names[0], phase="InProgress", reason_code="ConfirmationExpired", attempt=999, revision=999,
            since="2026-11-29T20:31:07Z",
        )  # fmt: skip
        whole = beside + count * (len(msgspec.json.encode(entry)) + 1)
        assert whole <= LARGEST_OBJECT
        assert whole + RESERVE - count <= LARGEST_OBJECT
