"""Warnings about new jobs: each for one thing that its author may not have meant, none for a job as it should be."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.api.meta import ObjectMeta
from beehive.api.node import Node, NodeInfo, NodeStatus
from beehive.api.nodeupgradejob import JobStatus, LabelSelector, NodeEntry, NodeUpgradeJob, NodeUpgradeJobSpec
from modules.admission.advice import LONGEST, advice
from modules.admission.known import NOTHING, Known, look
from tests.rules.test_validate import spec


def node(name: str, version: str = "v1.22.0", **labels: str) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        status=NodeStatus(node_info=NodeInfo(kubelet_version=f"v1.30.7-kubeedge-{version}")),
    )


def open_job(name: str, wanted: NodeUpgradeJobSpec, **status: Any) -> NodeUpgradeJob:
    return NodeUpgradeJob(metadata=ObjectMeta(name=name), spec=wanted, status=JobStatus(phase="", **status))


NODES = (node("edge-a", region="north"), node("edge-b", "v1.23.1"), node("edge-c", "v1.24.0"))
CLUSTER = look(NODES, ())

SAID: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"version": "1.23.1"}, ["spec.version: 1.23.1 is read as v1.23.1; write it so"]),
    *(
        ({"image": image},
         ["spec.image: its tag or digest is ignored, for the tag is made from spec.version; leave it out"])
        for image in ("a/b:v1", "r.io:5000/a/b:v1", "a/b@sha256:" + "a" * 64)
    ),
    ({"image": "r.io:5000/a/b"}, []),
    ({"timeoutSeconds": 0}, ["spec.timeoutSeconds: 0 is read as 300; leave it out"]),
    ({"nodeNames": ["edge-a"] * 3}, ["spec.nodeNames: edge-a more than once; each counts once"]),
    ({"nodeNames": ["edge-a", "ghost"]},
     ["spec.nodeNames: there is no Node ghost; the job will count them as failed"]),
    ({"nodeNames": [f"ghost-{i}" for i in range(9)]},
     ["spec.nodeNames: there is no Node ghost-0, ghost-1, ghost-2 and 6 more; the job will count them as failed"]),
    ({"nodeNames": None, "labelSelector": {"matchLabels": {"region": "south"}}},
     ["spec.labelSelector: no node has these labels now; it is looked at once, when the job starts"]),
    ({"nodeNames": None, "labelSelector": {"matchLabels": {"region": "north"}}}, []),
    ({"nodeNames": ["edge-b"]}, ["spec.version: edge-b at v1.23.1 already; skipped"]),
    ({"nodeNames": ["edge-c"]},
     ["spec.version: edge-c newer than v1.23.1; skipped, unless spec.allowDowngrade is true"]),
    ({"nodeNames": ["edge-c"], "allowDowngrade": True},
     ["spec.allowDowngrade: edge-c newer than v1.23.1; brought back to it"]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "said"), SAID, ids=str)
def test_what_is_said(fields: dict[str, Any], said: list[str]) -> None:
    assert list(advice(spec(**fields), CLUSTER)) == said


def test_without_a_look_at_the_cluster_only_spellings_are_told() -> None:
    assert advice(spec(nodeNames=["ghost"], timeoutSeconds=0), NOTHING) == (
        "spec.timeoutSeconds: 0 is read as 300; leave it out",
    )


def test_the_old_version_of_the_api_is_told() -> None:
    (said,) = advice(spec(), NOTHING, "v1alpha1")
    assert said == (
        "operations.kubeedge.io/v1alpha1 is kept for old clients and knows less; write operations.kubeedge.io/v1alpha2"
    )


# ---- other jobs ------------------------------------------------------------------------------------------------------

NORTH = LabelSelector(match_labels={"region": "north"})
_SHARED = "job north is open and means edge-a too; a node takes one upgrade at a time, this job waits"


@pytest.mark.parametrize(
    "other",
    [
        open_job("north", spec()),
        open_job("north", NodeUpgradeJobSpec(version="v1.0.0", label_selector=NORTH)),
        open_job("north", spec(), node_status=(NodeEntry(node_name="edge-a", phase="InProgress"),)),
    ],
    ids=["by name", "by label", "by status"],
)  # fmt: skip
def test_a_node_that_an_open_job_means_is_told(other: NodeUpgradeJob) -> None:
    assert advice(spec(), look(NODES, (other,))) == (_SHARED,)


@pytest.mark.parametrize(
    "other",
    [
        NodeUpgradeJob(metadata=ObjectMeta(name="n"), spec=spec(), status=JobStatus(phase="Completed")),
        NodeUpgradeJob(metadata=ObjectMeta(name="n"), spec=spec(), status=JobStatus(phase="Failure")),
        NodeUpgradeJob(metadata=ObjectMeta(name="n", deletion_timestamp="T"), spec=spec()),
        open_job("n", spec(), node_status=(NodeEntry(node_name="edge-a", phase="Successful"),)),
        open_job("n", spec(nodeNames=["edge-z"])),
    ],
    ids=["completed", "failed", "deleted", "done with it", "another node"],
)
def test_a_node_that_no_open_job_means_is_not(other: NodeUpgradeJob) -> None:
    assert advice(spec(), look(NODES, (other,))) == ()


@settings(max_examples=30)
@given(
    st.lists(st.text(max_size=260), max_size=5).map(tuple), st.text(max_size=70), st.text(max_size=300), st.booleans()
)
def test_no_warning_is_too_long_or_makes_it_fail(names: tuple[str, ...], version: str, image: str, down: bool) -> None:
    wanted = NodeUpgradeJobSpec(version=version, node_names=names, image=image, allow_downgrade=down)
    known = Known({name: node(name, version) for name in names[1:]}, dict.fromkeys(names[2:], "x" * 250))
    assert all(len(one) <= LONGEST for one in advice(wanted, known, "v1alpha1"))
