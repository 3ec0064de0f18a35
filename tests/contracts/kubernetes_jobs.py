"""Contract: NodeUpgradeJobs under Beehive's own CRD, at a server that knows nothing else of Beehive."""

import json
from typing import Any

import pytest

from tests.contracts.api import AS_TABLE, MERGE_PATCH, Api, fresh

JOBS = "/apis/operations.kubeedge.io/v1alpha2/nodeupgradejobs"
FORBIDDEN, INVALID, REQUIRED = "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"


def job(**spec: Any) -> dict[str, Any]:
    """A valid job; ``spec`` changes it, None takes a field out."""
    body = {"version": "v1.23.0", "nodeNames": ["edge-1", "edge-2"], **spec}
    kept = {key: value for key, value in body.items() if value is not None}
    head = {"apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "NodeUpgradeJob"}
    return {**head, "metadata": {"name": fresh("job")}, "spec": kept}


class Jobs:
    """What the CRD says is what both servers do."""

    def test_defaults(self, api: Api) -> None:
        spec = api.make(JOBS, job())["spec"]
        expected = {"concurrency": 1, "onOffline": "Skip", "suspend": False, "abort": False, "retry": 0}
        assert {key: spec[key] for key in expected} == expected

    @pytest.mark.parametrize(
        ("spec", "field", "reason"),
        [
            ({"version": "latest"}, "spec.version", INVALID),
            ({"version": "v1.23.0\n"}, "spec.version", INVALID),
            ({"version": "v1.٢.0"}, "spec.version", INVALID),
            ({"version": None}, "spec.version", REQUIRED),
            ({"nodeNames": None}, "spec", REQUIRED),
            ({"nodeNames": []}, "spec", REQUIRED),
            ({"labelSelector": {}}, "spec", FORBIDDEN),
            ({"concurrency": 0}, "spec.concurrency", INVALID),
            ({"concurrency": 2**31}, "spec.concurrency", INVALID),
            ({"failureTolerate": "most"}, "spec.failureTolerate", INVALID),
            ({"failureTolerate": 0.1}, "spec.failureTolerate", "FieldValueTypeInvalid"),
            ({"onOffline": "Panic"}, "spec.onOffline", "FieldValueNotSupported"),
            ({"upgradeTool": "../../bin/sh"}, "spec.upgradeTool", INVALID),
            ({"image": "https://registry/x"}, "spec.image", INVALID),
            ({"imageDigestGatter": {"amd64": "sha256:12"}}, "spec.imageDigestGatter.amd64", INVALID),
            ({"retry": 1}, "spec.retry", FORBIDDEN),
        ],
        ids=str,
    )
    def test_refused_at_the_door(self, api: Api, spec: dict[str, Any], field: str, reason: str) -> None:
        assert (field, reason) in api.causes("POST", JOBS, job(**spec))

    @pytest.mark.parametrize(
        "spec",
        [
            {"version": "1.12.1"},
            {"version": "v1.30.4+k3s1"},
            {"nodeNames": None, "labelSelector": {"matchLabels": {"region": "north"}}},
            {"failureTolerate": "10%"},
            {"failureTolerate": "0.1"},
            {"timeoutSeconds": 0},
        ],
        ids=str,
    )
    def test_accepted(self, api: Api, spec: dict[str, Any]) -> None:
        api.make(JOBS, job(**spec))

    @pytest.mark.parametrize(
        "change",
        [{"version": "v1.24.0"}, {"concurrency": 2}, {"nodeNames": ["edge-1"]}, {"image": "a.io/b"}],
        ids=str,
    )  # fmt: skip
    def test_what_cannot_change(self, api: Api, change: dict[str, Any]) -> None:
        path = f"{JOBS}/{api.make(JOBS, job())['metadata']['name']}"
        (field,) = change
        assert api.causes("PATCH", path, {"spec": change}, media=MERGE_PATCH) == {(f"spec.{field}", FORBIDDEN)}

    def test_what_can_change(self, api: Api) -> None:
        path = f"{JOBS}/{api.make(JOBS, job())['metadata']['name']}"
        for change in ({"suspend": True}, {"suspend": False}, {"retry": 1}, {"abort": True}):
            api.patch(path, {"spec": change})
        assert api.causes("PATCH", path, {"spec": {"abort": False}}, media=MERGE_PATCH) == {("spec.abort", FORBIDDEN)}
        assert api.causes("PATCH", path, {"spec": {"retry": 2}}, media=MERGE_PATCH) == {("spec.retry", FORBIDDEN)}
        assert api.causes("PATCH", path, {"spec": {"retry": 0}}, media=MERGE_PATCH) == {("spec.retry", FORBIDDEN)}
        assert api.patch(path, {"metadata": {"finalizers": ["kubeedge.io/nodeupgradejob-controller"]}})

    def test_columns(self, api: Api) -> None:
        path = f"{JOBS}/{api.make(JOBS, job())['metadata']['name']}"
        api.patch(
            f"{path}/status", {"status": {"phase": "InProgress", "done": "1/2", "failed": 1, "waiting": "edge-2"}}
        )
        table = json.loads(api.request("GET", path, accept=AS_TABLE).content)
        row = dict(zip((one["name"] for one in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))
        shown = {name: row[name] for name in ("Version", "Phase", "Done", "Failed", "Waiting")}
        assert shown == {
            "Version": "v1.23.0",
            "Phase": "InProgress",
            "Done": "1/2",
            "Failed": 1,
            "Waiting": "edge-2",
        }
