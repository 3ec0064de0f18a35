"""A real kube-apiserver asks our webhook, over TLS on loopback: verdicts, warnings, certificates."""

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from beehive.world import World
from modules.admission.certificates import make_ca
from tests.modules.admission.serving import Secrets, until
from tests.real.running.apiserver import ApiServer
from tests.real.webhook import (
    DEFINITION,
    HOOKS,
    JOBS,
    JOBS1,
    MERGE,
    call,
    emptied,
    installed,
    job,
    kubectl,
    removed,
    verdicts,
    webhook,
)  # fmt: skip


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


async def test_it_refuses_what_no_schema_can_say(apiserver: ApiServer, token: str) -> None:
    bad = job("bad", nodeNames=None, labelSelector={"matchLabels": {"a b": "c"}})
    assert (await call(apiserver, "POST", f"{JOBS}?dryRun=All", bad)).status == 201, "the schema alone takes it"
    async with webhook(apiserver, token):
        done = await kubectl(apiserver, "apply", "-f", "-", stdin=json.dumps(bad))
        assert done.returncode == 1
        assert 'admission webhook "nodeupgradejobs.admission.beehive" denied the request' in done.stderr
        assert 'spec.labelSelector.matchLabels: "a b" cannot be the key of a label' in done.stderr
        too_large = job("large", nodeNames=[f"{i:05}-{'x' * 80}" for i in range(5000)])
        refusal = await call(apiserver, "POST", JOBS, too_large)
        assert refusal.status == 422
        assert "would not fit into one object; make several jobs" in refusal.json()["message"]


async def test_good_jobs_pass_and_change_as_they_may(apiserver: ApiServer, token: str) -> None:
    async with webhook(apiserver, token):
        assert (await call(apiserver, "POST", JOBS, job("good"))).status == 201
        for patch in (
            {"spec": {"suspend": True}},
            {"metadata": {"finalizers": ["kubeedge.io/nodeupgradejob-controller"]}},
        ):
            answer = await call(apiserver, "PATCH", f"{JOBS}/good", patch, kind=MERGE)
            assert answer.status == 200, answer.body
        before = await asyncio.to_thread(verdicts, apiserver)
        status = {"status": {"phase": "Init"}}
        assert (await call(apiserver, "PATCH", f"{JOBS}/good/status", status, kind=MERGE)).status == 200
        assert before == await asyncio.to_thread(verdicts, apiserver), "status writes do not wait for a verdict"
        off = {"metadata": {"finalizers": None}}
        assert (await call(apiserver, "PATCH", f"{JOBS}/good", off, kind=MERGE)).status == 200


async def test_kubectl_prints_the_warnings_and_the_old_version_is_one(apiserver: ApiServer, token: str) -> None:
    async with webhook(apiserver, token):
        odd = job("odd", "v1alpha1", version="1.23.1", image="a/b:v1")
        done = await kubectl(apiserver, "apply", "-f", "-", stdin=json.dumps(odd))
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines() == [
            "Warning: operations.kubeedge.io/v1alpha1 is kept for old clients and knows less; write "
            "operations.kubeedge.io/v1alpha2",
            "Warning: spec.version: 1.23.1 is read as v1.23.1; write it so",
            "Warning: spec.image: its tag or digest is ignored, for the tag is made from spec.version; leave it out",
            "Warning: spec.nodeNames: there is no Node edge-a; the job will count them as failed",
        ]
        stored = (await call(apiserver, "GET", f"{JOBS}/odd")).json()["spec"]
        assert (stored["version"], stored["image"]) == ("1.23.1", "a/b:v1"), "nothing is rewritten: GitOps tools"
        again = await kubectl(apiserver, "apply", "-f", "-", stdin=json.dumps(odd))
        assert "unchanged" in again.stdout


async def test_with_the_webhook_down_jobs_are_still_taken_and_the_schema_still_judges(
    apiserver: ApiServer, token: str
) -> None:
    async with webhook(apiserver, token):
        pass
    assert (await call(apiserver, "GET", f"{HOOKS}/validatingwebhookconfigurations/beehive")).status == 200
    assert (await call(apiserver, "POST", JOBS, job("down"))).status == 201
    assert (await call(apiserver, "POST", JOBS, job("bad", version="latest"))).status == 422


async def test_a_new_ca_reaches_crd_and_configurations_and_no_call_fails_meanwhile(
    apiserver: ApiServer, token: str
) -> None:
    secrets = Secrets()
    async with webhook(apiserver, token, secrets) as module:
        old, new = module.ca, make_ca(World().now())
        secrets.data |= {"ca.crt": new.certificate, "ca.key": new.key}
        bad = job("bad", nodeNames=None, labelSelector={"matchLabels": {"a b": "c"}})
        while module.ca == old:
            for path in (JOBS, JOBS1):
                answer = await call(apiserver, "POST", f"{path}?dryRun=All", bad | {"apiVersion": path[6:-16]})
                assert answer.status == 422, "it would be 201 if the call of the webhook had failed"
        await until(lambda: _bundle(apiserver) == new.certificate)
        assert (await call(apiserver, "POST", f"{JOBS}?dryRun=All", bad)).status == 422


def _bundle(server: ApiServer) -> bytes:
    found = server.request("GET", DEFINITION).json()
    return base64.b64decode(found["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"])


def test_our_account_may_keep_these_three_objects_right_and_no_others(apiserver: ApiServer, token: str) -> None:
    for path in (DEFINITION, f"{HOOKS}/validatingwebhookconfigurations/beehive"):
        assert apiserver.request("PATCH", path, {}, token=token, kind=MERGE).status == 200
    for path in (
        f"{HOOKS}/validatingwebhookconfigurations/other",
        f"{HOOKS}/mutatingwebhookconfigurations/other",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/others.example.com",
    ):
        assert apiserver.request("PATCH", path, {}, token=token, kind=MERGE).status == 403
    assert apiserver.request("DELETE", DEFINITION, token=token).status == 403


async def test_a_registration_that_points_at_kubeedges_path_works_too(apiserver: ApiServer, token: str) -> None:
    """Their rule names v1alpha1; with `Equivalent`, the default, requests of v1alpha2 come so, too."""
    ours, name = f"{HOOKS}/validatingwebhookconfigurations/beehive", "validatenodeupgradejob.kubeedge.io"
    bad = job("bad", nodeNames=None, labelSelector={"matchLabels": {"a": "-"}})
    async with webhook(apiserver, token) as module:
        found = (await call(apiserver, "GET", ours)).json()
        hook = found["webhooks"][0] | {"name": name, "failurePolicy": "Fail"}
        hook["clientConfig"]["url"] = f"https://127.0.0.1:{module.port}/nodeupgradejobs"
        hook["rules"][0] |= {"apiVersions": ["v1alpha1"], "operations": ["CREATE", "UPDATE", "DELETE"]}
        theirs = found | {"metadata": {"name": "theirs"}, "webhooks": [hook]}
        assert (await call(apiserver, "DELETE", ours)).status == 200
        assert (await call(apiserver, "POST", f"{HOOKS}/validatingwebhookconfigurations", theirs)).status == 201
        try:
            async with asyncio.timeout(20):
                while not await _refused(apiserver, bad, name):  # noqa: ASYNC110 - the server sets no event
                    await asyncio.sleep(0.05)
            assert (await call(apiserver, "POST", JOBS, job("good"))).status == 201
            assert (await call(apiserver, "DELETE", f"{JOBS}/good")).status == 200
        finally:
            await call(apiserver, "DELETE", f"{HOOKS}/validatingwebhookconfigurations/theirs")


async def _refused(server: ApiServer, bad: dict[str, Any], by: str) -> bool:
    answer = await call(server, "POST", f"{JOBS}?dryRun=All", bad)
    return answer.status == 422 and by in answer.json()["message"]
