"""Clients of v1alpha1 and of v1alpha2 on one real kube-apiserver, our webhook between them; and without it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from beehive.api.crd import schema, schema_v1alpha1
from tests.modules.admission.serving import Secrets
from tests.real.running.apiserver import ApiServer
from tests.real.running.build import KUBECTL
from tests.real.running.processes import wait_until
from tests.real.webhook import JOBS, JOBS1, MERGE, call, emptied, installed, job, kubectl, removed, webhook
from tests.rules.test_crd import every
from tests.vectors import vector

OLD_KIND = "nodeupgradejobs.v1alpha1.operations.kubeedge.io"
ENTRY = {"nodeName": "edge-a", "phase": "InProgress", "attempt": 1, "revision": 3, "since": "2026-11-29T20:31:07Z"}


@pytest.fixture(scope="module")
def account(apiserver: ApiServer) -> Iterator[str]:
    """A token of the ServiceAccount in the shared API server, everything else as it is shipped."""
    yield installed(apiserver)
    removed(apiserver)


@pytest.fixture
def token(apiserver: ApiServer, account: str) -> Iterator[str]:
    """The same, for a test that may leave jobs."""
    yield account
    emptied(apiserver)


async def test_both_clients_see_and_change_the_same_job(apiserver: ApiServer, token: str) -> None:
    async with webhook(apiserver, token):
        assert (await call(apiserver, "POST", JOBS1, job("both", "v1alpha1", concurrency=2))).status == 201
        stored = (await call(apiserver, "GET", f"{JOBS}/both")).json()
        assert (stored["spec"]["concurrency"], stored["spec"]["onOffline"]) == (2, "Skip")
        async with _watch(apiserver) as seen:
            status = {"status": {"phase": "InProgress", "total": 1, "nodeStatus": [ENTRY]}}
            assert (await call(apiserver, "PATCH", f"{JOBS}/both/status", status, kind=MERGE)).status == 200
            told = await _until(seen, lambda one: one["object"].get("status", {}).get("state") == "upgrading")
            assert told["object"]["status"]["status"][0]["history"]["historyID"] == f"{stored['metadata']['uid']}.1"
            mine = told["object"]["status"]["status"][0]
            mine |= {
                "state": "completed",
                "history": {"result": "upgrade_failed_rollback_success", "reason": "too hot"},
            }
            patch = {"status": {"status": [mine], "state": "upgrading"}}
            answer = await call(apiserver, "PATCH", f"{JOBS1}/both/status", patch, kind=MERGE)
            assert answer.status == 200, answer.body
            assert answer.json()["status"]["status"] == [mine]
            now = (await call(apiserver, "GET", f"{JOBS}/both")).json()["status"]
            changed = {"phase": "Failure", "reasonCode": "RolledBack", "reason": "too hot"}
            assert _holds(now["nodeStatus"], [ENTRY | changed])
            assert now["total"] == 1, "what v1alpha1 does not know is still there"
            assert (await call(apiserver, "DELETE", f"{JOBS1}/both")).status == 200
            await _until(seen, lambda one: one["type"] == "DELETED")
        assert (await call(apiserver, "GET", f"{JOBS}/both")).status == 404


@asynccontextmanager
async def _watch(server: ApiServer) -> AsyncIterator[asyncio.StreamReader]:
    """kubectl's own watch of v1alpha1, an event a line."""
    process = await asyncio.create_subprocess_exec(
        KUBECTL.path(), "get", OLD_KIND, "--watch", "--output-watch-events", "-o", "json",
        stdout=asyncio.subprocess.PIPE, env={"KUBECONFIG": str(server.kubeconfig), "HOME": "/nonexistent"},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.terminate()
        await process.wait()


async def _until(seen: asyncio.StreamReader, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first event that is wanted."""
    async with asyncio.timeout(20):
        while line := await seen.readline():
            event: dict[str, Any] = json.loads(line)
            if wanted(event):
                return event
    raise AssertionError("the watch ended")


async def test_kubeedges_manifests_apply_unchanged_in_both_versions_and_again(apiserver: ApiServer, token: str) -> None:
    async with webhook(apiserver, token):
        for name in (
            "v1alpha1_nodeupgradejob",
            "v1alpha2_nodeupgradejob_failure",
            "v1alpha2_nodeupgradejob_in_progress",
        ):
            written = vector(f"cr_{name}")
            path = JOBS1 if written["apiVersion"].endswith("v1alpha1") else JOBS
            manifest = json.dumps({key: value for key, value in written.items() if key != "status"})
            for said in ("created", "unchanged"):
                done = await kubectl(apiserver, "apply", "--validate=strict", "-f", "-", stdin=manifest)
                assert said in done.stdout, done.stderr
            current = (await call(apiserver, "GET", f"{path}/job-1")).json()
            answer = await call(apiserver, "PUT", f"{path}/job-1/status", current | {"status": written["status"]})
            assert answer.status == 200, answer.body
            told = (await call(apiserver, "GET", f"{path}/job-1")).json()
            assert _holds(told["status"], written["status"])
            assert _holds(told["spec"], written["spec"])
            await asyncio.to_thread(emptied, apiserver)


def _holds(whole: Any, part: Any) -> bool:
    """Everything of `part` is in `whole`, which may have more fields."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(_holds(whole.get(key), value) for key, value in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(_holds, whole, part))
    return bool(whole == part)


async def test_an_abort_cannot_be_taken_back_through_v1alpha1(apiserver: ApiServer, token: str) -> None:
    async with webhook(apiserver, token):
        assert (await call(apiserver, "POST", JOBS, job("stop", abort=True))).status == 201
        told = (await call(apiserver, "GET", f"{JOBS1}/stop")).json()
        told["metadata"]["labels"] = {"a": "b"}
        assert (await call(apiserver, "PUT", f"{JOBS1}/stop", told)).status == 200, "a label is nobody's business"
        del told["metadata"]["annotations"], told["metadata"]["resourceVersion"]
        told["metadata"]["resourceVersion"] = (await call(apiserver, "GET", f"{JOBS1}/stop")).json()["metadata"][
            "resourceVersion"
        ]
        refusal = await call(apiserver, "PUT", f"{JOBS1}/stop", told)
        assert refusal.status == 422
        assert "spec.abort: an abort cannot be taken back; make a new job" in refusal.json()["message"]
        assert (await call(apiserver, "GET", f"{JOBS}/stop")).json()["spec"]["abort"] is True


BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({"version": "latest"}, '"latest" is not a version; write one like v1.23.0'),
    ({"nodeNames": None}, "give exactly one of nodeNames and labelSelector"),
    ({"labelSelector": {}}, "give exactly one of nodeNames and labelSelector"),
    ({"imageDigestGatter": {"value": "sha256:1"}}, "write sha256: and 64 digits of 0-9 and a-f"),
    ({"concurrency": 0}, "should be greater than or equal to 1"),
    ({"failureTolerate": "NaN"}, "neither a ratio from 0 to 1 nor a percentage"),
    ({"nodeNames": ["n"] * 5001}, "must have at most 5000 items"),
)


async def test_v1alpha1_is_judged_by_its_own_schema_with_the_same_sentences(apiserver: ApiServer, token: str) -> None:
    async with webhook(apiserver, token):
        for fields, said in BAD:
            body = job("bad", "v1alpha1", **fields)
            refusal = await call(apiserver, "POST", f"{JOBS1}?dryRun=All", body)
            assert refusal.status == 422, refusal.body
            assert said in refusal.json()["message"]


async def test_with_the_webhook_down_our_controllers_version_works_and_v1alpha1_comes_back_with_it(
    apiserver: ApiServer, token: str
) -> None:
    secrets = Secrets()
    async with webhook(apiserver, token, secrets):
        old = json.dumps(job("old", "v1alpha1"))
        assert (await kubectl(apiserver, "apply", "-f", "-", stdin=old)).returncode == 0
        assert (
            await kubectl(apiserver, "apply", "--server-side", "-f", "-", stdin=old.replace("old", "ssa"))
        ).returncode == 0
    for name in ("old", "ssa"):
        assert (await call(apiserver, "GET", f"{JOBS1}/{name}")).status == 500
        status = {"status": {"phase": "InProgress", "nodeStatus": [ENTRY]}}
        answer = await call(apiserver, "PATCH", f"{JOBS}/{name}/status", status, kind=MERGE)
        assert answer.status == 200, answer.body
        step = [{"op": "replace", "path": "/status/nodeStatus/0/revision", "value": 4}]
        answer = await call(apiserver, "PATCH", f"{JOBS}/{name}/status", step, kind="application/json-patch+json")
        assert answer.status == 200, answer.body
        assert (await call(apiserver, "PATCH", f"{JOBS}/{name}", {"spec": {"suspend": True}}, kind=MERGE)).status == 200
    assert (await call(apiserver, "GET", JOBS)).status == 200
    assert (await call(apiserver, "DELETE", f"{JOBS}/ssa")).status == 200
    async with webhook(apiserver, token, secrets):
        told = (await call(apiserver, "GET", f"{JOBS1}/old")).json()
        assert told["status"]["status"][0]["state"] == "upgrading"
        assert json.loads(told["metadata"]["annotations"]["operations.kubeedge.io/only-in-v1alpha2"])["suspend"] is True


async def test_a_job_of_5000_nodes_through_v1alpha1(apiserver: ApiServer, token: str) -> None:
    names = [f"edge-{i:04}" for i in range(5000)]
    entries = [ENTRY | {"nodeName": name} for name in names]
    async with webhook(apiserver, token):
        assert (await call(apiserver, "POST", JOBS, job("large", nodeNames=names))).status == 201
        status = {"status": {"phase": "InProgress", "nodeStatus": entries}}
        assert (await call(apiserver, "PATCH", f"{JOBS}/large/status", status, kind=MERGE)).status == 200
        told = (await call(apiserver, "GET", f"{JOBS1}/large")).json()
        assert len(told["status"]["status"]) == 5000
        odd = [{"op": "replace", "path": "/status/status/4999/state", "value": "Checking"}]
        answer = await call(apiserver, "PATCH", f"{JOBS1}/large/status", odd, kind="application/json-patch+json")
        assert answer.status == 200, answer.body[:500]
        assert answer.json()["status"]["status"][4999]["state"] == "Checking"
        stored = (await call(apiserver, "GET", f"{JOBS}/large")).json()
        assert _holds(stored["status"]["nodeStatus"], entries)


async def test_columns_of_v1alpha1(apiserver: ApiServer, token: str) -> None:
    async with webhook(apiserver, token):
        await call(apiserver, "POST", JOBS, job("one"))
        await call(apiserver, "PATCH", f"{JOBS}/one/status", {"status": {"phase": "Completed"}}, kind=MERGE)
        table = (await kubectl(apiserver, "get", OLD_KIND)).stdout.splitlines()
        assert table[0].split() == ["NAME", "VERSION", "STATE", "AGE"]
        assert table[1].split()[:3] == ["one", "v1.23.1", "completed"]


def test_kubectl_explain_knows_every_field_of_both_versions(apiserver: ApiServer, token: str) -> None:
    """What kubectl explain prints is in the server's OpenAPI documents."""
    for version, ours in (("v1alpha2", schema()), ("v1alpha1", schema_v1alpha1())):
        path = f"/openapi/v3/apis/operations.kubeedge.io/{version}"
        wait_until(lambda: apiserver.request("GET", path).status == 200, 20, f"the document at {path}")  # noqa: B023
        document = apiserver.request("GET", path).json()["components"]["schemas"]
        (served,) = (one for name, one in document.items() if name.endswith(".NodeUpgradeJob"))
        fields = [(where, one["description"]) for where, one in every(ours) if where and "description" in one]
        assert len(fields) > 40
        told = {where: one.get("description") for where, one in every(served)}
        for where, description in fields:
            if not where.startswith((".apiVersion", ".kind")):  # the server has its own words for these two
                assert told[where] == description
    text = " ".join(
        apiserver.kubectl(
            "explain", "nuj.spec.imageDigestGatter.value", "--api-version=operations.kubeedge.io/v1alpha1"
        ).split()
    )
    assert "Digest of the image, for amd64 and arm64 nodes alike" in text
