"""A real kube-apiserver asks our webhook, over TLS on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from beehive.config import Duration
from beehive.messages.objects import GetSecret, PutSecret
from beehive.world import World
from modules.admission.config import Config
from modules.admission.module import Admission
from modules.admission.registration import configuration
from tests.fakes.alone import alone
from tests.modules.admission.test_admission import Secrets, until
from tests.real.running.apiserver import Answer, ApiServer
from tests.real.running.processes import wait_until

CRD = Path(__file__).parents[2] / "configs/crd/nodeupgradejobs.yaml"
JOBS = "/apis/operations.kubeedge.io/v1alpha2/nodeupgradejobs"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NAME = "beehive-under-test"


@pytest.fixture(scope="module")
def server(apiserver: ApiServer) -> ApiServer:
    """The shared API server with the CRD."""
    apiserver.kubectl("apply", "-f", str(CRD))
    wait_until(lambda: apiserver.request("GET", JOBS).status == 200, 20, "the API server to serve the jobs")
    return apiserver


@asynccontextmanager
async def registered(server: ApiServer, path: str = "/validate") -> AsyncIterator[Admission]:
    """Our webhook at work, and asked by the API server by now. It stays registered when it has ended."""
    module = Admission(Config(address="127.0.0.1", port=0, retry_first=Duration(0.05)), World())
    secrets = Secrets()
    async with alone(module, name="admission") as peers:
        peers.answer(GetSecret, secrets.get)
        peers.answer(PutSecret, secrets.put)
        await until(lambda: module.ca and not peers.module.waits_for)
        hook = configuration(NAME, {"url": f"https://127.0.0.1:{module.port}{path}"}, module.ca)
        assert (await call(server, "POST", HOOKS, hook)).status == 201
        await _until_asked(server, module)
        yield module


@pytest.fixture(autouse=True)
def _clean(server: ApiServer) -> Iterator[None]:
    yield
    server.request("DELETE", f"{HOOKS}/{NAME}")
    server.request("DELETE", JOBS)


async def _until_asked(server: ApiServer, module: Admission) -> None:
    async with asyncio.timeout(30):
        while not module.counters:
            await call(server, "POST", f"{JOBS}?dryRun=All", job("probe"))
            await asyncio.sleep(0.05)


async def call(server: ApiServer, method: str, path: str, body: object = None, **more: Any) -> Answer:
    """A request, in a thread: the webhook must answer meanwhile."""
    return await asyncio.to_thread(server.request, method, path, body, **more)


def job(name: str, **fields: Any) -> dict[str, Any]:
    spec = {"version": "v1.23.1", "nodeNames": ["edge-a"], **fields}
    return {
        "apiVersion": "operations.kubeedge.io/v1alpha2",
        "kind": "NodeUpgradeJob",
        "metadata": {"name": name},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


async def test_it_refuses_what_no_schema_can_say(server: ApiServer) -> None:
    bad = job("bad", nodeNames=None, labelSelector={"matchLabels": {"a b": "c"}})
    assert (await call(server, "POST", f"{JOBS}?dryRun=All", bad)).status == 201, "the schema alone takes it"
    async with registered(server):
        done = await asyncio.to_thread(server.kubectl_result, "apply", "-f", "-", stdin=json.dumps(bad))
        assert done.returncode == 1
        assert 'admission webhook "nodeupgradejobs.admission.beehive" denied the request' in done.stderr
        assert 'spec.labelSelector.matchLabels: "a b" cannot be the key of a label' in done.stderr
        too_large = job("large", nodeNames=[f"{i:05}-{'x' * 80}" for i in range(5000)])
        refusal = await call(server, "POST", JOBS, too_large)
        assert refusal.status == 422
        assert "would not fit into one object; make several jobs" in refusal.json()["message"]


async def test_good_jobs_pass_and_change_as_they_may(server: ApiServer) -> None:
    async with registered(server) as module:
        before = module.counters[200]
        assert (await call(server, "POST", JOBS, job("good"))).status == 201
        for patch in (
            {"spec": {"suspend": True}},
            {"metadata": {"finalizers": ["kubeedge.io/nodeupgradejob-controller"]}},
        ):
            answer = await call(server, "PATCH", f"{JOBS}/good", patch, kind="application/merge-patch+json")
            assert answer.status == 200, answer.body
        assert module.counters == {200: before + 3}
        status = {"status": {"phase": "Init"}}
        answer = await call(server, "PATCH", f"{JOBS}/good/status", status, kind="application/merge-patch+json")
        assert answer.status == 200
        assert module.counters == {200: before + 3}, "status writes do not wait for a webhook"
        off = {"metadata": {"finalizers": None}}
        assert (await call(server, "PATCH", f"{JOBS}/good", off, kind="application/merge-patch+json")).status == 200


async def test_with_the_webhook_down_jobs_are_still_taken_and_the_schema_still_judges(server: ApiServer) -> None:
    async with registered(server):
        pass
    assert (await call(server, "GET", f"{HOOKS}/{NAME}")).status == 200
    assert (await call(server, "POST", JOBS, job("down"))).status == 201
    assert (await call(server, "POST", JOBS, job("bad", version="latest"))).status == 422


async def test_a_registration_that_points_at_kubeedges_path_works_too(server: ApiServer) -> None:
    async with registered(server, "/nodeupgradejobs"):
        bad = job("bad", nodeNames=None, labelSelector={"matchLabels": {"a": "-"}})
        refusal = await call(server, "POST", JOBS, bad)
        assert refusal.status == 422
        assert "cannot be the value of a label" in refusal.json()["message"]
