"""KubeEdge's other tasks: each recorded one is answered with a failed report in its own form."""

import json
from typing import Any

import msgspec
import pytest

from beehive.messages import wire
from modules.edgehub.foreign import REASON, answer
from tests.vectors import KUBEEDGE

NOW = 1767225600.0


def other(name: str) -> wire.Other:
    body = wire.from_cloud((KUBEEDGE / f"ws_downstream_{name}.json").read_bytes()).body
    assert isinstance(body, wire.Other)
    return body


def answered(name: str) -> dict[str, Any]:
    data = answer(other(name), "edge-a", "m", NOW)
    assert data is not None
    found: dict[str, Any] = json.loads(data)
    return found


@pytest.mark.parametrize("kind", ["imageprepulljob", "configupdatejob"])
def test_second_generation(kind: str) -> None:
    said = answered(f"v1alpha2_{kind}_check")
    assert said["route"]["resource"] == f"operations.kubeedge.io/v1alpha2/{kind}/job-1/node/edge-a"
    assert said["route"]["operation"] == "UpdateNodeActionStatus"
    assert said["content"] == {
        "action": "Check", "succ": False, "finishTime": "2026-01-01T00:00:00Z", "reason": REASON, "extend": ""
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("upgrade_stage_init", "Init"),
        ("upgrade_stage_checking", "Check"),
        ("upgrade_stage_backingup", "Backup"),
        ("upgrade_stage_upgrading", "Upgrade"),
        ("history_message_for_edge_below_v1_16", "Upgrade"),
    ],
)
def test_first_generation_in_the_form_of_a_real_edges_answer(name: str, event: str) -> None:
    said = answered(f"v1alpha1_{name}")
    recorded = json.loads((KUBEEDGE / "ws_upstream_v1alpha1_task_response.json").read_bytes())
    assert said["route"] == recorded["route"]
    assert list(said["content"]) == list(recorded["content"])
    assert said["content"]["NodeName"] == "edge-a"
    assert (said["content"]["Event"], said["content"]["Action"]) == (event, "Failure")
    assert said["content"]["Reason"] == REASON


@pytest.mark.parametrize("name", ["v1alpha2_configupdatejob_check", "v1alpha1_upgrade_stage_init"])
def test_another_nodes_task_is_not_answered(name: str) -> None:
    assert answer(other(name), "edge-b", "m", NOW) is None


@pytest.mark.parametrize("content", [b"null", b"7", b'{"State":7}', b'{"State":"?"}', b"[]"])
def test_a_task_in_the_wrong_shape_is_answered_too(content: bytes) -> None:
    frame = wire.Frame(content=msgspec.Raw(content))
    data = answer(wire.Other("upgrade", "upgrade/job-1/node/edge-a", frame), "edge-a", "m", NOW)
    assert data is not None
    assert json.loads(data)["content"]["Action"] == "Failure"


@pytest.mark.parametrize(
    ("operation", "resource"),
    [
        ("update", "default/pod/p1"),
        ("response", "x"),
        ("", ""),
        ("upgrade", "upgrade/j/node"),
        ("x", "upgrade/j/node/edge-a"),
        ("error", "operations.kubeedge.io/v1alpha2/imageprepulljob/j/node/edge-a"),
        ("UpdateNodeActionStatus", "operations.kubeedge.io/v1alpha2/imageprepulljob/j/node/edge-a"),
    ],
)
def test_what_is_no_task_is_not_answered(operation: str, resource: str) -> None:
    assert answer(wire.Other(operation, resource, wire.Frame()), "edge-a", "m", NOW) is None
