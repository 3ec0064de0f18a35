"""The main job on real parts: a kube-apiserver with its etcd, a registry, the cloud and the agents as processes of the
one executable, programs that are real executables. Cloud and an agent are killed in the middle."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from modules.demo.children import COMMAND, wait_until
from modules.demo.cloud import Cloud
from modules.demo.hosts import EXECUTABLE, Host
from tests.real.running.apiserver import ApiServer
from tests.real.running.images import installation_package
from tests.real.running.registry import Registry
from tests.real.running.standins import Variant

TOP = Path(__file__).resolve().parents[2]
OLD, NEW = "v1.22.0", "v1.23.0"
REPOSITORY = "kubeedge/installation-package"
HISTORY = "nodeupgradejob.operations.kubeedge.io/history"

Build = Callable[..., Path]


def beehive(*arguments: str) -> subprocess.CompletedProcess[str]:
    """One of beehive's own commands."""
    return subprocess.run((*COMMAND, *arguments), capture_output=True, text=True, timeout=60, check=False)


class Fleet:
    """A cloud on a real API server, and edge hosts in directories."""

    def __init__(self, server: ApiServer, registry: Registry, build: Build, directory: Path) -> None:
        self.server, self.registry, self._build, self._directory = server, registry, build, directory
        self.hosts: dict[str, Host] = {}
        server.kubectl("apply", "-f", "-", stdin=beehive("crd").stdout)
        server.kubectl("wait", "--for=condition=Established", "crd/nodeupgradejobs.operations.kubeedge.io")
        token = server.service_account_token("beehive", "kubeedge", TOP / "configs" / "rbac.yaml")
        (directory / "token").write_text(token)
        informer = {
            "server": server.url, "tokenFile": str(directory / "token"), "caFile": str(server.ca_file),
            "lease": {"duration": "2s", "renewDeadline": "1500ms", "retryPeriod": "500ms"},
        }  # fmt: skip
        etcdmanager = {"endpoints": [server.etcd.url], "period": "1s"}
        self.cloud = Cloud(directory / "cloud", informer, etcdmanager=etcdmanager)

    def push(self, version: str, variant: Variant = Variant.GOOD, schema: int = 0) -> None:
        """Put a release into the registry."""
        program = self._build(version, variant, schema=schema)
        self.registry.push(REPOSITORY, version, installation_package(program))

    def add_host(self, name: str, *, schema: int, online: bool = True) -> Host:
        """A host that runs the old program; joined, and its agent started unless it is to be offline."""
        source = {
            "images": {"insecureHosts": [self.registry.address], "allow": [f"{self.registry.address}/{REPOSITORY}"]},
            "target": {
                "database": "/var/lib/kubeedge/schema",
                "start": ["{executable}", "--state", "{root}/var/lib/kubeedge"],
            },
        }
        host = Host(name, self._directory / "hosts" / name, self.cloud, source)
        self.hosts[name] = host
        host.install(self._build(OLD).read_bytes(), schema)
        host.start_program()
        self.add_node(name, {"node-role.kubernetes.io/edge": ""})
        token = host.directory / "join.token"
        token.write_text(self.cloud.join_token())
        host.join(token)
        if online:
            host.start_agent()
            wait_until(host.is_connected, 30, f"{name} is connected")
        return host

    def add_node(self, name: str, labels: dict[str, str], annotations: dict[str, str] | None = None) -> None:
        """Register a Ready node, as its kubelet would."""
        metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
        self.server.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        info = {"kubeletVersion": f"v1.30.7-kubeedge-{OLD}"}
        status = json.dumps({"status": {"conditions": [ready], "nodeInfo": info}})
        self.server.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", status)

    def job(self, name: str) -> Any:
        return json.loads(self.server.kubectl("get", "nuj", name, "-o", "json"))

    def entries(self, name: str) -> dict[str, Any]:
        """The entries of a job, by node."""
        return {entry["nodeName"]: entry for entry in self.job(name).get("status", {}).get("nodeStatus", [])}

    def node(self, name: str) -> Any:
        return json.loads(self.server.kubectl("get", "node", name, "-o", "json"))

    def apply_job(self, name: str, **spec: Any) -> None:
        """`kubectl apply`."""
        image = f"{self.registry.address}/{REPOSITORY}"
        self.server.apply(
            {
                "apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "NodeUpgradeJob", "metadata": {"name": name},
                "spec": {"version": NEW, "image": image, **spec},
            }
        )  # fmt: skip

    def wait_for_end(self, name: str, condition: str = "Complete") -> Any:
        """`kubectl wait`, as an operator's script would; then the job."""
        self.server.kubectl("wait", f"--for=condition={condition}", f"nuj/{name}", "--timeout=80s")
        return self.job(name)

    def wait_for_action(self, job: str, node: str, action: str) -> None:
        """Until the node has reported that this action ended."""

        def reported() -> bool:
            flow = self.entries(job).get(node, {}).get("actionFlow", [])
            return any(one["action"] == action for one in flow)

        wait_until(reported, 60, f"{node} has ended {action}")

    def end(self) -> None:
        for host in self.hosts.values():
            host.end()
        self.cloud.end()


@pytest.fixture
def fleet(own_apiserver: ApiServer, registry: Registry, standin: Build, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(own_apiserver, registry, standin, tmp_path)
    try:
        made.cloud.start()
        made.cloud.wait_until_ready()
        yield made
    finally:
        made.end()


def assert_runs(host: Host, version: str, starts: list[str]) -> None:
    """The host's own records: what answers, what runs, and each start that ever was."""
    assert version in host.answers()
    assert host.runs()
    assert host.starts() == starts


def test_one_job_has_three_kinds_of_outcome(fleet: Fleet) -> None:
    fleet.push(NEW, schema=8)
    good = fleet.add_host("edge-1", schema=8)
    unsuited = fleet.add_host("edge-2", schema=9)
    offline = fleet.add_host("edge-3", schema=8, online=False)
    fleet.apply_job("north", nodeNames=["edge-1", "edge-2", "edge-3"], concurrency=2, failureTolerate="50%")
    job = fleet.wait_for_end("north")
    entries = fleet.entries("north")
    assert {name: (entry["phase"], entry.get("reasonCode", "")) for name, entry in entries.items()} == {
        "edge-1": ("Successful", ""),
        "edge-2": ("Failure", "RolledBack"),
        "edge-3": ("Skipped", "NotConnected"),
    }
    assert "cannot open database: schema 9" in entries["edge-2"]["reason"]
    assert (job["status"]["phase"], job["status"]["done"], job["status"]["failed"]) == ("Completed", "3/3", 1)
    assert_runs(good, NEW, [OLD, NEW])
    assert_runs(unsuited, OLD, [OLD, NEW, OLD])
    assert_runs(offline, OLD, [OLD])
    wait_until(lambda: not any(fleet.node(name)["spec"].get("unschedulable") for name in entries), 20, "all uncordoned")
    assert fleet.node("edge-1")["metadata"]["annotations"][HISTORY] == f"{OLD}->{NEW}"
    assert HISTORY not in fleet.node("edge-2")["metadata"].get("annotations", {})
    table = fleet.server.kubectl("get", "nuj", "north").splitlines()
    assert table[0].split() == ["NAME", "VERSION", "PHASE", "DONE", "FAILED", "AGE"]
    assert table[1].split()[:5] == ["north", NEW, "Completed", "3/3", "1"]


def test_cloud_and_agent_are_killed_in_the_middle_and_nothing_is_doubled(fleet: Fleet) -> None:
    fleet.push(NEW, schema=8)
    first = fleet.add_host("edge-1", schema=8)
    second = fleet.add_host("edge-2", schema=8)
    fleet.apply_job("south", nodeNames=["edge-1", "edge-2"], concurrency=1)
    fleet.wait_for_action("south", "edge-1", "Check")
    assert fleet.cloud.process is not None
    fleet.cloud.process.kill()
    assert first.agent is not None
    wait_until(lambda: len(first.starts()) > 1, 60, "edge-1 starts its new program while the cloud is dead")
    first.agent.kill()
    fleet.cloud.start()
    fleet.cloud.wait_until_ready()
    first.start_agent()
    fleet.wait_for_action("south", "edge-2", "BackUp")
    assert second.agent is not None
    second.agent.kill()
    second.start_agent()
    fleet.wait_for_end("south")
    assert {entry["phase"] for entry in fleet.entries("south").values()} == {"Successful"}
    assert_runs(first, NEW, [OLD, NEW])
    assert_runs(second, NEW, [OLD, NEW])
    assert all(entry["attempt"] == 1 for entry in fleet.entries("south").values())


def test_a_bad_release_stops_itself(fleet: Fleet) -> None:
    fleet.push("v1.24.0", Variant.CRASHING)
    hosts = [fleet.add_host(f"edge-{number}", schema=8) for number in (1, 2, 3)]
    fleet.apply_job("bad", version="v1.24.0", nodeNames=[host.name for host in hosts], failureTolerate="0.2")
    job = fleet.wait_for_end("bad", "Failed")
    codes = [entry["reasonCode"] for entry in fleet.entries("bad").values()]
    assert codes == ["RolledBack", "BudgetExceeded", "BudgetExceeded"]
    assert job["status"]["phase"] == "Failure"
    assert_runs(hosts[0], OLD, [OLD, "v1.24.0", OLD])
    assert_runs(hosts[1], OLD, [OLD])


def test_the_etcd_member_is_seen_on_its_node(fleet: Fleet) -> None:
    labels = {"node-role.kubernetes.io/etcd": "true"}
    fleet.add_node("server-1", labels, {"etcd.k3s.cattle.io/node-name": "store"})
    fleet.add_node("server-2", labels, {"etcd.k3s.cattle.io/node-name": "gone"})

    def condition(name: str) -> tuple[str, str] | None:
        found = [one for one in fleet.node(name)["status"]["conditions"] if one["type"] == "EtcdIsVoter"]
        return (found[0]["status"], found[0]["reason"]) if found else None

    wait_until(lambda: condition("server-1") == ("True", "MemberNotLearner"), 20, "server-1 is a voter")
    wait_until(lambda: condition("server-2") == ("False", "NotAMember"), 20, "server-2 is no member")


def test_a_missing_api_server_is_waited_for_and_a_second_cloud_on_the_same_ports_is_refused(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.server.process.stop()
    wait_until(lambda: "[-] informer waits for" in fleet.cloud.readyz(), 60, "readyz says what is missing")
    assert fleet.server.url in fleet.cloud.readyz()
    assert fleet.cloud.process is not None
    assert fleet.cloud.process.runs()
    fleet.server.start()
    wait_until(lambda: "ready\n" in fleet.cloud.readyz().splitlines(keepends=True)[-1], 60, "ready again")
    settings = json.loads(fleet.cloud.config.read_text())
    settings["runtime"]["data"] = str(tmp_path / "second")
    second = tmp_path / "second.yaml"
    second.write_text(json.dumps(settings))
    refused = beehive("--mode", "cloud", "--config", str(second))
    assert refused.returncode == 70
    assert str(fleet.cloud.websocket_port) in refused.stderr or str(fleet.cloud.https_port) in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_programs_are_real_executables(fleet: Fleet) -> None:
    host = fleet.add_host("edge-1", schema=8, online=False)
    assert (host.directory / EXECUTABLE).read_bytes()[:4] == b"\x7fELF"
    assert sys.executable.encode() not in (host.directory / EXECUTABLE).read_bytes()
