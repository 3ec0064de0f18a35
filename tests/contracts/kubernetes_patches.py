"""Contract: the kinds of patches."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.contracts.api import (
    APPLY_PATCH,
    CONFIGMAPS,
    JSON_PATCH,
    MERGE_PATCH,
    NODES,
    STRATEGIC_PATCH,
    UNCHECKED,
    Api,
    configmap,
    fresh,
    node,
)
from tests.contracts.rollout import ROLLOUTS, rollout

Operation = dict[str, Any]


def _with_nodes(api: Api, *names: str) -> tuple[dict[str, Any], str]:
    made = api.make(ROLLOUTS, rollout(fresh()))
    path = f"{ROLLOUTS}/{made['metadata']['name']}/status"
    nodes = [{"name": name, "phase": "Pending", "attempt": 1} for name in names]
    return api.patch(path, {"status": {"nodes": nodes}}), path


class Patches:
    """JSON, merge, strategic merge and apply patches."""

    def test_a_guarded_patch(self, api: Api) -> None:
        made, path = _with_nodes(api, "a", "b")
        metadata = made["metadata"]
        guard = [
            {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        ]
        change = {"op": "replace", "path": "/status/nodes/1/phase", "value": "InProgress"}
        after = api.patch(path, [*guard, change], JSON_PATCH)
        assert [one["phase"] for one in after["status"]["nodes"]] == ["Pending", "InProgress"]
        api.refused(409, "Conflict", "PATCH", path, [*guard, change], media=JSON_PATCH)

    @pytest.mark.parametrize(
        "operation",
        [
            {"op": "test", "path": "/metadata/uid", "value": "11111111-2222-3333-4444-555555555555"},
            {"op": "test", "path": "/status/nodes/0/attempt", "value": True},
            {"op": "test", "path": "/status/nodes/0/attempt", "value": "1"},
            {"op": "replace", "path": "/status/nodes/7/phase", "value": "x"},
            {"op": "replace", "path": "/status/absent/phase", "value": "x"},
            {"op": "add", "path": "/status/nodes/7", "value": {}},
            {"op": "add", "path": "/status/absent/deeper", "value": "x"},
            {"op": "remove", "path": "/status/absent"},
            {"op": "remove", "path": "/status/nodes/7"},
            {"op": "move", "path": "/status/reason", "from": "/status/absent"},
            {"op": "copy", "path": "/status/reason", "from": "/status/nodes/7"},
            {"op": "copy", "path": "/status/reason", "from": "/status/absent/deeper"},
            {"op": "test", "path": "/status/absent/deeper", "value": None},
            {"op": "test", "path": "/status/nodes/7", "value": None},
            {"op": "test", "path": "/status/nodes/-", "value": None},
            {"op": "add", "path": "/status/nodes/0/name/x", "value": 1},
            {"op": "remove", "path": "/status/nodes/-2"},
            {"op": "frobnicate", "path": "/status/reason", "value": "x"},
            {"op": "add", "path": "/status/nodes/one", "value": {}},
        ],
        ids=lambda operation: f"{operation['op']} {operation['path']}",
    )
    def test_an_operation_that_cannot_be_applied(self, api: Api, operation: Operation) -> None:
        made, path = _with_nodes(api, "a")
        status = api.refused(422, "Invalid", "PATCH", path, [operation], media=JSON_PATCH)
        assert status["message"] == "the server rejected our request due to an error in our request"
        assert status["details"] == {}
        assert api.get(path) == made

    @pytest.mark.parametrize(
        ("operations", "expected"),
        [
            ([{"op": "add", "path": "/status/nodes/-", "value": {"name": "c"}}], ["a", "b", "c"]),
            ([{"op": "add", "path": "/status/nodes/0", "value": {"name": "c"}}], ["c", "a", "b"]),
            ([{"op": "add", "path": "/status/nodes/2", "value": {"name": "c"}}], ["a", "b", "c"]),
            ([{"op": "add", "path": "/status/nodes", "value": [{"name": "c"}]}], ["c"]),
            ([{"op": "remove", "path": "/status/nodes/0"}], ["b"]),
            ([{"op": "remove", "path": "/status/nodes/-1"}], ["a"]),
            ([{"op": "move", "from": "/status/nodes/0", "path": "/status/nodes/1"}], ["b", "a"]),
            ([{"op": "copy", "from": "/status/nodes/0", "path": "/status/nodes/-"}], ["a", "b", "a"]),
            ([{"op": "test", "path": "/status/nodes/0/name", "value": "a"}], ["a", "b"]),
            ([{"op": "test", "path": "/status/absent", "value": None}], ["a", "b"]),
            ([{"op": "replace", "path": "/status/nodes/1", "value": {"name": "c"}}], ["a", "c"]),
            ([{"op": "remove", "path": "/status/nodes/0"}, {"op": "remove", "path": "/status/nodes/0"}], []),
        ],
        ids=lambda value: (
            " ".join(f"{one['op']} {one['path']}" for one in value) if value and isinstance(value[0], dict) else None
        ),
    )
    def test_operations(self, api: Api, operations: list[Operation], expected: list[str]) -> None:
        _, path = _with_nodes(api, "a", "b")
        after = api.patch(path, operations, JSON_PATCH)
        assert [one["name"] for one in after["status"]["nodes"]] == expected

    def test_what_is_absent_reads_as_null(self, api: Api) -> None:
        _, path = _with_nodes(api, "a")
        assert (
            api.patch(path, [{"op": "replace", "path": "/status/reason", "value": "x"}], JSON_PATCH)["status"]["reason"]
            == "x"
        )
        assert (
            "reason"
            not in api.patch(path, [{"op": "copy", "path": "/status/reason", "from": "/status/done"}], JSON_PATCH)[
                "status"
            ]
        )
        assert "done" not in api.patch(path, [{"op": "add", "path": "/status/done"}], JSON_PATCH)["status"]

    def test_pointers_with_slashes(self, api: Api) -> None:
        _, path = _with_nodes(api)
        api.patch(path, [{"op": "add", "path": "/status/counts", "value": {"a/b": 1, "c~d": 2}}], JSON_PATCH)
        change = [
            {"op": "replace", "path": "/status/counts/a~1b", "value": 3},
            {"op": "remove", "path": "/status/counts/c~0d"},
        ]
        assert api.patch(path, change, JSON_PATCH)["status"]["counts"] == {"a/b": 3}

    def test_a_node_without_a_spec_can_be_cordoned(self, api: Api) -> None:
        bare = {key: value for key, value in node(fresh()).items() if key not in ("spec", "status")}
        made = api.make(NODES, bare)
        cordon = [{"op": "add", "path": "/spec/unschedulable", "value": True}]
        after = api.patch(f"{NODES}/{made['metadata']['name']}", cordon, JSON_PATCH)
        assert after["spec"]["unschedulable"] is True

    def test_a_patch_is_all_or_nothing(self, api: Api) -> None:
        made, path = _with_nodes(api, "a")
        operations = [
            {"op": "replace", "path": "/status/nodes/0/phase", "value": "InProgress"},
            {"op": "test", "path": "/status/nodes/0/name", "value": "z"},
        ]
        api.refused(422, "Invalid", "PATCH", path, operations, media=JSON_PATCH)
        assert api.get(path) == made

    def test_what_is_no_patch_at_all(self, api: Api) -> None:
        _, path = _with_nodes(api, "a")
        for body in (b'{"op":"add"}', b"[1]", b"nonsense", b'"text"'):
            api.refused(400, "BadRequest", "PATCH", path, body, media=JSON_PATCH)
        api.refused(400, "BadRequest", "PATCH", path, b"nonsense", media=MERGE_PATCH)

    def test_a_patch_that_changes_nothing_makes_no_version(self, api: Api) -> None:
        made, path = _with_nodes(api, "a")
        same = [{"op": "replace", "path": "/status/nodes/0/phase", "value": "Pending"}]
        assert api.patch(path, same, JSON_PATCH)["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert api.patch(path, {})["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert api.patch(path, [], JSON_PATCH)["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    def test_a_patch_against_the_schema_tells_causes(self, api: Api) -> None:
        _, path = _with_nodes(api, "a")
        wrong = [{"op": "replace", "path": "/status/nodes/0/attempt", "value": "one"}]
        assert api.causes("PATCH", path, wrong, media=JSON_PATCH) == {
            ("status.nodes[0].attempt", "FieldValueTypeInvalid"),
            UNCHECKED,
        }

    def test_unguarded_patches_of_different_entries_lose_nothing(self, api: Api) -> None:
        _, path = _with_nodes(api, *(f"n{i}" for i in range(8)))

        def write(i: int) -> None:
            for attempt in range(2, 7):
                change = [{"op": "replace", "path": f"/status/nodes/{i}/attempt", "value": attempt}]
                api.ok("PATCH", path, change, media=JSON_PATCH)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(write, range(8)))
        assert [one["attempt"] for one in api.get(path)["status"]["nodes"]] == [6] * 8

    def test_merge(self, api: Api) -> None:
        made = api.make(CONFIGMAPS, configmap(fresh(), {"x": "y"}, a="1", b="2"))
        path = f"{CONFIGMAPS}/{made['metadata']['name']}"
        after = api.patch(path, {"data": {"a": None, "c": "3"}, "metadata": {"labels": None}})
        assert after["data"] == {"b": "2", "c": "3"}
        assert "labels" not in after["metadata"]

    def test_merge_replaces_lists(self, api: Api) -> None:
        _, path = _with_nodes(api, "a", "b")
        assert api.patch(path, {"status": {"nodes": [{"name": "c"}]}})["status"]["nodes"] == [{"name": "c"}]

    def test_merge_with_a_stale_version(self, api: Api) -> None:
        made = api.make(NODES, node(fresh()))
        path = f"{NODES}/{made['metadata']['name']}"
        guard = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
        cordoned = api.patch(
            path, {"metadata": {**guard, "annotations": {"by": "me"}}, "spec": {"unschedulable": True}}
        )
        assert cordoned["spec"]["unschedulable"] is True
        api.refused(
            409, "Conflict", "PATCH", path, {"metadata": guard, "spec": {"unschedulable": None}}, media=MERGE_PATCH
        )
        uncordoned = api.patch(path, {"metadata": {"annotations": {"by": None}}, "spec": {"unschedulable": None}})
        assert "unschedulable" not in uncordoned["spec"]
        assert "annotations" not in uncordoned["metadata"] or "by" not in uncordoned["metadata"]["annotations"]

    def test_strategic_merge_joins_conditions_by_type(self, api: Api) -> None:
        made = api.make(NODES, node(fresh()))
        path = f"{NODES}/{made['metadata']['name']}/status"

        def write(kind: str, state: str) -> list[tuple[str, str]]:
            change = {"status": {"conditions": [{"type": kind, "status": state}]}}
            after = api.patch(path, change, STRATEGIC_PATCH)
            return sorted((one["type"], one["status"]) for one in after["status"]["conditions"])

        write("Ready", "True")
        write("EtcdIsVoter", "False")
        assert write("EtcdIsVoter", "True") == [("EtcdIsVoter", "True"), ("Ready", "True")]
        gone = {"status": {"conditions": [{"$patch": "delete", "type": "Ready"}]}}
        left = api.patch(path, gone, STRATEGIC_PATCH)["status"]["conditions"]
        assert [one["type"] for one in left] == ["EtcdIsVoter"]

    def test_strategic_merge_of_finalizers_and_maps(self, api: Api) -> None:
        body = configmap(fresh(), a="1")
        body["metadata"]["finalizers"] = ["contract.test/a"]
        api.make(CONFIGMAPS, body)
        path = f"{CONFIGMAPS}/{body['metadata']['name']}"
        after = api.patch(path, {"metadata": {"finalizers": ["contract.test/b"]}, "data": {"b": "2"}}, STRATEGIC_PATCH)
        assert sorted(after["metadata"]["finalizers"]) == ["contract.test/a", "contract.test/b"]
        assert after["data"] == {"a": "1", "b": "2"}
        gone = {
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["contract.test/a"]},
            "data": {"$patch": "replace", "c": "3"},
        }
        after = api.patch(path, gone, STRATEGIC_PATCH)
        assert after["metadata"]["finalizers"] == ["contract.test/b"]
        assert after["data"] == {"c": "3"}

    def test_custom_resources_take_no_strategic_merge(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}"
        api.refused(415, "UnsupportedMediaType", "PATCH", path, {}, media=STRATEGIC_PATCH)
        api.refused(415, "UnsupportedMediaType", "PATCH", path, {}, media="application/json")

    def test_apply_creates_and_changes(self, api: Api) -> None:
        name = fresh()
        path = f"{ROLLOUTS}/{name}"
        answer = api.request("PATCH", path, rollout(name), media=APPLY_PATCH, fieldManager="contract")
        assert answer.status_code == 201, answer.text
        after = api.patch(path, rollout(name, suspend=True), APPLY_PATCH, fieldManager="contract")
        assert after["spec"]["suspend"] is True
        head = f"apiVersion: contract.test/v1\nkind: Rollout\nmetadata:\n  name: {name}\n"
        yaml = f"{head}spec:\n  version: v1.2\n  names: [node-1]\n  retry: 2\n"
        answer = api.request("PATCH", path, yaml.encode(), media=APPLY_PATCH, fieldManager="contract")
        assert answer.json()["spec"]["retry"] == 2
        api.ok("DELETE", path)

    def test_apply_needs_a_manager(self, api: Api) -> None:
        name = fresh()
        assert api.request("PATCH", f"{ROLLOUTS}/{name}", rollout(name), media=APPLY_PATCH).status_code == 422

    def test_identity_cannot_be_patched(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}"
        api.refused(400, "BadRequest", "PATCH", path, {"metadata": {"name": fresh()}}, media=MERGE_PATCH)
        after = api.patch(path, {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}})
        assert after["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
        for name, value in (
            ("uid", "11111111-2222-3333-4444-555555555555"),
            ("deletionTimestamp", "2001-01-01T00:00:00Z"),
        ):
            causes = api.causes("PATCH", path, {"metadata": {name: value}}, media=MERGE_PATCH)
            assert causes == {(f"metadata.{name}", "FieldValueInvalid")}
