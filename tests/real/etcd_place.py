"""Clouds with etcdmanager between a real kube-apiserver and a real etcd cluster with mutual TLS, under the shipped
rights: the conditions on the Nodes, and how many writes and orders they cost."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from modules.demo.children import COMMAND, Child, wait_until
from modules.demo.cloud import Cloud
from tests.real.running.apiserver import ApiServer
from tests.real.running.etcd import EtcdCluster, Identity

RBAC = Path(__file__).resolve().parents[2] / "configs" / "rbac.yaml"
WRITES = re.compile(
    r'apiserver_request_total\{[^}]*resource="nodes"[^}]*subresource="status"[^}]*verb="PATCH"[^}]*} (\d+)'
)
COUNTED = re.compile(r'^beehive_counted_total\{module="etcdmanager",what="(\w+)"} ([\d.]+)', re.MULTILINE)
ORDERS = re.compile("(promote|evict|remove|moveleader)_(done|unknown)")


class EtcdPlace:
    """An API server, a cluster, Nodes, and one cloud process or several."""

    def __init__(self, server: ApiServer, cluster: EtcdCluster, directory: Path) -> None:
        self.server, self.cluster, self.directory = server, cluster, directory
        self.clouds: list[Cloud] = []
        crd = subprocess.run((*COMMAND, "crd"), capture_output=True, text=True, timeout=60, check=True)
        server.kubectl("apply", "-f", "-", stdin=crd.stdout)
        server.kubectl("wait", "--for=condition=Established", "crd/nodeupgradejobs.operations.kubeedge.io")
        (directory / "token").write_text(server.service_account_token("beehive", "kubeedge", RBAC))

    def cloud(
        self, name: str = "cloud", identity: Identity | None = None, election: bool = True, **etcdmanager: Any
    ) -> Cloud:
        """A cloud's configuration; not started yet."""
        who = identity or self.cluster.client
        lease = {"duration": "2s", "renewDeadline": "1500ms", "retryPeriod": "500ms"}
        informer = {
            "server": self.server.url, "tokenFile": str(self.directory / "token"), "lease": lease,
            "caFile": str(self.server.ca_file), "leaderElection": election,
        }  # fmt: skip
        section = {
            "endpoints": [member.client_url for member in self.cluster.members], "caFile": str(who.ca),
            "certFile": str(who.certificate), "keyFile": str(who.key), "period": "500ms", "probeTimeout": "500ms",
            **etcdmanager,
        }  # fmt: skip
        made = Cloud(self.directory / name, informer, etcdmanager=section)
        self.clouds.append(made)
        return made

    def start(self, cloud: Cloud) -> None:
        """With the two modules that this needs."""
        words = ("--mode", "cloud", "--config", str(cloud.config), "--modules", "informer,etcdmanager")
        cloud.process = Child(cloud.directory.name, (*COMMAND, *words), cloud.log)
        cloud.wait_until_ready()

    def add_node(self, name: str, member: str, annotation: str = "etcd.k3s.cattle.io/node-name") -> None:
        """That says it runs this member."""
        self.server.apply(
            {
                "apiVersion": "v1", "kind": "Node",
                "metadata": {
                    "name": name, "labels": {"node-role.kubernetes.io/etcd": "true"},
                    "annotations": {annotation: member},
                },
            }
        )  # fmt: skip

    def nodes(self) -> list[Any]:
        found: list[Any] = json.loads(self.server.kubectl("get", "nodes", "-o", "json"))["items"]
        return found

    def conditions(self, field: str = "reason") -> dict[str, str]:
        """Node -> reason (or another field) of `EtcdIsVoter`."""
        return {
            node["metadata"]["name"]: one[field]
            for node in self.nodes() for one in node["status"].get("conditions", []) if one["type"] == "EtcdIsVoter"
        }  # fmt: skip

    def status(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """`beehive etcd status`."""
        words = (*COMMAND, "etcd", "status", "--config", str(self.clouds[0].config), *arguments)
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    def kept(self) -> Any:
        """The verdict in its ConfigMap."""
        found = json.loads(self.server.kubectl("-n", "kubeedge", "get", "configmap", "beehive-etcd", "-o", "json"))
        return json.loads(found["data"]["report.json"])

    def writes(self) -> int:
        """PATCHes of Nodes' status, as kube-apiserver counts them."""
        return sum(int(found) for found in WRITES.findall(self.server.kubectl("get", "--raw", "/metrics")))

    def orders(self) -> int:
        """Orders to etcd that were carried out or got no answer, of all clouds, as they count them."""
        return sum(_orders(one) for one in self.running())

    def running(self) -> list[Cloud]:
        """Those that were started and not killed."""
        return [one for one in self.clouds if one.process and one.process.runs()]

    def settle(self, passes: int = 3) -> None:
        """Until each cloud made so many passes more: what is going to be written has been written."""
        wanted = {id(one): counted(one)["passes"] + passes for one in self.running()}
        wait_until(
            lambda: all(counted(one)["passes"] >= wanted[id(one)] for one in self.running()), 60, f"{passes} passes"
        )

    def wait(self, wanted: Mapping[str, str], seconds: float = 30) -> None:
        """Until the conditions have these reasons."""
        wait_until(lambda: self.conditions() == wanted, seconds, f"the conditions are {wanted}")

    def end(self) -> None:
        """End the clouds."""
        for one in self.clouds:
            one.end()


def memory(cloud: Cloud) -> int:
    """Bytes that its process holds."""
    assert cloud.process is not None
    status = Path(f"/proc/{cloud.process.pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def counted(cloud: Cloud) -> dict[str, int]:
    """What its etcdmanager counted, as Prometheus would scrape it."""
    address = (cloud.directory / "data" / "admin.address").read_text(encoding="utf-8").strip()
    text = httpx.get(f"http://{address}/metrics", timeout=10, trust_env=False).text
    return {what: int(float(number)) for what, number in COUNTED.findall(text)}


def _orders(cloud: Cloud) -> int:
    return sum(number for what, number in counted(cloud).items() if ORDERS.fullmatch(what))
