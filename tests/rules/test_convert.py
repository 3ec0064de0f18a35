"""Conversion between both versions: nothing is lost, whoever wrote the object and whoever changes it in between."""

import contextlib
import copy
import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.api import v1alpha1
from beehive.api.convert import MOST_ANNOTATIONS, ONLY_V1ALPHA1, ONLY_V1ALPHA2, V1ALPHA1, V1ALPHA2, converted
from beehive.api.nodeupgradejob import NodeUpgradeJob
from beehive.errors import Refused
from tests.rules.job_objects import JOBS1, JOBS2, STATUS1, STATUS2
from tests.vectors import vector

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
DEFAULTS = {"onOffline": "Skip", "allowDowngrade": False, "suspend": False, "abort": False, "retry": 0}


def down(item: dict[str, Any]) -> dict[str, Any]:
    return wired(converted(item, V1ALPHA1))


def up(item: dict[str, Any]) -> dict[str, Any]:
    return wired(converted(item, V1ALPHA2))


def wired(item: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from the API server, which sorts the keys."""
    back: dict[str, Any] = json.loads(json.dumps(item, sort_keys=True))
    return back


def job2(status: Any = None, **spec: Any) -> dict[str, Any]:
    item: dict[str, Any] = {
        "apiVersion": V1ALPHA2,
        "kind": "NodeUpgradeJob",
        "metadata": {"name": "j", "uid": "8584110f"},
        "spec": {"version": "v1.23.1", "nodeNames": ["edge-a", "edge-b"], **DEFAULTS, **spec},
    }
    return item if status is None else {**item, "status": status}


def job1(status: Any = None, **spec: Any) -> dict[str, Any]:
    item: dict[str, Any] = {
        "apiVersion": V1ALPHA1,
        "kind": "NodeUpgradeJob",
        "metadata": {"name": "j", "uid": "8584110f"},
        "spec": {"version": "v1.23.1", "nodeNames": ["edge-a", "edge-b"], **spec},
    }
    return item if status is None else {**item, "status": status}


# ---- laws ------------------------------------------------------------------------------------------------------------


@settings(max_examples=35, deadline=None)
@given(JOBS2)
def test_there_and_back_is_the_same_from_v1alpha2(item: dict[str, Any]) -> None:
    before = copy.deepcopy(item)
    assert up(down(item)) == item == before


@settings(max_examples=35, deadline=None)
@given(JOBS1)
def test_there_and_back_is_the_same_from_v1alpha1(item: dict[str, Any]) -> None:
    before = copy.deepcopy(item)
    assert down(up(item)) == item == before


@settings(max_examples=35, deadline=None)
@given(JOBS2, STATUS1)
def test_what_a_v1alpha1_client_wrote_over_the_status_is_what_it_reads(item: dict[str, Any], status: Any) -> None:
    shown = down(item)
    hidden = {key: one for key, one in shown.get("status", {}).items() if key == "v1alpha2"}
    stored = up(shown | {"status": {**status, **hidden}})
    again = down(stored)
    assert {key: one for key, one in again["status"].items() if key != "v1alpha2"} == status
    assert up(again) == stored, "and from then on nothing moves"
    assert stored["spec"] == item["spec"]


@settings(max_examples=25, deadline=None)
@given(JOBS1, STATUS2)
def test_what_the_controller_writes_later_is_what_a_v1alpha1_client_reads(item: dict[str, Any], status: Any) -> None:
    stored = up(item)
    kept = {key: one for key, one in stored.get("status", {}).items() if key == "v1alpha1"}
    later = stored | {"status": {**status, **kept}}
    told = {key: one for key, one in down(later)["status"].items() if key != "v1alpha2"}
    plain = {key: one for key, one in down(stored | {"status": status})["status"].items() if key != "v1alpha2"}
    written = item.get("status", {})
    assert told in (plain, written)
    assert up(down(later)) == later


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([V1ALPHA1, V1ALPHA2]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["spec", "metadata", "status", "annotations", "nodeStatus", "nodeName", "phase", "state", "history",
                     "v1alpha1", "v1alpha2", "imageDigestGatter", "value", "amd64", ONLY_V1ALPHA1, ONLY_V1ALPHA2]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    ),
)  # fmt: skip
def test_no_object_makes_it_fail_but_with_a_sentence(version: str, body: Any) -> None:
    item = (body if isinstance(body, dict) else {"spec": body}) | {"apiVersion": version, "kind": "NodeUpgradeJob"}
    other = V1ALPHA1 if version == V1ALPHA2 else V1ALPHA2
    with contextlib.suppress(Refused):
        assert converted(item, other)["apiVersion"] == other


@settings(max_examples=25, deadline=None)
@given(JOBS2, JOBS1)
def test_what_it_makes_is_of_the_other_versions_shape(two: dict[str, Any], one: dict[str, Any]) -> None:
    msgspec.convert(converted(two, V1ALPHA1), v1alpha1.NodeUpgradeJob)
    msgspec.convert(converted(one, V1ALPHA2), NodeUpgradeJob)


# ---- KubeEdge's own objects ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cr_v1alpha2_nodeupgradejob_failure", "cr_v1alpha2_nodeupgradejob_in_progress"])
def test_kubeedges_v1alpha2_objects_come_back_unchanged(name: str) -> None:
    assert up(down(vector(name))) == vector(name)


def test_kubeedges_v1alpha1_object_comes_back_unchanged_and_is_understood() -> None:
    theirs = vector("cr_v1alpha1_nodeupgradejob")
    stored = up(theirs)
    assert down(stored) == theirs
    assert stored["status"]["phase"] == "Completed"
    (entry,) = stored["status"]["nodeStatus"]
    assert (entry["nodeName"], entry["phase"], entry["since"]) == ("edge-a", "Successful", "2026-01-01T00:00:05Z")


def test_every_state_of_a_job_that_kubeedge_went_through_comes_back_unchanged() -> None:
    history = vector("captured_nodeupgradejob_status_history")
    assert len(history) == 15
    for _, _, _, _, state in history:
        assert up(down(state)) == state


def test_what_a_v1alpha1_client_sees_of_kubeedges_rollback() -> None:
    """KubeEdge calls a node that was rolled back successful (spec/kubeedge.md R4); v1alpha1 has a word for it."""
    flow = [{"action": "Upgrade", "status": "False"}, {"action": "RollBack", "status": "True"}]
    entries = [
        {"nodeName": "edge-a", "phase": "Successful", "actionFlow": flow},
        {
            "nodeName": "edge-b",
            "phase": "Failure",
            "actionFlow": [*flow[:1], {"action": "RollBack", "status": "False"}],
        },
    ]
    told = down(job2({"phase": "InProgress", "nodeStatus": entries}))["status"]["status"]
    assert [one["history"]["result"] for one in told] == [
        "upgrade_failed_rollback_success", "upgrade_failed_rollback_failed",
    ]  # fmt: skip


# ---- what each version shows -----------------------------------------------------------------------------------------

ENTRIES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"phase": "Pending", "attempt": 1, "since": "T"}, {}),
    (
        {"phase": "InProgress", "attempt": 1, "since": "T", "historicVersion": "v1.22.0"},
        {
            "state": "upgrading",
            "history": {
                "historyID": "8584110f.1", "fromVersion": "v1.22.0", "toVersion": "v1.23.1", "upgradeTime": "T",
            },
        },
    ),
    (
        {"phase": "Successful", "attempt": 2, "since": "T", "historicVersion": "v1.22.0"},
        {
            "state": "completed",
            "history": {
                "historyID": "8584110f.2", "fromVersion": "v1.22.0", "toVersion": "v1.23.1", "upgradeTime": "T",
                "result": "upgrade_success",
            },
        },
    ),
    (
        {"phase": "Failure", "reasonCode": "RolledBack", "reason": "exited with code 1"},
        {
            "state": "completed",
            "history": {
                "result": "upgrade_failed_rollback_success", "reason": "exited with code 1", "toVersion": "v1.23.1",
            },
        },
    ),
    (
        {"phase": "Failure", "reasonCode": "RollbackFailed"},
        {
            "state": "completed",
            "history": {
                "result": "upgrade_failed_rollback_failed", "reason": "RollbackFailed", "toVersion": "v1.23.1",
            },
        },
    ),
    (
        {"phase": "Skipped", "reasonCode": "AlreadyAtVersion"},
        {"state": "completed", "history": {"reason": "AlreadyAtVersion", "toVersion": "v1.23.1"}},
    ),
    (
        {"phase": "Unknown", "reasonCode": "TimedOut"},
        {"state": "completed", "history": {"reason": "TimedOut", "toVersion": "v1.23.1"}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "told"), ENTRIES, ids=lambda one: str(one)[:40])
def test_an_entry_in_the_proposals_words(entry: dict[str, Any], told: dict[str, Any]) -> None:
    item = job2({"phase": "InProgress", "nodeStatus": [{"nodeName": "edge-a", **entry}]})
    assert down(item)["status"]["status"] == [{"nodeName": "edge-a", **told}]


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("", None),
        ("Init", "upgrading"),
        ("InProgress", "upgrading"),
        ("Completed", "completed"),
        ("Failure", "completed"),
    ],
)
def test_a_phase_in_the_proposals_words(phase: str, state: str | None) -> None:
    assert down(job2({"phase": phase}))["status"].get("state") == state


def test_a_v1alpha1_job_gets_the_defaults_of_what_it_does_not_know_and_no_annotation_comes_of_it() -> None:
    stored = up(job1())
    assert stored == job2()
    assert "annotations" not in down(stored)["metadata"]


def test_a_pin_by_value_holds_for_amd64_and_arm64_and_for_nobody_else() -> None:
    stored = up(job1(imageDigestGatter={"value": A}))
    assert stored["spec"]["imageDigestGatter"] == {"amd64": A, "arm64": A}
    assert "annotations" not in stored["metadata"]
    assert down(stored)["spec"]["imageDigestGatter"] == {"value": A}


def test_pins_that_differ_travel_in_the_annotation() -> None:
    item = job2(imageDigestGatter={"amd64": A, "arm64": B, "registryAPI": {"host": "r.io", "token": "t"}})
    told = down(item)
    assert told["spec"]["imageDigestGatter"] == {"registryAPI": {"host": "r.io", "token": "t"}}
    assert json.loads(told["metadata"]["annotations"][ONLY_V1ALPHA2])["imageDigestGatter"]["arm64"] == B


def test_a_pin_that_a_v1alpha1_client_writes_over_them_counts_and_is_not_lost_for_the_old_ones() -> None:
    told = down(job2(imageDigestGatter={"amd64": A, "arm64": B}))
    told["spec"]["imageDigestGatter"] = {"value": B}
    assert up(told)["spec"]["imageDigestGatter"] == {"amd64": B, "arm64": B}, "the webhook refuses it: pins stay"
    del told["spec"]["imageDigestGatter"]
    assert "imageDigestGatter" not in up(told)["spec"]


# ---- a v1alpha1 client changes something -----------------------------------------------------------------------------


def test_one_entry_changes_and_all_the_others_stay_to_the_byte() -> None:
    entries = [
        {"nodeName": f"edge-{i}", "phase": "InProgress", "attempt": 1, "revision": 7, "since": "T"} for i in range(3)
    ]
    told = down(job2({"phase": "InProgress", "total": 3, "nodeStatus": entries}))
    told["status"]["status"][1] |= {
        "state": "completed", "history": {"result": "upgrade_failed_rollback_success", "reason": "too hot"},
    }  # fmt: skip
    stored = up(told)["status"]
    assert stored["nodeStatus"][0::2] == entries[0::2]
    assert stored["nodeStatus"][1] == entries[1] | {
        "phase": "Failure", "reasonCode": "RolledBack", "reason": "too hot",
    }  # fmt: skip
    assert stored["total"] == 3


def test_one_odd_entry_in_a_job_of_5000_nodes_does_not_double_the_object() -> None:
    item = largest()
    told = down(item)
    told["status"]["status"][17]["state"] = "Checking"
    stored = up(told)
    assert len(json.dumps(stored)) < len(json.dumps(item)) + 50_000
    assert down(stored)["status"]["status"] == told["status"]["status"]


def test_abort_and_retry_cannot_be_lost_by_a_v1alpha1_client_that_knows_nothing_of_them() -> None:
    told = down(job2(abort=True, retry=2, onOffline="Wait"))
    told["metadata"]["labels"] = {"a": "b"}
    stored = up(told)
    assert {key: stored["spec"][key] for key in DEFAULTS} == DEFAULTS | {
        "abort": True, "retry": 2, "onOffline": "Wait",
    }  # fmt: skip
    assert stored["metadata"] == {"name": "j", "uid": "8584110f", "labels": {"a": "b"}}


@pytest.mark.parametrize(
    "annotation",
    ["", "no json", "[]", "null", '"x"', '{"version":"v9.9.9"}', '{"retry":"3"}', '{"abort":1}', "[" * 10_000, 7,
     '{"imageDigestGatter":{"amd64":5}}', '{"suspend":null}'],
    ids=lambda text: str(text)[:20],
)  # fmt: skip
def test_what_is_smuggled_into_the_annotation_is_refused(annotation: Any) -> None:
    item = job1()
    item["metadata"]["annotations"] = {ONLY_V1ALPHA2: annotation}
    with pytest.raises(Refused, match=r"is not what was read: .*; leave it alone"):
        converted(item, V1ALPHA2)


@pytest.mark.parametrize("annotation", ["no json", "[]", '{"imageDigestGatter":{"value":"x"}}', "[" * 10_000])
def test_a_broken_annotation_of_a_stored_object_hinders_no_reader(annotation: str) -> None:
    item = job2(imageDigestGatter={"amd64": A, "arm64": A})
    item["metadata"]["annotations"] = {ONLY_V1ALPHA1: annotation}
    assert down(item)["spec"]["imageDigestGatter"] == {"value": A}


@pytest.mark.parametrize("kept", [7, "x", [], {}, {"status": [None]}, {"state": "completed"}])
def test_a_broken_preserved_field_hinders_nobody(kept: Any) -> None:
    entries = [{"nodeName": "edge-a", "phase": "InProgress", "attempt": 1}]
    plain = down(job2({"phase": "InProgress", "nodeStatus": entries}))["status"]
    told = down(job2({"phase": "InProgress", "nodeStatus": entries, "v1alpha1": kept}))["status"]
    assert {k: v for k, v in told.items() if k != "v1alpha2"} == {k: v for k, v in plain.items() if k != "v1alpha2"}
    assert up(job1({"state": "upgrading", "v1alpha2": kept}))["status"]["phase"] == "InProgress"


@pytest.mark.parametrize("status", [None, {"phase": "Init"}])
def test_where_the_annotations_have_no_room_the_status_has(status: Any) -> None:
    item = job2(status, abort=True)
    item["metadata"]["annotations"] = {"mine": "x" * (MOST_ANNOTATIONS - 10)}
    told = down(item)
    assert told["metadata"]["annotations"] == item["metadata"]["annotations"]
    assert told["status"]["v1alpha2Spec"]["abort"] is True
    assert up(told) == item
    told["status"]["v1alpha2Spec"] = {"abort": "no"}
    with pytest.raises(Refused, match=r"v1alpha2Spec is not what was read: .* leave it alone"):
        converted(told, V1ALPHA2)


def test_a_writer_without_room_for_the_annotation_is_told() -> None:
    item = job1(imageDigestGatter={"value": ""})
    item["metadata"]["annotations"] = {"mine": "x" * (MOST_ANNOTATIONS - 10)}
    with pytest.raises(Refused, match="the annotations leave no room"):
        converted(item, V1ALPHA2)


@pytest.mark.parametrize(
    ("item", "wanted", "said"),
    [
        ({"kind": "Pod", "apiVersion": V1ALPHA2}, V1ALPHA1, "only NodeUpgradeJob can be converted, not Pod"),
        ({}, V1ALPHA1, "only NodeUpgradeJob can be converted, not None"),
        (job2() | {"apiVersion": "v9"}, V1ALPHA1, "cannot be converted from v9 to operations.kubeedge.io/v1alpha1"),
        (job2(), "operations.kubeedge.io/v1", "cannot be converted from .* to operations.kubeedge.io/v1;"),
    ],
)
def test_what_cannot_be_converted(item: dict[str, Any], wanted: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        converted(item, wanted)


def test_what_is_in_the_version_already_is_the_very_same() -> None:
    item = job2()
    assert converted(item, V1ALPHA2) is item


# ---- the largest job -------------------------------------------------------------------------------------------------


def largest() -> dict[str, Any]:
    phases = ("Pending", "InProgress", "Successful", "Failure")
    entries = [
        {"nodeName": f"edge-{i:05}", "phase": phases[i % 4], "reasonCode": "CheckFailed" if i % 4 == 3 else "",
         "attempt": 1, "revision": 5, "since": "2026-11-29T20:31:07Z", "historicVersion": "v1.22.0"}
        for i in range(5000)
    ]  # fmt: skip
    names = [one["nodeName"] for one in entries]
    return job2({"phase": "InProgress", "total": 5000, "nodeStatus": entries}, nodeNames=names)


def test_the_largest_job_is_converted_in_50_ms_each_way() -> None:
    item = largest()
    told = converted(item, V1ALPHA1)
    edited = copy.deepcopy(told)
    edited["status"]["status"][3]["history"]["reason"] = "because"
    for given_, wanted in ((item, V1ALPHA1), (told, V1ALPHA2), (edited, V1ALPHA2)):
        spent = []
        for _ in range(3):
            began = time.process_time()
            converted(given_, wanted)
            spent.append(time.process_time() - began)
        assert min(spent) < 0.05
    assert converted(told, V1ALPHA2) == item


@pytest.mark.parametrize("meta", [None, [None], "x", {"annotations": [1]}])
def test_metadata_that_is_none_makes_nobody_stumble(meta: Any) -> None:
    assert converted(job2(abort=True) | {"metadata": meta}, V1ALPHA1)["metadata"]["annotations"].keys() == {
        ONLY_V1ALPHA2
    }
