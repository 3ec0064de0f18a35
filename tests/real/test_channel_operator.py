"""The channel as an operator sees it: one cloud process on a real kube-apiserver, and the commands."""

import json
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from beehive.messages import wire
from modules.demo.children import COMMAND
from modules.demo.cloud import Cloud
from modules.edgehub import identity
from tests.modules.cloudhub.test_pki import csr
from tests.real.running.apiserver import ApiServer
from tests.real.running.processes import wait_until

TOP = Path(__file__).resolve().parents[2]


def beehive(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((*COMMAND, *arguments), capture_output=True, text=True, timeout=60, check=False)


class Operator:
    """A cloud, and what is done with it by hand."""

    def __init__(self, server: ApiServer, directory: Path) -> None:
        self.server, self.directory = server, directory
        server.kubectl("apply", "-f", "-", stdin=beehive("crd").stdout)
        server.kubectl("wait", "--for=condition=Established", "crd/nodeupgradejobs.operations.kubeedge.io")
        token = server.service_account_token("beehive", "kubeedge", TOP / "configs" / "rbac.yaml")
        (directory / "token").write_text(token)
        lease = {"duration": "2s", "renewDeadline": "1500ms", "retryPeriod": "500ms"}
        informer = {
            "server": server.url, "tokenFile": str(directory / "token"), "caFile": str(server.ca_file), "lease": lease,
        }  # fmt: skip
        self.cloud = Cloud(directory / "cloud", informer, etcdmanager={"endpoints": [server.etcd.url]})
        self.cloud.start()
        self.cloud.wait_until_ready()
        self.url = f"https://127.0.0.1:{self.cloud.https_port}"

    def does(self, *arguments: str) -> str:
        done = beehive(*arguments, "--config", str(self.cloud.config))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def joins(self, node: str, token: str) -> subprocess.CompletedProcess[str]:
        """`beehive edge join` on a host."""
        home = self.directory / node
        home.mkdir(exist_ok=True)
        (home / "token").write_text(token)
        (home / "edge.yaml").write_text(json.dumps({"edgehub": {"identity": str(home / "pki")}}))
        return beehive(
            "edge", "join", "--cloud", self.url, "--node", node, "--token-file", str(home / "token"),
            "--config", str(home / "edge.yaml"),
        )  # fmt: skip

    def connects(self, node: str) -> ClientConnection:
        """A session of one of our own edges, whose frames the test writes."""
        _, context = identity.load(self.directory / node / "pki")
        headers = {"node_id": node, "project_id": "p", "ConnectionUse": "msg", wire.PROTOCOL_HEADER: wire.PROTOCOL}
        url = f"wss://127.0.0.1:{self.cloud.websocket_port}/p/{node}/events"
        return connect(url, ssl=context, additional_headers=headers, compression=None, proxy=None)

    def http(self, node: str) -> httpx.Client:
        _, context = identity.load(self.directory / node / "pki")
        return httpx.Client(verify=context, base_url=self.url, trust_env=False, timeout=15)

    def add_node(self, name: str) -> None:
        metadata = {"name": name, "labels": {"node-role.kubernetes.io/edge": ""}}
        self.server.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.22.0"}}
        patch = json.dumps({"status": status})
        self.server.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)

    def entry(self, job: str) -> Any:
        """The first entry of a job."""
        entries = json.loads(self.server.kubectl("get", "nuj", job, "-o", "json")).get("status", {}).get("nodeStatus")
        return entries[0] if entries else {}


@pytest.fixture(scope="module")
def operator(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    made = Operator(apiserver, tmp_path_factory.mktemp("operator"))
    yield made
    made.cloud.end()


def test_a_revoked_token_is_refused_within_two_seconds(operator: Operator) -> None:
    text = operator.does("token", "create", "--uses", "0").strip()
    assert operator.joins("op-a", text).returncode == 0
    token_id = next(line.split()[0] for line in operator.does("token", "list").splitlines() if "1/any" in line)
    assert text.split(".")[2] not in operator.does("token", "list")
    assert token_id in {one["id"] for one in json.loads(operator.does("token", "list", "-o", "json"))}
    operator.does("token", "revoke", token_id)
    began = time.monotonic()
    headers = {"Authorization": "Bearer " + text.partition(".")[2], "NodeName": "op-b"}
    with operator.http("op-a") as http:
        refused = http.request("GET", "/edge.crt", headers=headers, content=csr())
    assert (refused.status_code, refused.text) == (401, "token validation failure, err: the token was revoked")
    assert time.monotonic() - began < 2.0
    log = operator.cloud.log.read_text()
    assert "op-b" in log
    assert text.split(".")[3] not in log


def test_a_revoked_node_is_out_within_two_seconds(operator: Operator) -> None:
    assert operator.joins("op-c", operator.does("token", "create").strip()).returncode == 0
    with operator.connects("op-c") as session:
        operator.does("edge", "revoke", "op-c", "--reason", "stolen")
        with pytest.raises(ConnectionClosed) as end:
            session.recv(timeout=2.0)
        assert end.value.rcvd is not None
        assert (end.value.rcvd.code, end.value.rcvd.reason) == (1008, "its certificate was revoked: stolen")
    assert "op-c" in operator.does("edge", "revoked")
    again = operator.joins("op-c", operator.does("token", "create", "--node", "op-c").strip())
    assert again.returncode == 0, again.stderr
    time.sleep(max(0.0, identity.read(operator.directory / "op-c" / "pki").begins - time.time()))
    with operator.connects("op-c") as session:
        session.ping().wait(5)


def test_a_tools_verdict_by_post_ends_the_nodes_entry(operator: Operator) -> None:
    """The whole way: marked, told over the websocket, ended by POST; and words about nothing are 404."""
    node, job = "op-d", "op-job"
    operator.add_node(node)
    assert operator.joins(node, operator.does("token", "create").strip()).returncode == 0
    body = {
        "UpgradeID": job, "HistoryID": "", "NodeName": node, "FromVersion": "v1.22.0", "ToVersion": "v1.23.0",
        "Status": "upgrade_failed_rollback_success", "Reason": "it crashed",
    }  # fmt: skip
    with operator.connects(node) as session, operator.http(node) as http:
        assert http.get(f"/node/{node}").text == "Node found"
        assert http.get("/node/op-nobody").status_code == 404
        answer = http.post("/nodeupgrade", json=body)
        assert (answer.status_code, answer.text) == (404, f"there is no job '{job}' that has the node '{node}'\n")
        spec = {"version": "v1.23.0", "nodeNames": [node], "timeoutSeconds": 60}
        operator.server.apply({
            "apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "NodeUpgradeJob", "metadata": {"name": job},
            "spec": spec,
        })  # fmt: skip
        told = json.loads(session.recv(timeout=20))
        assert told["route"]["operation"] == "Check"
        uid, attempt = told["beehive"]["uid"], told["beehive"]["attempt"]
        answer = http.post("/nodeupgrade", json=body | {"HistoryID": f"{uid}.{attempt}"})
        assert (answer.status_code, answer.text) == (200, "ok")
        entry = operator.entry(job)  # it was answered when the API server had it
        assert (entry["phase"], entry["reasonCode"], entry["reason"]) == ("Failure", "RolledBack", "it crashed")
        assert [(one["action"], one["status"]) for one in entry["actionFlow"]] == [
            ("Upgrade", "False"), ("RollBack", "True"),
        ]  # fmt: skip
        again = http.post("/nodeupgrade", json=body | {"HistoryID": f"{uid}.{attempt}", "Status": "upgrade_success"})
        assert again.status_code == 200
        assert operator.entry(job) == entry  # a second verdict changes nothing
        other = http.post("/nodeupgrade", json=body | {"HistoryID": f"{uid[:-4]}0000.{attempt}"})
        assert other.status_code == 404


def test_many_posts_at_once_do_not_stop_the_hub(operator: Operator) -> None:
    """65 of them end all reporting to KubeEdge's CloudCore (spec/kubeedge.md S2)."""
    assert operator.joins("op-e", operator.does("token", "create").strip()).returncode == 0
    task = {"NodeName": "op-e", "Event": "Upgrade", "Action": "Success", "Time": "2026-01-01T00:00:05Z"}
    with operator.http("op-e") as http:
        for _ in range(130):
            assert http.post("/task/upgrade/name/op-nothing/node/op-e/status", json=task).status_code == 404


def refusal(operator: Operator, node: str) -> Exception:
    """How the hub refuses the node's certificate: TLS 1.3 tells only after the client's part is done."""
    with pytest.raises(Exception) as refused:  # noqa: PT011
        operator.connects(node).recv(timeout=5.0)
    return refused.value.__cause__ if isinstance(refused.value.__cause__, Exception) else refused.value


def test_the_ca_is_replaced_under_a_running_cloud(operator: Operator) -> None:
    assert operator.joins("op-f", operator.does("token", "create").strip()).returncode == 0
    digest = identity.read(operator.directory / "op-f" / "pki").ca
    assert f"{digest}  signs" in operator.does("ca", "show")
    operator.does("ca", "rotate")
    assert f"{digest}  believed until" in operator.does("ca", "show")

    def tells_of_the_new_one() -> bool:
        with operator.connects("op-f") as other:
            response = other.response
            return response is not None and response.headers[wire.CA_HEADER] != digest

    wait_until(tells_of_the_new_one, 2.0, "the hub tells of its new CA, and who has the old one gets in")
    assert operator.joins("op-g", operator.does("token", "create").strip()).returncode == 0
    with operator.connects("op-f") as session:
        operator.does("ca", "retire", "--yes")
        with pytest.raises(ConnectionClosed) as end:  # everybody shows again who it is
            session.recv(timeout=2.0)
        assert end.value.rcvd is not None
        assert end.value.rcvd.code == 1012
    assert isinstance(refusal(operator, "op-f"), ConnectionClosed | EOFError | ssl.SSLError | ConnectionError)
    with operator.connects("op-g") as session:
        session.ping().wait(5)
