"""The cloud as a process, between a real kube-apiserver and a real etcd cluster with mutual TLS, under the shipped
rights: conditions on Nodes, the verdict in its ConfigMap, `beehive etcd status`."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modules.demo.children import COMMAND, Child, wait_until
from modules.demo.cloud import Cloud
from tests.real.running.apiserver import ApiServer
from tests.real.running.etcd import EtcdCluster

RBAC = Path(__file__).resolve().parents[2] / "configs" / "rbac.yaml"
WRITES = re.compile(
    r'apiserver_request_total\{[^}]*resource="nodes"[^}]*subresource="status"[^}]*verb="PATCH"[^}]*} (\d+)'
)


class Place:
    """A cloud with etcdmanager, and Nodes."""

    def __init__(self, server: ApiServer, cluster: EtcdCluster, directory: Path) -> None:
        self.server, self.cluster = server, cluster
        crd = subprocess.run((*COMMAND, "crd"), capture_output=True, text=True, timeout=60, check=True)
        server.kubectl("apply", "-f", "-", stdin=crd.stdout)
        server.kubectl("wait", "--for=condition=Established", "crd/nodeupgradejobs.operations.kubeedge.io")
        (directory / "token").write_text(server.service_account_token("beehive", "kubeedge", RBAC))
        informer = {"server": server.url, "tokenFile": str(directory / "token"), "caFile": str(server.ca_file)}
        who = cluster.client
        etcdmanager = {
            "endpoints": [member.client_url for member in cluster.members], "caFile": str(who.ca),
            "certFile": str(who.certificate), "keyFile": str(who.key), "period": "500ms", "probeTimeout": "500ms",
        }  # fmt: skip
        lease = {"duration": "2s", "renewDeadline": "1500ms", "retryPeriod": "500ms"}
        self.cloud = Cloud(directory / "cloud", {**informer, "lease": lease}, etcdmanager=etcdmanager)

    def add_node(self, number: int) -> None:
        """Of the member of this number."""
        self.server.apply(
            {
                "apiVersion": "v1", "kind": "Node",
                "metadata": {
                    "name": f"node-{number}", "labels": {"node-role.kubernetes.io/etcd": "true"},
                    "annotations": {"etcd.k3s.cattle.io/node-name": f"server-{number}"},
                },
            }
        )  # fmt: skip

    def conditions(self) -> dict[str, str]:
        """Node -> reason."""
        nodes = json.loads(self.server.kubectl("get", "nodes", "-o", "json"))["items"]
        return {
            node["metadata"]["name"]: one["reason"]
            for node in nodes for one in node["status"].get("conditions", []) if one["type"] == "EtcdIsVoter"
        }  # fmt: skip

    def status(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """`beehive etcd status`."""
        words = (*COMMAND, "etcd", "status", "--config", str(self.cloud.config), *arguments)
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    def start(self) -> None:
        """With the two modules that this needs."""
        words = ("--mode", "cloud", "--config", str(self.cloud.config), "--modules", "informer,etcdmanager")
        self.cloud.process = Child("the cloud", (*COMMAND, *words), self.cloud.log)
        self.cloud.wait_until_ready()

    def kept(self) -> Any:
        """The verdict in its ConfigMap."""
        found = json.loads(self.server.kubectl("-n", "kubeedge", "get", "configmap", "beehive-etcd", "-o", "json"))
        return json.loads(found["data"]["report.json"])

    def memory(self) -> int:
        """Bytes that the cloud process holds."""
        assert self.cloud.process is not None
        status = Path(f"/proc/{self.cloud.process.pid}/status").read_text(encoding="utf-8")
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def writes(self) -> int:
        """PATCHes of Nodes' status, as kube-apiserver counts them."""
        return sum(int(found) for found in WRITES.findall(self.server.kubectl("get", "--raw", "/metrics")))

    def wait(self, wanted: dict[str, str]) -> None:
        wait_until(lambda: self.conditions() == wanted, 30, f"the conditions are {wanted}")


@pytest.fixture
def place(own_apiserver: ApiServer, etcd_cluster: EtcdCluster, tmp_path: Path) -> Iterator[Place]:
    made = Place(own_apiserver, etcd_cluster, tmp_path)
    try:
        yield made
    finally:
        made.cloud.end()


def test_a_learner_joins_a_member_dies_and_everybody_can_see_it(place: Place) -> None:
    nobody = place.status()
    assert nobody.returncode == 1
    assert nobody.stderr == (
        "nobody has written to ConfigMap kubeedge/beehive-etcd yet; run the cloud with etcdmanager.endpoints set\n"
    )
    for number in (1, 2, 3, 4):
        place.add_node(number)
    place.start()
    votes = {f"node-{number}": "MemberNotLearner" for number in (1, 2, 3, 4)}
    place.wait({**votes, "node-4": "NotAMember"})
    assert place.writes() == 4
    assert place.memory() < 150_000_000
    learner = place.cluster.add_learner("server-4")
    place.wait(votes)
    assert place.writes() <= 6
    place.server.kubectl("wait", "--for=condition=EtcdIsVoter", "node/node-4", "--timeout=5s")
    wait_until(lambda: place.kept()["healthy"], 30, "all is well")
    good = place.status()
    assert "4 voters   quorum 3 of 4" in good.stdout
    assert good.stderr == ""
    learner.process.kill()
    place.wait({**votes, "node-4": "Unhealthy"})
    wait_until(lambda: "No: 3 of 4 voters answer" in place.kept()["mayGoDown"], 30, "the verdict is written")
    bad = place.status()
    assert bad.returncode == 1
    assert "Unhealthy: connection refused" in bad.stdout
    told: Any = json.loads(place.status("-o", "json").stdout)
    assert (told["healthy"], told["living"], told["needed"], told["stale"]) == (False, 3, 3, "")
    assert {one["node"]: one["mayGoDown"] for one in told["members"]} == {
        "node-1": "no", "node-2": "no", "node-3": "no", "node-4": "yes"
    }  # fmt: skip
