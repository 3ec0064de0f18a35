"""What is applied to a cluster: the chart in several value sets and the plain manifest, judged by kube-apiserver."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from beehive.api.crd import crd
from beehive.config import Source, load
from beehive.runtime import sections
from modules.demo.cloud import Cloud
from modules.informer.role import LABEL, LEADER
from modules.registry import MODULES
from shipping.manifests import CHART, INSTALL, install, render
from tests.real.running.apiserver import ApiServer
from tests.real.running.build import HELM
from tests.real.running.processes import wait_until

TOP = CHART.parents[2]
Object = dict[str, Any]
VALUES: dict[str, Object] = {
    "defaults": {},
    "one replica on a port of the nodes": {
        "replicas": 1, "webhook": {"enabled": False}, "networkPolicy": {"enabled": False},
        "hub": {"service": {"type": "NodePort", "websocketNodePort": 30100}, "advertise": ["hub.example", "10.0.0.7"]},
    },
    "everything": {
        "replicas": 3, "image": {"digest": f"sha256:{'a' * 64}", "pullSecrets": [{"name": "registry"}]},
        "hub": {"service": {"annotations": {"a/b": "c"}}, "advertise": ["hub.example"]},
        "webhook": {"failurePolicy": "Fail"}, "secretMounts": {"etcd-client": "/etc/beehive-etcd"},
        "config": {"etcdmanager": {"endpoints": ["https://10.0.0.1:2379"]}, "cloudhub": {"https": {"port": 10002}}},
        "networkPolicy": {"metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
        "priorityClassName": "system-cluster-critical", "nodeSelector": {"kubernetes.io/os": "linux"},
        "podAnnotations": {"note": "for tests"}, "podLabels": {"team": "edge"},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def helm(_programs: None) -> Path:
    return HELM.path()


@pytest.fixture
def rendered(helm: Path, tmp_path: Path) -> Callable[..., list[Object]]:
    def with_values(values: Object, *options: str) -> list[Object]:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        return [one for one in yaml.safe_load_all(render(helm, "--values", str(file), *options)) if one]

    return with_values


@pytest.fixture(scope="module")
def cluster(apiserver: ApiServer) -> ApiServer:
    """With the namespace, for a dry run makes none."""
    apiserver.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeedge"}})
    return apiserver


def of(documents: list[Object], kind: str, name: str = "beehive") -> Object:
    (found,) = [one for one in documents if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def test_helm_finds_nothing_wrong_with_the_chart(helm: Path) -> None:
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 chart(s) failed" in done.stdout


@pytest.mark.parametrize("name", VALUES)
def test_kube_apiserver_accepts_every_document(
    cluster: ApiServer, rendered: Callable[..., list[Object]], name: str
) -> None:
    documents = rendered(VALUES[name])
    assert len(documents) >= 10
    text = yaml.safe_dump_all(documents)
    said = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
    assert len(said.splitlines()) == len(documents), said
    assert {line.split()[-3:] == ["(server", "dry", "run)"] for line in said.splitlines()} == {True}


def test_kube_apiserver_accepts_the_plain_manifest(cluster: ApiServer) -> None:
    said = cluster.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", str(INSTALL))
    assert len(said.splitlines()) == len([one for one in yaml.safe_load_all(INSTALL.read_text()) if one])


def test_the_plain_manifest_is_the_charts(helm: Path) -> None:
    assert INSTALL.read_text(encoding="utf-8") == install(helm), "run make manifests"


@pytest.mark.parametrize(
    "wrong",
    [
        {"replicas": 0}, {"replicas": "two"}, {"replica": 3}, {"image": {"digest": "sha256:abc"}},
        {"hub": {"service": {"type": "Ingress"}}}, {"hub": {"service": {"websocketPort": 70000}}},
        {"webhook": {"failurePolicy": "Maybe"}}, {"secretMounts": {"a": "relative"}}, {"hub": {"advertise": [""]}},
        {"secretMounts": {"a.b": "/etc/a"}}, {"secretMounts": {"a": "/etc/beehive"}},
        {"podLabels": {"beehive/role": "leader"}}, {"podLabels": {"app.kubernetes.io/name": "other"}},
        {"config": {"runtime": {"admin": {"port": 9}}}}, {"config": {"cloudhub": {"websocket": {"port": 9}}}},
        {"config": {"informer": {"namespace": "other"}}}, {"config": {"runtime": {"data": "/data"}}},
        {"metrics": {"serviceMonitor": {"enabled": "yes"}}}, {"metrics": {"serviceMonitor": {"interval": "often"}}},
    ],
)  # fmt: skip
def test_values_that_make_no_sense_are_refused(helm: Path, tmp_path: Path, wrong: Object) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(wrong))
    options = ("--kube-version", "1.34.4", "--values", tmp_path / "values.yaml")
    command: list[str | Path] = [helm, "template", "beehive", CHART, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


def test_an_older_kubernetes_is_refused(helm: Path) -> None:
    done = subprocess.run([helm, "template", CHART, "--kube-version", "1.29.9"], capture_output=True, text=True)  # noqa: PLW1510
    assert "incompatible with Kubernetes v1.29.9" in done.stderr


@pytest.mark.parametrize("name", VALUES)
def test_the_configuration_is_one_that_the_process_takes(rendered: Callable[..., list[Object]], name: str) -> None:
    text = of(rendered(VALUES[name]), "ConfigMap", "beehive-config")["data"]["cloud.yaml"]
    pod = {"BEEHIVE_INFORMER_POD": "beehive-1"}
    settings = load(sections(MODULES), Source("cloud.yaml", text, pod, {}))
    assert settings["informer"].pod == "beehive-1"
    assert settings["admission"].register.service == ("" if name.startswith("one") else "beehive-admission")
    if name == "everything":
        assert settings["etcdmanager"].endpoints == ("https://10.0.0.1:2379",)


def test_rights_and_webhooks_are_the_shipped_ones_in_the_releases_namespace(
    rendered: Callable[..., list[Object]],
) -> None:
    documents = rendered({}, "--namespace", "upgrades")
    for file in ("rbac.yaml", "webhooks.yaml"):
        for shipped in yaml.safe_load_all((TOP / "configs" / file).read_text()):
            if shipped["kind"] == "Namespace":
                continue
            moved = json.loads(json.dumps(shipped).replace('"namespace": "kubeedge"', '"namespace": "upgrades"'))
            assert of(documents, shipped["kind"], shipped["metadata"]["name"]) == moved
    named = [one for one in documents if "namespace" in one["metadata"]]
    assert {one["metadata"]["namespace"] for one in named} == {"upgrades"}


def test_the_hubs_service_selects_the_leader_and_the_others_select_all(rendered: Callable[..., list[Object]]) -> None:
    documents = rendered({})
    pod = of(documents, "Deployment")["spec"]["template"]["metadata"]["labels"]
    hub = of(documents, "Service", "beehive-hub")["spec"]["selector"]
    assert hub.pop(LABEL) == LEADER
    assert LABEL not in pod, "no Pod is born a leader"
    webhook = of(documents, "Service", "beehive-admission")["spec"]["selector"]
    for selector in (hub, webhook, of(documents, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"]):
        assert selector.items() <= pod.items()


def test_the_pod_has_no_power_over_its_host(cluster: ApiServer, rendered: Callable[..., list[Object]]) -> None:
    """The strictest of Kubernetes' own pod security standards, judged by its own admission."""
    spec = of(rendered(VALUES["everything"]), "Deployment")["spec"]["template"]["spec"]
    strict = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": strict}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "beehive", "namespace": "strict"}}
    cluster.apply(account)
    del spec["priorityClassName"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "strict"}, "spec": spec}
    said = cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    assert said == "pod/one created (server dry run)\n"
    spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    refused = cluster.kubectl_result("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    assert "violates PodSecurity" in refused.stderr


@pytest.fixture
def clouds(cluster: ApiServer, tmp_path: Path) -> Iterator[Callable[[str], Cloud]]:
    """Processes with the shipped rights and nothing more, each told the name of its Pod."""
    cluster.apply(crd())
    token = tmp_path / "token"
    token.write_text(cluster.service_account_token("beehive", "kubeedge", TOP / "configs" / "rbac.yaml"))
    made: list[Cloud] = []

    def start(pod: str) -> Cloud:
        labels = {"app.kubernetes.io/name": "beehive", "app.kubernetes.io/component": "cloud"}
        spec = {"containers": [{"name": "beehive", "image": "beehive"}]}
        metadata = {"name": pod, "namespace": "kubeedge", "labels": labels}
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        lease = {"name": "ship", "duration": "3s", "renewDeadline": "2s", "retryPeriod": "200ms"}
        informer = {"server": cluster.url, "tokenFile": str(token), "caFile": str(cluster.ca_file), "pod": pod}
        made.append(Cloud(tmp_path / pod, {**informer, "namespace": "kubeedge", "lease": lease}))
        made[-1].start()
        made[-1].wait_until_ready()
        return made[-1]

    yield start
    for cloud in made:
        cloud.end()
    cluster.kubectl("delete", "pods", "-n", "kubeedge", "--all", "--grace-period=0", "--force")


def test_of_two_processes_with_the_shipped_rights_the_one_that_leads_has_the_label(
    cluster: ApiServer, clouds: Callable[[str], Cloud]
) -> None:
    selector = "app.kubernetes.io/name=beehive,beehive/role=leader"

    def leaders() -> str:
        return cluster.kubectl("get", "pods", "-n", "kubeedge", "-l", selector, "-o", "name").strip()

    first = clouds("beehive-1")
    wait_until(lambda: leaders() == "pod/beehive-1", 10, "the first has the label")
    clouds("beehive-2")
    assert leaders() == "pod/beehive-1", "a standby changes nothing"
    assert first.process is not None
    first.process.kill()
    wait_until(lambda: leaders() == "pod/beehive-2", 15, "the second has the label, and the dead one has it no more")
