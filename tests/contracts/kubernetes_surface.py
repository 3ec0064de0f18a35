"""Contract: paths, forms, discovery, tables, limits, doors."""

import json
from typing import Any

import httpx
import pytest

from tests.contracts.api import AS_TABLE, CONFIGMAPS, NODES, Api, configmap, fresh, node
from tests.contracts.rollout import ROLLOUTS, rollout

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
USED = {
    "api/v1": {
        "configmaps": ("ConfigMap", True), "events": ("Event", True), "namespaces": ("Namespace", False),
        "nodes": ("Node", False),
        "nodes/status": ("Node", False), "pods": ("Pod", True), "secrets": ("Secret", True),
    },
    "apis/coordination.k8s.io/v1": {"leases": ("Lease", True)},
    "apis/contract.test/v1": {"rollouts": ("Rollout", False), "rollouts/status": ("Rollout", False)},
}  # fmt: skip


class Surface:
    """What is not about one object."""

    @pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
    def test_health(self, api: Api, path: str) -> None:
        assert api.request("GET", path, accept="*/*").text == "ok"

    def test_version(self, api: Api) -> None:
        version = api.get("/version")
        assert (version["major"], version["minor"]) == ("1", "34")
        assert version["gitVersion"].startswith("v1.34.")

    def test_discovery_of_groups(self, api: Api) -> None:
        assert api.get("/api")["versions"] == ["v1"]
        groups = {group["name"]: group for group in api.get("/apis")["groups"]}
        expected = {"groupVersion": "contract.test/v1", "version": "v1"}
        assert groups["contract.test"]["versions"] == [expected]
        assert groups["contract.test"]["preferredVersion"] == expected
        assert "coordination.k8s.io" in groups
        assert api.get("/apis/contract.test")["preferredVersion"] == expected

    @pytest.mark.parametrize("prefix", USED)
    def test_discovery_of_resources(self, api: Api, prefix: str) -> None:
        listed = api.get(f"/{prefix}")
        assert listed["kind"] == "APIResourceList"
        found = {one["name"]: one for one in listed["resources"]}
        for name, (kind, namespaced) in USED[prefix].items():
            assert (found[name]["kind"], found[name]["namespaced"]) == (kind, namespaced)
            assert {"get", "patch", "update"} <= set(found[name]["verbs"])
        main = found.get("rollouts", {})
        assert prefix != "apis/contract.test/v1" or (main["shortNames"], main["categories"]) == (["ro"], ["contract"])

    def test_discovery_in_one_answer(self, api: Api) -> None:
        answer = api.request("GET", "/apis", accept=f"{AGGREGATED},application/json")
        assert answer.headers["content-type"].replace(" ", "") == AGGREGATED
        groups = {group["metadata"].get("name"): group for group in answer.json()["items"]}
        (version,) = groups["contract.test"]["versions"]
        (resource,) = version["resources"]
        assert (resource["resource"], resource["scope"], resource["singularResource"]) == (
            "rollouts",
            "Cluster",
            "rollout",
        )
        assert resource["responseKind"] == {"group": "contract.test", "version": "v1", "kind": "Rollout"}
        assert [one["subresource"] for one in resource["subresources"]] == ["status"]
        core = api.request("GET", "/api", accept=f"{AGGREGATED},application/json").json()["items"]
        assert "nodes" in {one["resource"] for one in core[0]["versions"][0]["resources"]}

    @pytest.mark.parametrize("prefix", USED)
    def test_openapi_promises_field_validation(self, api: Api, prefix: str) -> None:
        address = api.get("/openapi/v3")["paths"][prefix]["serverRelativeURL"]
        document = api.client.get(address, headers={"Accept": "application/json"}).json()
        for name, (kind, namespaced) in USED[prefix].items():
            if "/" not in name:
                place = "namespaces/{namespace}/" if namespaced else ""
                patch = document["paths"][f"/{prefix}/{place}{name}/{{name}}"]["patch"]
                assert patch["x-kubernetes-group-version-kind"]["kind"] == kind
                assert "fieldValidation" in {parameter.get("name") for parameter in patch["parameters"]}

    def test_openapi_explains_the_fields(self, api: Api) -> None:
        address = api.get("/openapi/v3")["paths"]["apis/contract.test/v1"]["serverRelativeURL"]
        document = api.client.get(address, headers={"Accept": "application/json"}).json()
        schema = next(one for name, one in document["components"]["schemas"].items() if name.endswith(".Rollout"))
        assert (
            schema["properties"]["spec"]["properties"]["version"]["description"] == "The version to bring the nodes to."
        )

    @pytest.mark.parametrize(
        "path",
        [
            "/apis/contract.test/v1/others", "/apis/contract.test/v9/rollouts", "/apis/no.such/v1/things",
            f"{CONFIGMAPS}/a/status",
            f"{ROLLOUTS}/a/scale", "/apis/contract.test/v1/namespaces/default/rollouts",
        ],
    )  # fmt: skip
    def test_where_nothing_is_served(self, api: Api, path: str) -> None:
        assert api.request("GET", path).status_code == 404

    def test_verbs_that_do_not_exist(self, api: Api) -> None:
        name = api.make(CONFIGMAPS, configmap(fresh()))["metadata"]["name"]
        for method, path in (
            ("POST", f"{CONFIGMAPS}/{name}"),
            ("PUT", CONFIGMAPS),
            ("DELETE", "/api/v1/nodes/a/status"),
        ):
            api.refused(405, "MethodNotAllowed", method, path, {})
        assert api.request("PATCH", ROLLOUTS, {}, media="application/merge-patch+json").status_code >= 400
        assert api.request("DELETE", f"{ROLLOUTS}/a/status").status_code == 405

    def test_bodies_that_cannot_be_read(self, api: Api) -> None:
        for body in (b"", b"{", b"[]", b"nonsense", b'"text"', b"null"):
            answer = api.request("POST", ROLLOUTS, body)
            assert answer.status_code == 400, (body, answer.text)
        api.refused(415, "UnsupportedMediaType", "POST", ROLLOUTS, rollout(fresh()), media="text/plain")
        api.refused(406, "NotAcceptable", "GET", ROLLOUTS, accept="text/html")

    def test_bodies_that_are_too_long(self, api: Api) -> None:
        body = configmap(fresh(), a="x" * (3 * 1024 * 1024 + 100))
        assert api.request("POST", CONFIGMAPS, body).status_code == 413

    def test_objects_that_are_too_large_to_be_kept(self, api: Api) -> None:
        name = api.make(ROLLOUTS, rollout(fresh()))["metadata"]["name"]
        answer = api.request(
            "PATCH",
            f"{ROLLOUTS}/{name}/status",
            {"status": {"reason": "x" * 1_600_000}},
            media="application/merge-patch+json",
        )
        assert answer.status_code == 500
        assert answer.json()["message"] == "etcdserver: request is too large"
        assert "status" not in api.get(f"{ROLLOUTS}/{name}")

    def test_status_of_a_mebibyte_is_kept(self, api: Api) -> None:
        name = api.make(ROLLOUTS, rollout(fresh()))["metadata"]["name"]
        nodes = [{"name": f"node-{i}", "phase": "x" * 150} for i in range(5000)]
        after = api.patch(f"{ROLLOUTS}/{name}/status", {"status": {"nodes": nodes}})
        assert len(after["status"]["nodes"]) == 5000

    def test_without_a_token(self, api: Api) -> None:
        stranger = httpx.get(
            api.client.base_url.join(ROLLOUTS), headers={"Authorization": "Bearer wrong"}, verify=api.trust
        )
        assert stranger.status_code == 401
        assert stranger.json()["reason"] == "Unauthorized"

    def test_a_table_of_a_custom_resource(self, api: Api) -> None:
        name = api.make(ROLLOUTS, rollout(fresh()))["metadata"]["name"]
        status = {
            "phase": "Completed",
            "failed": 2,
            "conditions": [{"type": "Complete", "status": "True", "reason": "AllDone"}],
        }
        api.patch(f"{ROLLOUTS}/{name}/status", {"status": status})
        table = json.loads(api.request("GET", f"{ROLLOUTS}/{name}", accept=AS_TABLE).content)
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        columns = [(one["name"], one["type"], one["priority"]) for one in table["columnDefinitions"]]
        assert columns == [
            ("Name", "string", 0), ("Version", "string", 0), ("Phase", "string", 0), ("Failed", "integer", 0),
            ("Age", "date", 0),
            ("Reason", "string", 1),
        ]  # fmt: skip
        (row,) = table["rows"]
        cells = row["cells"]
        assert [*cells[:4], cells[5]] == [name, "v1.2", "Completed", 2, "AllDone"]
        assert cells[4].endswith("s")
        assert row["object"]["kind"] == "PartialObjectMetadata"
        assert row["object"]["metadata"]["name"] == name

    def test_cells_of_what_is_absent(self, api: Api) -> None:
        name = api.make(ROLLOUTS, rollout(fresh()))["metadata"]["name"]
        listed = json.loads(
            api.request("GET", ROLLOUTS, accept=AS_TABLE, fieldSelector=f"metadata.name={name}").content
        )
        assert listed["metadata"]["resourceVersion"]
        (row,) = listed["rows"]
        assert [row["cells"][i] for i in (2, 3, 5)] == [None, None, None]

    def test_tables_with_and_without_objects(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}"
        whole = json.loads(api.request("GET", path, accept=AS_TABLE, includeObject="Object").content)
        assert whole["rows"][0]["object"] == made
        bare = json.loads(api.request("GET", path, accept=AS_TABLE, includeObject="None").content)
        assert not bare["rows"][0].get("object")

    def test_a_table_of_nodes(self, api: Api) -> None:
        body = node(fresh(), **{"node-role.kubernetes.io/edge": "", "node-role.kubernetes.io/agent": ""})
        conditions = [{"type": "Ready", "status": "True"}]
        api.make(
            NODES,
            {
                **body,
                "spec": {"unschedulable": True},
                "status": {"conditions": conditions, "nodeInfo": {"kubeletVersion": "v1.22.0"}},
            },
        )
        table = json.loads(api.request("GET", f"{NODES}/{body['metadata']['name']}", accept=AS_TABLE).content)
        row = dict(zip((one["name"] for one in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))
        assert row["Status"] == "Ready,SchedulingDisabled"
        assert row["Roles"] == "agent,edge"
        assert row["Version"] == "v1.22.0"

    def test_metadata_alone(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
        part: dict[str, Any] = json.loads(
            api.request("GET", f"{ROLLOUTS}/{made['metadata']['name']}", accept=accept).content
        )
        assert part["kind"] == "PartialObjectMetadata"
        assert part["metadata"]["uid"] == made["metadata"]["uid"]
        assert "spec" not in part
