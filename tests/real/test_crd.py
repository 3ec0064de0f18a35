"""The CRD on a real kube-apiserver, with no webhook: what it takes, and in which words it refuses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.running.apiserver import ApiServer
from tests.real.running.processes import wait_until
from tests.vectors import vector

ROOT = Path(__file__).parents[2]
CRD = ROOT / "configs/crd/nodeupgradejobs.yaml"
EXAMPLES = sorted((ROOT / "configs/examples").glob("*.yaml"))
JOBS = "/apis/operations.kubeedge.io/v1alpha2/nodeupgradejobs"
A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


@pytest.fixture(scope="module")
def server(apiserver: ApiServer) -> ApiServer:
    """The shared API server with the CRD, which is installed without a warning."""
    done = apiserver.kubectl_result("apply", "-f", str(CRD))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    apiserver.kubectl(
        "wait", "--for=condition=Established", "--timeout=30s", "crd/nodeupgradejobs.operations.kubeedge.io"
    )
    wait_until(lambda: apiserver.request("GET", JOBS).status == 200, 20, "the API server to serve the jobs")
    return apiserver


@pytest.fixture
def jobs(server: ApiServer) -> Iterator[ApiServer]:
    """The same, without any job before and after."""
    yield server
    server.request("DELETE", JOBS)
    for item in server.request("GET", JOBS).json()["items"]:
        server.request(
            "PATCH", f"{JOBS}/{item['metadata']['name']}", {"metadata": {"finalizers": None}},
            kind="application/merge-patch+json",
        )  # fmt: skip


def job(**fields: Any) -> dict[str, Any]:
    """A good job, but for `fields` (None takes one away; NULL stays null)."""
    spec = {"version": "v1.23.1", "nodeNames": ["edge-a"], **fields}
    spec = {key: (None if value is NULL else value) for key, value in spec.items() if value is not None}
    return {
        "apiVersion": "operations.kubeedge.io/v1alpha2",
        "kind": "NodeUpgradeJob",
        "metadata": {"name": "one"},
        "spec": spec,
    }


NULL = object()


def test_no_violation_of_structure_and_no_cost_is_reported(server: ApiServer) -> None:
    found = json.loads(server.kubectl("get", "crd", "nodeupgradejobs.operations.kubeedge.io", "-o", "json"))
    conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    assert conditions["Established"] == conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_apply_under_strict_validation(jobs: ApiServer, path: Path) -> None:
    assert "created" in jobs.kubectl("apply", "--validate=strict", "-f", str(path))
    assert "unchanged" in jobs.kubectl("apply", "--validate=strict", "-f", str(path)), (
        "GitOps tools apply again and again"
    )


@pytest.mark.parametrize("name", ["cr_v1alpha2_nodeupgradejob_failure", "cr_v1alpha2_nodeupgradejob_in_progress"])
def test_what_kubeedge_wrote_applies_unchanged_its_status_too(jobs: ApiServer, name: str) -> None:
    written = vector(name)
    jobs.kubectl("apply", "--validate=strict", "-f", "-", stdin=json.dumps(written))
    status = jobs.request(
        "PUT", f"{JOBS}/job-1/status", jobs.request("GET", f"{JOBS}/job-1").json() | {"status": written["status"]}
    )
    assert status.status == 200, status.body
    stored = status.json()
    assert {key: stored["spec"][key] for key in written["spec"]} == written["spec"]
    for was, now in zip(written["status"]["nodeStatus"], stored["status"]["nodeStatus"], strict=True):
        assert {key: now[key] for key in was} == was
        assert (now["attempt"], now["revision"]) == (0, 0)


def test_every_state_of_a_job_that_kubeedge_went_through_can_be_stored(jobs: ApiServer) -> None:
    for _, _, _, part, state in vector("captured_nodeupgradejob_status_history"):
        meta = {"name": "j1", "finalizers": state["metadata"].get("finalizers", [])}
        if part is None and jobs.request("GET", f"{JOBS}/j1").status == 404:
            assert jobs.request("POST", JOBS, state | {"metadata": meta}).status == 201
        current = jobs.request("GET", f"{JOBS}/j1").json()
        answer = jobs.request("PUT", f"{JOBS}/j1/status", current | {"status": state.get("status")})
        assert answer.status == 200, answer.body


def test_defaults_are_filled_in(jobs: ApiServer) -> None:
    stored = jobs.request("POST", JOBS, job()).json()["spec"]
    assert stored == {
        "version": "v1.23.1", "nodeNames": ["edge-a"], "image": "kubeedge/installation-package", "upgradeTool": "keadm",
        "timeoutSeconds": 300, "concurrency": 1, "failureTolerate": "0.1", "requireConfirmation": False,
        "onOffline": "Skip", "allowDowngrade": False, "suspend": False, "abort": False, "retry": 0,
    }  # fmt: skip


GOOD: list[dict[str, Any]] = [
    {"version": "1.12.1"},
    {"version": "v1.30.4+k3s1"},
    {"version": "v1.23.1-acme.5"},
    {"imageDigestGatter": NULL},
    {"imageDigestGatter": {"amd64": A, "arm64": "", "digests": {"arm/v7": B}}},
    {"imageDigestGatter": {"registryAPI": {"host": "r.io:5000", "token": "t"}}},
    {"timeoutSeconds": 0},
    {"failureTolerate": "12.5%"},
    {"failureTolerate": ""},
    {"image": ""},
    {"image": "host:5000/a/b:tag"},
    {"nodeNames": None, "labelSelector": {}},
    {"nodeNames": [], "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
    {"nodeNames": [f"edge-{i}" for i in range(5000)]},
]


@pytest.mark.parametrize("fields", GOOD, ids=[f"{'-'.join(fields)}-{n}" for n, fields in enumerate(GOOD)])
def test_a_good_job_is_taken(jobs: ApiServer, fields: dict[str, Any]) -> None:
    answer = jobs.request("POST", JOBS, job(**fields))
    assert answer.status == 201, answer.body


_ONE_OF = "give exactly one of nodeNames and labelSelector"
_VERSION = "not a version; write one like v1.23.0"
_IMAGE = "not the name of an image repository; write one like kubeedge/installation-package"
_DIGEST = "not a digest; write sha256: and 64 digits of 0-9 and a-f"
_SHARE = "neither a ratio from 0 to 1 nor a percentage; write one like 0.1 or 10%"
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"labelSelector": {}}, "spec", _ONE_OF),
    ({"nodeNames": None}, "spec", _ONE_OF),
    ({"nodeNames": []}, "spec", _ONE_OF),
    ({"version": None, "nodeNames": None, "image": "a/b"}, "spec.version", "Required value"),
    ({"nodeNames": ["n"] * 5001}, "spec.nodeNames", "must have at most 5000 items"),
    *(({"nodeNames": [name]}, "spec.nodeNames[0]", "should match") for name in ("a/b", "..", "a\nb", "A", "")),
    ({"nodeNames": ["x" * 254]}, "spec.nodeNames[0]", "may not be more than 253 bytes"),
    *(({"version": v}, "spec.version", _VERSION) for v in ("v1.2", "latest", "v1.2.3\n", "v١.٢.٣", "", "v1.2.3;id")),
    ({"version": "v1.2." + "3" * 300}, "spec.version", "may not be more than 63 bytes"),
    *(({"image": i}, "spec.image", _IMAGE) for i in ("me:pw@r.io/a/b", "https://r.io/a/b", "a/b c", "package", "a/B")),
    *(({"imageDigestGatter": {"amd64": d}}, "spec.imageDigestGatter.amd64", _DIGEST)
      for d in (A[:-1], "sha256:" + "A" * 64, "sha512:" + "a" * 64)),
    ({"imageDigestGatter": {"digests": {"riscv64": "x"}}}, "spec.imageDigestGatter.digests[riscv64]", _DIGEST),
    ({"imageDigestGatter": {"registryAPI": {"host": "http://r.io", "token": ""}}},
     "spec.imageDigestGatter.registryAPI.host", "not a host; write one like registry.io:5000, without a scheme"),
    *(({"failureTolerate": t}, "spec.failureTolerate", _SHARE)
      for t in ("10", "-1%", "101%", "NaN", "0.1%x", "1.1", "1e-1", " 0.1")),
    ({"concurrency": 0}, "spec.concurrency", "should be greater than or equal to 1"),
    ({"concurrency": -1}, "spec.concurrency", "should be greater than or equal to 1"),
    ({"concurrency": 2**31}, "spec.concurrency", "should be less than or equal to 2147483647"),
    ({"timeoutSeconds": -1}, "spec.timeoutSeconds", "should be greater than or equal to 0"),
    ({"timeoutSeconds": 2**31}, "spec.timeoutSeconds", "should be less than or equal to 2147483647"),
    ({"checkItems": ["gpu"]}, "spec.checkItems[0]", 'supported values: "cpu", "mem", "disk"'),
    ({"onOffline": "skip"}, "spec.onOffline", 'supported values: "Skip", "Wait", "Fail"'),
    ({"upgradeTool": "../keadm"}, "spec.upgradeTool", "not the name of a provider; write one like keadm"),
    ({"retry": 3}, "spec.retry", "it is 0 in a new job and may only grow"),
    ({"nodeNames": None, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
     "spec.labelSelector.matchExpressions[0].values", "In and NotIn need values, Exists and DoesNotExist take none"),
    ({"nodeNames": None, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
     "spec.labelSelector.matchExpressions[0].operator", "supported values"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "where", "said"), BAD, ids=[f"{where}-{n}" for n, (_, where, _) in enumerate(BAD)])
def test_a_bad_job_is_refused_with_its_sentence_by_the_server_alone(
    jobs: ApiServer, fields: dict[str, Any], where: str, said: str
) -> None:
    refusal = jobs.request("POST", JOBS, job(**fields))
    assert refusal.status == 422, refusal.body
    causes = {cause["field"]: cause["message"] for cause in refusal.json()["details"]["causes"]}
    assert said in causes[where], causes


def test_a_name_must_leave_room_for_the_names_of_its_events(jobs: ApiServer) -> None:
    assert jobs.request("POST", f"{JOBS}?dryRun=All", job() | {"metadata": {"name": "x" * 200}}).status == 201
    refusal = jobs.request("POST", f"{JOBS}?dryRun=All", job() | {"metadata": {"name": "x" * 201}})
    assert refusal.status == 422
    assert (
        "the name of a job has at most 200 characters, for its Events are named after it" in refusal.json()["message"]
    )


def test_an_unknown_field_is_refused_by_strict_validation(jobs: ApiServer) -> None:
    done = jobs.kubectl_result(
        "create", "--validate=strict", "-f", "-", stdin=json.dumps(job(timeoutSecondsOnEachNode=3))
    )
    assert done.returncode == 1
    assert 'unknown field "spec.timeoutSecondsOnEachNode"' in done.stderr


def test_the_refusal_that_a_person_sees_reads_like_sentences(jobs: ApiServer) -> None:
    bad = job(version="latest", labelSelector={"matchLabels": {"a": "b"}})
    done = jobs.kubectl_result("apply", "-f", "-", stdin=json.dumps(bad))
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'The NodeUpgradeJob "one" is invalid: ',
        f"* spec: Forbidden: {_ONE_OF}",
        f'* spec.version: Invalid value: "string": "latest" is {_VERSION}',
    ]


_LATER = "it cannot change after creation (only abort, retry, suspend can); make a new job"
_RETRY = "it is 0 in a new job and may only grow"
CHANGES: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({}, {"version": "v1.23.2"}, "spec.version", _LATER),
    ({}, {"nodeNames": ["edge-a", "edge-b"]}, "spec.nodeNames", _LATER),
    ({}, {"image": "a/b"}, "spec.image", _LATER),
    ({}, {"concurrency": 2}, "spec.concurrency", _LATER),
    ({}, {"timeoutSeconds": 2}, "spec.timeoutSeconds", _LATER),
    ({}, {"failureTolerate": "1"}, "spec.failureTolerate", _LATER),
    ({}, {"upgradeTool": "other"}, "spec.upgradeTool", _LATER),
    ({}, {"checkItems": ["cpu"]}, "spec.checkItems", _LATER),
    ({}, {"requireConfirmation": True}, "spec.requireConfirmation", _LATER),
    ({}, {"onOffline": "Wait"}, "spec.onOffline", _LATER),
    ({}, {"allowDowngrade": True}, "spec.allowDowngrade", _LATER),
    ({}, {"imageDigestGatter": {"amd64": A}}, "spec.imageDigestGatter", _LATER),
    ({"imageDigestGatter": {"amd64": A}}, {"imageDigestGatter": {"amd64": B}}, "spec.imageDigestGatter", _LATER),
    ({"imageDigestGatter": {"amd64": A}}, {"imageDigestGatter": NULL}, "spec.imageDigestGatter", _LATER),
    ({"nodeNames": None, "labelSelector": {"matchLabels": {"a": "b"}}}, {"labelSelector": {"matchLabels": {"a": "c"}}},
     "spec.labelSelector", _LATER),
    ({"abort": True}, {"abort": False}, "spec.abort", "an abort cannot be taken back; make a new job"),
    ({"abort": True}, {"retry": 1}, "spec.retry", "an aborted job is not tried again; make a new job"),
    ({}, {"abort": True, "retry": 1}, "spec.retry", "an aborted job is not tried again; make a new job"),
]  # fmt: skip


def merge(jobs: ApiServer, fields: dict[str, Any]) -> Any:
    """A merge patch of the spec; NULL stays null where PUT would keep it."""
    if any(value is NULL for value in fields.values()):
        current = jobs.request("GET", f"{JOBS}/one").json()
        current["spec"] |= {key: None if value is NULL else value for key, value in fields.items()}
        return jobs.request("PUT", f"{JOBS}/one", current)
    return jobs.request("PATCH", f"{JOBS}/one", {"spec": fields}, kind="application/merge-patch+json")


@pytest.mark.parametrize(
    ("born", "change", "where", "said"), CHANGES, ids=[f"{c[2]}-{n}" for n, c in enumerate(CHANGES)]
)
def test_what_may_not_change_is_refused_at_its_field(
    jobs: ApiServer, born: dict[str, Any], change: dict[str, Any], where: str, said: str
) -> None:
    assert jobs.request("POST", JOBS, job(**born)).status == 201
    refusal = merge(jobs, change)
    assert refusal.status == 422, refusal.body
    assert {cause["field"]: cause["message"] for cause in refusal.json()["details"]["causes"]}[
        where
    ] == f"Forbidden: {said}"


def test_what_may_change_changes_and_retry_only_grows(jobs: ApiServer) -> None:
    assert jobs.request("POST", JOBS, job()).status == 201
    for change in ({"suspend": True}, {"retry": 1}, {"suspend": False, "retry": 4}):
        assert merge(jobs, change).status == 200
    refusal = merge(jobs, {"retry": 3})
    assert refusal.json()["details"]["causes"][0]["message"] == f"Forbidden: {_RETRY}"
    assert merge(jobs, {"abort": True}).status == 200


@pytest.mark.parametrize(
    "was", [{}, {"imageDigestGatter": NULL}, {"nodeNames": [], "labelSelector": {}, "checkItems": []}]
)
def test_a_go_client_that_writes_the_object_back_changes_nothing(jobs: ApiServer, was: dict[str, Any]) -> None:
    """Go sends a null for imageDigestGatter where there is none, and no empty lists at all (spec/kubeedge.md 1.2)."""
    stored = jobs.request("POST", JOBS, job(**was)).json()
    stored["spec"] = {key: value for key, value in stored["spec"].items() if value != []} | {"imageDigestGatter": None}
    stored["metadata"]["finalizers"] = ["kubeedge.io/nodeupgradejob-controller"]
    answer = jobs.request("PUT", f"{JOBS}/one", stored)
    assert answer.status == 200, answer.body


def test_metadata_of_a_job_that_was_stored_before_our_rules_can_still_change(jobs: ApiServer) -> None:
    """KubeEdge's CRD had no rules: such an object must be able to lose its finalizer."""
    crd = json.loads(jobs.kubectl("get", "crd", "nodeupgradejobs.operations.kubeedge.io", "-o", "json"))
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    path = "/spec/versions/0/schema/openAPIV3Schema"
    old = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    url = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeupgradejobs.operations.kubeedge.io"
    kind = "application/json-patch+json"
    bad = job(version="latest", concurrency=-3, labelSelector={}, failureTolerate="NaN")
    bad["metadata"]["finalizers"] = ["kubeedge.io/nodeupgradejob-controller"]
    assert jobs.request("PATCH", url, [{"op": "replace", "path": path, "value": loose}], kind=kind).status == 200
    try:
        wait_until(lambda: jobs.request("POST", JOBS, bad).status == 201, 20, "the loose schema to take the bad job")
    finally:
        assert jobs.request("PATCH", url, [{"op": "replace", "path": path, "value": old}], kind=kind).status == 200
    probe = job(version="latest") | {"metadata": {"name": "probe"}}
    wait_until(lambda: jobs.request("POST", f"{JOBS}?dryRun=All", probe).status == 422, 20, "our schema to be back")
    labelled = {"metadata": {"labels": {"a": "b"}, "finalizers": None}}
    answer = jobs.request("PATCH", f"{JOBS}/one", labelled, kind="application/merge-patch+json")
    assert answer.status == 200, answer.body


def test_the_largest_job_can_be_changed_and_its_status_written(jobs: ApiServer) -> None:
    names = [f"edge-{i:04}-in-hall-north" for i in range(4000)]
    assert jobs.request("POST", JOBS, job(nodeNames=names)).status == 201
    assert merge(jobs, {"suspend": True}).status == 200
    entries = [{"nodeName": name, "phase": "Pending", "since": "2026-11-29T20:31:07Z"} for name in names]
    operation = {"op": "add", "path": "/status", "value": {"phase": "Init", "nodeStatus": entries}}
    answer = jobs.request("PATCH", f"{JOBS}/one/status", [operation], kind="application/json-patch+json")
    assert answer.status == 200, answer.body
    assert answer.json()["status"]["nodeStatus"][3999]["attempt"] == 0


def test_columns_short_name_and_category(jobs: ApiServer) -> None:
    jobs.request("POST", JOBS, job())
    status = {"phase": "InProgress", "done": "7/10", "failed": 1, "waiting": "for edge-a", "reason": "none"}
    jobs.request("PATCH", f"{JOBS}/one/status", {"status": status}, kind="application/merge-patch+json")
    narrow = jobs.kubectl("get", "nuj").splitlines()
    assert narrow[0].split() == ["NAME", "VERSION", "PHASE", "DONE", "FAILED", "AGE"]
    assert narrow[1].split()[:5] == ["one", "v1.23.1", "InProgress", "7/10", "1"]
    wide = jobs.kubectl("get", "beehive", "-o", "wide").splitlines()
    assert wide[0].split() == ["NAME", "VERSION", "PHASE", "DONE", "FAILED", "AGE", "WAITING", "REASON"]
    assert "for edge-a" in wide[1]


def test_kubectl_explain_tells_meaning_unit_and_default(server: ApiServer) -> None:
    told = " ".join(server.kubectl("explain", "nuj.spec.failureTolerate").split())
    assert "FIELD: failureTolerate <string>" in told
    assert "a ratio from 0 to 1 such as 0.1, or a percentage such as 10%" in told
    assert "Default 0.1." in told
    told = " ".join(server.kubectl("explain", "nuj.spec.timeoutSeconds").split())
    assert "FIELD: timeoutSeconds <integer>" in told
    assert "Seconds that a node may be silent" in told
    assert "rolled back" in server.kubectl("explain", "nuj.status.failed")
