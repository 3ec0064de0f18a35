"""Our webhook beside a real kube-apiserver: registered as it is shipped, kept right under the shipped RBAC."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from beehive.api.crd import SERVICE
from beehive.config import Duration
from beehive.messages.objects import Denied, Jobs, Missing, Nodes, Patched, PatchObject, WriteAnswer
from beehive.world import World
from modules.admission.config import Config, Register
from modules.admission.module import Admission
from tests.fakes.alone import alone
from tests.modules.admission.serving import Secrets, answering, listens, until
from tests.real.running.apiserver import Answer, ApiServer
from tests.real.running.processes import free_ports, wait_until

CONFIGS = Path(__file__).parents[2] / "configs"
CRD = CONFIGS / "crd/nodeupgradejobs.yaml"
GROUP = "/apis/operations.kubeedge.io"
JOBS1, JOBS = f"{GROUP}/v1alpha1/nodeupgradejobs", f"{GROUP}/v1alpha2/nodeupgradejobs"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeupgradejobs.operations.kubeedge.io"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
MERGE = "application/merge-patch+json"


async def call(server: ApiServer, method: str, path: str, body: object = None, **more: Any) -> Answer:
    """A request, in a thread: the webhook must answer meanwhile."""
    return await asyncio.to_thread(server.request, method, path, body, **more)


async def kubectl(server: ApiServer, *arguments: str, stdin: str | None = None) -> Any:
    """kubectl, in a thread."""
    return await asyncio.to_thread(server.kubectl_result, *arguments, stdin=stdin)


def installed(server: ApiServer) -> str:
    """CRD, RBAC and webhook configurations as they are shipped; a token of the ServiceAccount."""
    server.kubectl("apply", "-f", str(CRD))
    token = server.service_account_token("beehive", "kubeedge", CONFIGS / "rbac.yaml", CONFIGS / "webhooks.yaml")
    wait_until(lambda: server.request("GET", JOBS).status == 200, 20, "the API server to serve the jobs")
    wait_until(lambda: not server.kubectl_result("get", "nuj").returncode, 20, "kubectl to know the short name")
    return token


def emptied(server: ApiServer) -> None:
    """No job, whatever its finalizers."""
    server.request("DELETE", JOBS)
    for name in (one["metadata"]["name"] for one in server.request("GET", JOBS).json()["items"]):
        server.request("PATCH", f"{JOBS}/{name}", {"metadata": {"finalizers": None}}, kind=MERGE)


def removed(server: ApiServer) -> None:
    """No webhook, and the CRD as it is shipped."""
    for kind in ("validating", "mutating"):
        server.request("DELETE", f"{HOOKS}/{kind}webhookconfigurations/beehive")
    shipped = {"url": None, "caBundle": None, "service": {**SERVICE, "path": "/convert"}}
    stanza = {"spec": {"conversion": {"webhook": {"clientConfig": shipped}}}}
    assert server.request("PATCH", DEFINITION, stanza, kind=MERGE).status == 200


@asynccontextmanager
async def webhook(
    server: ApiServer, token: str, secrets: Secrets | None = None, port: int = 0, nodes: Nodes | None = None
) -> AsyncIterator[Admission]:
    """The module at work and asked by the API server; it writes registrations with `token`. They stay when it ends."""
    port = port or free_ports(1)[0]
    config = Config(
        address="127.0.0.1", port=port, retry_first=Duration(0.05), look=Duration(0.5),
        register=Register(url=f"https://127.0.0.1:{port}"),
    )  # fmt: skip
    module = Admission(config, World())
    done: list[WriteAnswer] = []

    async def patched(request: PatchObject) -> WriteAnswer:
        answer = await call(server, "PATCH", request.path, request.patch, token=token, kind=MERGE)
        refused = Missing() if answer.status == 404 else Denied(answer.body.decode())
        done.append(Patched() if answer.status == 200 else refused)
        return done[-1]

    async with alone(module, name="admission") as peers:
        answering(peers, secrets or Secrets(), nodes or Nodes(()), Jobs(()))
        peers.answer(PatchObject, patched)
        await until(lambda: module.ca and listens(port) and len(done) >= 3)
        assert done[:3] == [Patched()] * 3, done
        await asked(server, module)
        yield module


async def asked(server: ApiServer, module: Admission) -> None:
    """Wait until the API server asks for verdicts and for conversions."""
    async with asyncio.timeout(30):
        while True:
            before = module.counters.get(200, 0)
            verdict = await call(server, "POST", f"{JOBS}?dryRun=All", job("probe"))
            between = module.counters.get(200, 0)
            converted = await call(server, "POST", f"{JOBS1}?dryRun=All", job("probe", "v1alpha1"))
            if verdict.status == converted.status == 201 and before < between:
                return
            await asyncio.sleep(0.05)


def verdicts(server: ApiServer) -> int:
    """How often the server asked for verdicts, by its own count."""
    lines = server.request("GET", "/metrics").body.decode().splitlines()
    wanted = ("apiserver_admission_webhook_request_total{", 'name="nodeupgradejobs.admission.beehive"')
    return int(sum(float(line.rpartition(" ")[2]) for line in lines if all(part in line for part in wanted)))


def job(name: str, api: str = "v1alpha2", **fields: Any) -> dict[str, Any]:
    """A good job, but for `fields` (None takes one away)."""
    spec = {"version": "v1.23.1", "nodeNames": ["edge-a"], **fields}
    return {
        "apiVersion": f"operations.kubeedge.io/{api}",
        "kind": "NodeUpgradeJob",
        "metadata": {"name": name},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }
