"""The chart in a cluster: installed, changed and removed by Helm; its Deployment's own command does the main job."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from modules.demo.hosts import Host
from shipping.manifests import CHART
from tests.real.running.apiserver import ApiServer
from tests.real.running.build import HELM
from tests.real.running.images import installation_package
from tests.real.running.operator import definition
from tests.real.running.processes import Daemon, free_ports, wait_until
from tests.real.running.registry import Registry
from tests.real.running.shipped import Root, bare_root, unpacked
from tests.real.running.standins import standin

pytestmark = pytest.mark.timeout(900)  # the first test of a new state of the source builds it
OLD, NEW = "v1.22.0", "v1.23.0"
REPOSITORY = "kubeedge/installation-package"
MOUNTS = "/var/run/secrets/kubernetes.io/serviceaccount"
USER = "65532:65532"
Object = dict[str, Any]


class Release:
    """The chart in one API server, by Helm itself."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server, self._folder = server, folder

    def helm(self, verb: str, *words: str, values: Mapping[str, Any] | None = None) -> str:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self._folder), "KUBECONFIG": str(self.server.kubeconfig)}
        file = self._folder / "values.yaml"
        file.write_text(yaml.safe_dump(dict(values or {})))
        given = ["--values", str(file)] if values is not None else []
        command = [str(HELM.path()), *verb.split(), "beehive", "--namespace", "kubeedge", *words, *given]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self, values: Mapping[str, Any]) -> str:
        return self.helm("install", str(CHART), "--create-namespace", values=values)

    def get(self, kind: str, name: str = "beehive") -> Any:
        return json.loads(self.server.kubectl("get", kind, name, "-n", "kubeedge", "-o", "json"))


@pytest.fixture
def release(own_apiserver: ApiServer, tmp_path: Path) -> Release:
    return Release(own_apiserver, tmp_path)


def test_helm_installs_changes_and_removes_it_with_what_the_operator_reads(release: Release) -> None:
    """The kinds of the Prometheus operator are judged by its own published definitions."""
    server = release.server
    for plural in ("servicemonitors", "prometheusrules"):
        server.kubectl("apply", "--server-side", "-f", str(definition(plural)))
        server.kubectl("wait", "--for=condition=Established", f"crd/{plural}.monitoring.coreos.com", "--timeout=30s")
    metrics = {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
               "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}}}  # fmt: skip
    said = release.install({"metrics": metrics, "hub": {"advertise": ["hub.example"]}})
    assert "2 replicas, one leads" in said
    assert "hub.advertise is empty" not in said

    monitor, service = release.get("servicemonitor"), release.get("service", "beehive-metrics")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    ports = {port["name"] for port in service["spec"]["ports"]}
    assert {one["port"] for one in monitor["spec"]["endpoints"]} == ports
    shipped = yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    rules = release.get("prometheusrule")["spec"]
    assert rules == shipped, "kube-apiserver kept every field of every rule"
    rendered = release.helm("get manifest")
    for one in (one for one in yaml.safe_load_all(rendered) if one["kind"] in ("ServiceMonitor", "PrometheusRule")):
        strict = ("apply", "--dry-run=server", "--validate=strict", "-n", "kubeedge", "-f", "-")
        server.kubectl(*strict, stdin=json.dumps(one))
        one["spec"]["frequency"] = "often"
        refused = server.kubectl_result(*strict, stdin=json.dumps(one))
        assert 'unknown field "spec.frequency"' in refused.stderr, "the published schema is the one that judges"

    release.helm("upgrade", str(CHART), values={"replicas": 1, "networkPolicy": {"enabled": False}})
    assert release.get("deployment")["spec"]["replicas"] == 1
    for kind in ("networkpolicy", "poddisruptionbudget", "servicemonitor", "prometheusrule"):
        assert server.kubectl("get", kind, "-n", "kubeedge", "-o", "name") == ""
    release.helm("uninstall")
    assert server.kubectl("get", "deploy,svc,cm,sa,role,rolebinding", "-n", "kubeedge", "-l",
                          "app.kubernetes.io/managed-by=Helm", "-o", "name") == ""  # fmt: skip
    kept = server.kubectl("get", "crd", "nodeupgradejobs.operations.kubeedge.io", "-o", "name")
    assert kept, "removing the chart removes no jobs"


class Pod:
    """A Pod of the Deployment, as a kubelet would run it: its command, environment, mounts, user, read-only root.

    There is no Pod network here: the ports come by environment, and the API server asks the webhook by URL.
    """

    def __init__(self, release: Release, name: str, folder: Path) -> None:
        self.name, server = name, release.server
        template = release.get("deployment")["spec"]["template"]
        server.apply({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
                      "metadata": {**template["metadata"], "name": name, "namespace": "kubeedge"}})  # fmt: skip
        (container,) = template["spec"]["containers"]
        self.root = Root(folder / name, unpacked(), bare_root())
        config = release.get("configmap", "beehive-config")["data"]["cloud.yaml"]
        account = template["spec"]["serviceAccountName"]
        token = server.kubectl("create", "token", account, "-n", "kubeedge").strip()
        files = {"/etc/beehive/cloud.yaml": config, f"{MOUNTS}/token": token, f"{MOUNTS}/namespace": "kubeedge",
                 f"{MOUNTS}/ca.crt": server.ca_file.read_text()}  # fmt: skip
        for place, text in files.items():
            file = self.root.written / place.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.websocket_port, self.https_port, webhook, self._admin = free_ports(4)
        host, port = server.url.removeprefix("https://").split(":")
        self.environment = {
            "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port,
            **{one["name"]: one.get("value", name) for one in container["env"]},
            "BEEHIVE_CLOUDHUB_WEBSOCKET_PORT": str(self.websocket_port), "BEEHIVE_ADMISSION_PORT": str(webhook),
            "BEEHIVE_CLOUDHUB_HTTPS_PORT": str(self.https_port), "BEEHIVE_RUNTIME_ADMIN_PORT": str(self._admin),
            "BEEHIVE_ADMISSION_REGISTER_SERVICE": '""', "BEEHIVE_ADMISSION_REGISTER_URL": f"https://127.0.0.1:{webhook}",
        }  # fmt: skip
        self._probes = {name: container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")}
        command, mounting = self.root.command(
            *self._in_environment("beehive", *container["args"]), read_only=True, writable="/var/lib/beehive", user=USER
        )
        self.process = Daemon(name, command, folder, mounting)

    def _in_environment(self, *words: str) -> list[str]:
        return ["env", *(f"{key}={value}" for key, value in self.environment.items()), *words]

    def start(self) -> None:
        self.process.start(lambda: self.probe("livenessProbe"), 60)

    def probe(self, name: str) -> bool:
        """What the kubelet would see."""
        path = self._probes[name]
        try:
            return httpx.get(f"http://127.0.0.1:{self._admin}{path}", timeout=10, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def join_token(self) -> str:
        """`kubectl exec … beehive token create`, as the chart's notes say."""
        words = self._in_environment("beehive", "token", "create", "--config", "/etc/beehive/cloud.yaml")
        done = self.root.run(*words, read_only=True, writable="/var/lib/beehive", user=USER)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def pods(release: Release, tmp_path: Path) -> Iterator[Callable[[str], Pod]]:
    lease = {"duration": "3s", "renewDeadline": "2s", "retryPeriod": "200ms"}
    release.install({"hub": {"advertise": ["127.0.0.1"]}, "config": {"informer": {"lease": lease}}})
    made: list[Pod] = []

    def start(name: str) -> Pod:
        made.append(Pod(release, name, tmp_path))
        made[-1].start()
        return made[-1]

    yield start
    for pod in made:
        pod.process.stop()
        shutil.rmtree(pod.root.folder)


@pytest.fixture
def edge(registry: Registry, tmp_path: Path) -> Iterator[Callable[[Pod, Pod], Host]]:
    made: list[Host] = []

    def joined(leader: Pod, standby: Pod) -> Host:
        source = {"images": {"insecureHosts": [registry.address], "allow": [f"{registry.address}/{REPOSITORY}"]}}
        host = Host("edge-1", tmp_path / "edge-1", leader, source)  # type: ignore[arg-type] # the ports and the token
        made.append(host)
        both = [f"127.0.0.1:{pod.websocket_port}" for pod in (leader, standby)]
        settings = host.settings()
        host.settings = lambda: {**settings, "edgehub": {**settings["edgehub"], "servers": both}}  # type: ignore[method-assign]
        host.install(standin(OLD).read_bytes(), 8)
        host.start_program()
        token = host.directory / "join.token"
        token.write_text(leader.join_token())
        host.join(token)
        host.start_agent()
        wait_until(lambda: connected(host), 60, "edge-1 is connected")
        return host

    yield joined
    for host in made:
        host.end()


def connected(host: Host) -> bool:
    try:
        return host.is_connected()
    except OSError:
        return False


def test_the_deployment_does_the_main_job_as_its_service_account(
    release: Release, pods: Callable[[str], Pod], edge: Callable[[Pod, Pod], Host], registry: Registry
) -> None:
    """Two replicas: the Service of the hub selects one of them; that one is killed in the middle of a job."""
    server, image = release.server, f"{registry.address}/{REPOSITORY}"
    registry.push(REPOSITORY, NEW, installation_package(standin(NEW)))
    first, second = pods("beehive-1"), pods("beehive-2")
    selector = release.get("service", "beehive-hub")["spec"]["selector"]
    chosen = ",".join(f"{key}={value}" for key, value in selector.items())

    def behind_the_hub() -> list[str]:
        return server.kubectl("get", "pods", "-n", "kubeedge", "-l", chosen, "-o", "name").split()

    wait_until(lambda: behind_the_hub() == ["pod/beehive-1"], 30, "the first is behind the hub's Service, alone")
    wait_until(lambda: first.probe("readinessProbe") and second.probe("readinessProbe"), 30, "both are ready")
    host = edge(first, second)
    labels = {"node-role.kubernetes.io/edge": ""}
    server.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-1", "labels": labels}})
    about = {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
             "nodeInfo": {"kubeletVersion": f"v1.30.7-kubeedge-{OLD}"}}  # fmt: skip
    status = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": about}))
    server.kubectl("patch", "node", "edge-1", *status)

    job = {"version": NEW, "image": image, "nodeNames": ["edge-1"]}
    head = {"apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "NodeUpgradeJob", "metadata": {"name": "north"}}
    server.apply({**head, "spec": job})

    def under_way() -> bool:
        status = json.loads(server.kubectl("get", "nuj", "north", "-o", "json")).get("status", {})
        return any(one.get("actionFlow") for one in status.get("nodeStatus", []))

    wait_until(under_way, 60, "the first steps are reported")
    first.process.kill()
    wait_until(lambda: behind_the_hub() == ["pod/beehive-2"], 30, "the second has taken its place, alone")
    server.kubectl("wait", "--for=condition=Complete", "nuj/north", "--timeout=90s")
    assert host.starts() == [OLD, NEW]
    assert NEW in host.answers()
    assert "denied" not in second.process.log.read_text(), "the shipped rights are enough"
    assert "forbidden" not in second.process.log.read_text()
    refused = server.kubectl_result("apply", "-f", "-", stdin=json.dumps({**head, "metadata": {"name": "two"}, "spec": {
        "version": NEW, "image": image, "nodeNames": ["edge-1"], "failureTolerate": "150%"}}))  # fmt: skip
    assert "failureTolerate" in refused.stderr
