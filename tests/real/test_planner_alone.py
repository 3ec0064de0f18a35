"""One job alone, on a real kube-apiserver: a plan that trips, jobs that KubeEdge left, digests of a real registry."""

import base64
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from beehive.api.crd import crd
from modules.demo.children import Child
from tests.fakes.edges import edge_node, names
from tests.fakes.jobs import NEW, OLD
from tests.real.running.apiserver import ApiServer
from tests.real.running.registry import Registry
from tests.real.waving import JOBS, Field
from tests.vectors import vector

NODES = (*names(11), "edge-a", "edge-b")
OLD_JOBS = "/apis/operations.kubeedge.io/v1alpha1/nodeupgradejobs"
TRIPPING = (sys.executable, "-m", "tests.fakes.tripping_cloud")


@pytest.fixture(scope="module")
def place(_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    """A server whose jobs were defined, and written, by KubeEdge; then our definition was applied over its."""
    server = ApiServer.started(tmp_path_factory.mktemp("alone-apiserver"))
    try:
        leave_jobs_of_kubeedge(server)
        yield Field(server, tmp_path_factory.mktemp("alone"), NODES)
    finally:
        server.remove()


@pytest.fixture
def field(place: Field, tmp_path: Path) -> Iterator[Field]:
    place.begin(tmp_path)
    try:
        yield place
    finally:
        place.end()


def condition(field: Field, job: str, kind: str) -> dict[str, str]:
    found = [one for one in field.status(job).get("conditions", ()) if one["type"] == kind]
    return found[0] if found else {}


# ---- promise 11 --------------------------------------------------------------------------------------------------


def test_a_job_on_which_the_plan_trips_is_set_aside_and_the_others_go_on(field: Field) -> None:
    cloud = field.add_cloud()
    cloud.process = Child("the cloud", (*TRIPPING, "--mode", "cloud", "--config", str(cloud.config)), cloud.log)
    cloud.wait_until_ready()
    with field.edges(work=0.2) as edges:
        field.apply_job("trips", NODES[:2], concurrency=2)
        field.apply_job("north", NODES[2:4], concurrency=2)
        assert field.wait_for_end("north")["phase"] == "Completed"
        field.wait(lambda: condition(field, "trips", "Progressing"), "it is said on the job")
        said = condition(field, "trips", "Progressing")
        assert (said["status"], said["reason"]) == ("False", "SetAside")
        assert "nothing is started until its spec changes (log mark " in said["message"]
        mark = said["message"].rpartition("log mark ")[2].rstrip(")")
        assert mark in cloud.log.read_text(), "who reads the log finds it"
        cloud.process.must_run()
        field.server.kubectl("patch", "nuj", "trips", "--type=merge", "-p", '{"spec":{"suspend":true}}')
        field.server.kubectl("patch", "nuj", "trips", "--type=merge", "-p", '{"spec":{"suspend":false}}')
        assert field.wait_for_end("trips")["phase"] == "Completed", "a change of its spec takes it up again"
        assert edges.saw().ran() == dict.fromkeys(NODES[:4], 1)
    for job in ("trips", "north"):
        field.server.kubectl("delete", "nuj", job, "--timeout=30s")


# ---- every outcome -----------------------------------------------------------------------------------------------

WORDS = {
    "edge-0002": (
        "RollbackFailed",
        "v1.22.0 does not start either: exited with code 1; mend it: keadm rollback edge",
        "",
    ),
    "edge-0003": ("CheckFailed", "disk: 0.2 GiB free on /etc/kubeedge, 2.0 GiB needed", OLD),
    "edge-0004": ("Rejected", "not before the harvest", OLD),
    "edge-0005": ("ConfirmationExpired", "its owner did not confirm within 1 h", OLD),
    "edge-0006": ("Interrupted", "interrupted 3 times in Check; nothing was changed", OLD),
    "edge-0007": ("", "", OLD),
    "edge-0008": ("Exploded\x1b[2J", "boom", NEW),
}
EVERY = {
    "ghost": ("Failure", "NotFound", "there is no such node"),
    "server": ("Failure", "NotAnEdgeNode", "the node is not an edge node (label node-role.kubernetes.io/edge)"),
    "there": ("Skipped", "AlreadyAtVersion", "already at v1.23.0"),
    "newer": ("Skipped", "Newer", "runs v9.0.0, which is newer, and allowDowngrade is false"),
    "offline": ("Skipped", "NotConnected", "not connected since "),
    "edge-0000": ("Successful", None, None),
    "edge-0001": ("Failure", "RolledBack", "rolled back to v1.22.0: exited with code 1"),
    "edge-0002": ("Failure", "RollbackFailed", WORDS["edge-0002"][1]),
    "edge-0003": ("Failure", "CheckFailed", WORDS["edge-0003"][1]),
    "edge-0004": ("Skipped", "Rejected", WORDS["edge-0004"][1]),
    "edge-0005": ("Failure", "ConfirmationExpired", WORDS["edge-0005"][1]),
    "edge-0006": ("Failure", "Interrupted", WORDS["edge-0006"][1]),
    "edge-0007": ("Failure", "Unexplained",
                  "reports a successful upgrade but names 'v1.22.0'; the job wants v1.23.0"),
    "edge-0008": ("Failure", "Unexplained",
                  "ended with 'Exploded\\x1b[2J', which is no code that a node may give; it says: boom"),
    "edge-0009": ("Unknown", "TimedOut", "no word for 12 s"),
    "edge-0010": ("Skipped", "BudgetExceeded", "not started: too many nodes of this job failed before"),
}  # fmt: skip


def test_every_outcome_of_a_node_is_told_by_kubectl(field: Field) -> None:
    """One phase, code, sentence and time for each node, and a job that says why it ended as it did."""
    versions = {"server": OLD, "there": NEW, "newer": "v9.0.0", "offline": OLD}
    for name, version in versions.items():
        body = edge_node(name)
        body["status"]["nodeInfo"]["kubeletVersion"] = version
        body["metadata"]["labels"] = {} if name == "server" else body["metadata"]["labels"]
        assert field.server.request("POST", "/api/v1/nodes", body).status == 201
    cloud = field.add_cloud(taskmanager={"cloud": {"offlineAfter": "2s"}})
    cloud.start()
    cloud.wait_until_ready()
    with field.edges(work=6.0, failing=("edge-0001",), words=WORDS, silent=("edge-0009",)):
        field.apply_job("first", ("offline",))
        assert field.wait_for_end("first")["skipped"] == 1, "the hub is open for long enough to call somebody offline"
        field.apply_job("north", tuple(EVERY), concurrency=10, failureTolerate="50%", timeoutSeconds=12)
        field.wait(lambda: field.status("north").get("inProgress") == 10, "ten are at work")
        field.server.kubectl("patch", "nuj", "north", "--type=merge", "-p", '{"spec":{"suspend":true}}')
        status = field.wait_for_end("north", 60)
        told = field.server.kubectl("describe", "nuj", "north")
    assert (status["phase"], status["reason"], status["done"]) == ("Failure", "BudgetExceeded", "16/16")
    found = {one["nodeName"]: one for one in status["nodeStatus"]}
    for node, (phase, code, sentence) in EVERY.items():
        one = found[node]
        assert (one["phase"], one.get("reasonCode")) == (phase, code), one
        assert one["since"], one
        assert not sentence or one["reason"].startswith(sentence), one
        assert not sentence or sentence in told, node
    counted = {key: status.get(key, 0) for key in ("successful", "failed", "skipped", "unknown")}
    assert counted == {"successful": 1, "failed": 9, "skipped": 5, "unknown": 1}
    print(told)  # noqa: T201 - `pytest -s` shows it to whoever writes about it
    for path in (f"{JOBS}/north", f"{JOBS}/first", *(f"/api/v1/nodes/{name}" for name in versions)):
        assert field.server.request("DELETE", path).status == 200
    field.wait(lambda: field.server.request("GET", f"{JOBS}/north").status == 404, "the job is deleted")
    field.wait(lambda: field.server.request("GET", f"{JOBS}/first").status == 404, "the first too")


# ---- jobs of KubeEdge ---------------------------------------------------------------------------------------------


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def kubeedges_crd() -> dict[str, Any]:
    """As KubeEdge defines it (spec/kubeedge.md 1.1-1.4): both versions, no conversion, no default."""
    text, number = {"type": "string"}, {"type": "integer", "format": "int32"}
    names_ = {"type": "array", "items": text}
    spec = _object(
        version=text, timeoutSeconds=number, nodeNames=names_, image=text, concurrency=number, checkItems=names_,
        failureTolerate=text, requireConfirmation={"type": "boolean"},
        imageDigestGatter={"type": "object", "properties": dict.fromkeys(("value", "amd64", "arm64"), text)},
    )  # fmt: skip
    old = dict.fromkeys(("state", "event", "action", "reason", "time", "currentVersion", "historicVersion"), text)
    result = _object(action=text, status=text, reason=text, time=text)
    entry = _object(nodeName=text, phase=text, actionFlow={"type": "array", "items": result}, **old)
    status = {**_object(**old, phase=text, nodeStatus={"type": "array", "items": entry}), "required": ["phase"]}
    plain = _object(nodeName=text, **old)
    first = _object(**old, nodeStatus={"type": "array", "items": plain})
    meta = {"apiVersion": text, "kind": text, "metadata": {"type": "object"}, "spec": spec}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodeupgradejobs.operations.kubeedge.io"},
        "spec": {
            "group": "operations.kubeedge.io", "scope": "Cluster",
            "names": {"kind": "NodeUpgradeJob", "plural": "nodeupgradejobs", "singular": "nodeupgradejob"},
            "versions": [
                {"name": name, "served": True, "storage": name == "v1alpha2", "subresources": {"status": {}},
                 "schema": {"openAPIV3Schema": _object(**meta, status=shape)}}
                for name, shape in (("v1alpha1", first), ("v1alpha2", status))
            ],
        },
    }  # fmt: skip


LEFT = {
    "ended-in-v1alpha1": (OLD_JOBS, "cr_v1alpha1_nodeupgradejob"),
    "ended-in-v1alpha2": (JOBS, "cr_v1alpha2_nodeupgradejob_failure"),
}


def leave_jobs_of_kubeedge(server: ApiServer) -> None:
    """Its definition, and jobs as its controllers left them; then ours over it."""
    server.apply(kubeedges_crd())
    server.kubectl("wait", "--for=condition=Established", f"crd/{crd()['metadata']['name']}", "--timeout=30s")  # type: ignore[index]
    for name, (path, kind) in LEFT.items():
        body = vector(kind)
        body["metadata"] = {"name": name}
        body["spec"] = {
            **body["spec"],
            "imageDigestGatter": {},
        }  # KubeEdge's clients write null, kube-apiserver drops it
        made = server.request("POST", path, body)
        assert made.status == 201, made
        stored = {**made.json(), "status": body["status"]}
        answer = server.request("PUT", f"{path}/{name}/status", stored)
        assert answer.status == 200, answer
        assert answer.json()["status"] == body["status"], "as it was stored"


def test_a_job_that_kubeedge_ended_is_not_started_again(field: Field) -> None:
    """Also where its status has no phase, as v1alpha1's has none: in doubt nothing is started (product.md 3.4)."""
    cloud = field.add_cloud()
    cloud.start()
    cloud.wait_until_ready()
    with field.edges(work=0.2) as edges:
        before = {name: field.job(name) for name in LEFT}
        field.apply_job("north", NODES[:2], concurrency=2)
        assert field.wait_for_end("north")["phase"] == "Completed", "the cloud is at work"
        time.sleep(3)  # some looks more
        saw = edges.saw()
    assert saw.ran() == dict.fromkeys(NODES[:2], 1)
    assert {one.node for one in saw.orders} == set(NODES[:2]), "nobody else was told anything"
    assert {name: field.job(name) for name in LEFT} == before
    assert "ended-in-v1alpha1 cannot be read and is set aside" in cloud.log.read_text()
    field.server.kubectl("delete", "nuj", "north", "--timeout=30s")


# ---- digests -----------------------------------------------------------------------------------------------------


class TokenRegistry:
    """A real registry over TLS that takes only tokens of an authority that the test is."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.registry = Registry.started(folder)
        self.digest = self.registry.push("kubeedge/pack", "v1.23.0", [{"a": b"b"}])
        self.registry.process.stop()
        leaf = self.authority.issue_cert("127.0.0.1")
        self.authority.cert_pem.write_to_path(str(folder / "ca.crt"))
        leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / "serving.pem"))
        self._key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        self._leaf = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes())
        config = folder / "config.yml"
        config.write_text(
            f"{config.read_text()}"
            f"  tls: {{certificate: {folder}/serving.pem, key: {folder}/serving.pem}}\n"
            "auth:\n  token:\n    realm: https://127.0.0.1/token\n    service: pack\n    issuer: test\n"
            f"    rootcertbundle: {folder}/ca.crt\n"
        )
        self.registry.secure = True
        self.registry.start()

    def token(self, repository: str = "kubeedge/pack") -> str:
        """For whoever may pull from there."""
        chain = [base64.b64encode(self._leaf.public_bytes(Encoding.DER)).decode()]
        now = int(time.time())
        access = [{"type": "repository", "name": repository, "actions": ["pull"]}]
        claims: dict[str, Any] = {"iss": "test", "aud": "pack", "sub": "cloud", "jti": "1", "access": access}
        claims |= {"nbf": now - 10, "iat": now - 10, "exp": now + 600}
        algorithm = "RS256" if "RSA" in type(self._key).__name__ else "ES256"
        return jwt.encode(claims, self._key, algorithm, {"x5c": chain})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenRegistry]:
    made = TokenRegistry(tmp_path_factory.mktemp("token-registry"))
    yield made
    made.registry.remove()


def wait_until_refused(field: Field, job: str) -> None:
    field.wait(lambda: field.status(job).get("phase") == "Failure", f"{job} is refused")


def test_digests_come_from_a_real_registry_and_neither_host_nor_token_goes_on(
    field: Field, tokens: TokenRegistry
) -> None:
    host = tokens.registry.address
    cloud = field.add_cloud(digests={"hosts": [host], "caFile": str(tokens.registry.ca_file)})
    cloud.start()
    cloud.wait_until_ready()
    image = {"image": "other.example.org/kubeedge/pack"}

    def pins(token: str, where: str = host) -> dict[str, Any]:
        return {"imageDigestGatter": {"registryAPI": {"host": where, "token": token}}, **image}

    bad = {
        "wrong-token": (pins("not.a.token"), "does not take the token of spec.imageDigestGatter (HTTP 401)"),
        "other-repository": (pins(tokens.token("kubeedge/other")), "does not take the token"),
        "no-such-tag": ({**pins(tokens.token()), "version": "v9.9.9"}, "has no kubeedge/pack:v9.9.9"),
        "not-listed": (pins(tokens.token(), "registry.example.org"), "lists it under digests.hosts"),
    }
    with field.edges(work=0.2) as edges:
        field.apply_job("north", NODES[:2], concurrency=2, **pins(tokens.token()))
        status = field.wait_for_end("north")
        for name, (spec, sentence) in bad.items():
            field.apply_job(name, NODES[2:4], **spec)
            wait_until_refused(field, name)
            assert sentence in condition(field, name, "Accepted")["message"], name
        saw = edges.saw()
    expected = dict.fromkeys(("amd64", "arm64"), tokens.digest)
    assert (status["phase"], status["digests"]) == ("Completed", expected)
    assert [one.digests for one in saw.starts()] == [expected, expected]
    assert {one.node for one in saw.orders} == set(NODES[:2]), "nothing was started without a pin"
    assert tokens.token()[-40:] not in json.dumps([field.status(name) for name in ("north", *bad)])
    assert host not in cloud.log.read_text() or tokens.token()[-40:] not in cloud.log.read_text()
    for name in ("north", *bad):
        field.server.kubectl("delete", "nuj", name, "--timeout=30s")
