"""`beehive job`, and `kubectl nuj`, as a person types them, against kube-apiserver and under real rights."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from beehive.api.crd import NAME as CRD
from beehive.api.crd import crd
from modules.demo.children import wait_until
from modules.demo.cloud import Cloud
from tests.real.running.apiserver import ApiServer
from tests.real.running.build import KUBECTL

RBAC = Path(__file__).resolve().parents[2] / "configs" / "rbac.yaml"
BEEHIVE = Path(sys.executable).with_name("beehive")
EDGE = {"node-role.kubernetes.io/edge": "", "region": "west"}


class Person:
    """Somebody at a shell, with a kubeconfig."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server, self._folder = server, folder
        self._folder.mkdir(exist_ok=True)
        for name in ("kubectl-nuj", "kubectl-beehive", "kubectl_complete-nuj", "kubectl_complete-beehive"):
            (folder / name).symlink_to(BEEHIVE)

    def types(self, *words: str | Path, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{self._folder}:/usr/bin:/bin", "HOME": str(self._folder), "LANG": "C.UTF-8",
                       "KUBECONFIG": str(kubeconfig or self.server.kubeconfig)}  # fmt: skip
        return subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False
        )

    def job(self, *words: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        return self.types(BEEHIVE, "job", *words, kubeconfig=kubeconfig)


@pytest.fixture
def person(own_apiserver: ApiServer, tmp_path: Path) -> Person:
    without_webhooks = crd()
    without_webhooks["spec"].pop("conversion")  # type: ignore[attr-defined] # nobody answers conversions here
    own_apiserver.apply(without_webhooks)
    own_apiserver.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
    return Person(own_apiserver, tmp_path / "person")


def node(server: ApiServer, name: str, version: str) -> None:
    server.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": EDGE}})
    status = {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
              "nodeInfo": {"kubeletVersion": f"v1.30.7-kubeedge-{version}"}}  # fmt: skip
    server.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))


def test_from_plan_to_the_end_of_a_job_on_a_real_api_server(person: Person) -> None:
    server = person.server
    node(server, "west-1", "v1.22.0")
    node(server, "west-2", "v1.23.0")
    words = ("--version", "v1.23.0", "--selector", "region=west")
    planned = person.job("plan", *words)
    assert "Would upgrade 1 of 2 nodes selected to v1.23.0, 1 at a time." in planned.stdout, planned.stderr

    asked = person.job("create", *words)
    assert (asked.returncode, "Say --yes" in asked.stderr) == (2, True)
    assert person.job("create", *words, "--dry-run").returncode == 0
    assert json.loads(server.kubectl("get", "nuj", "-o", "json"))["items"] == []

    made = person.job("create", *words, "--yes", "-o", "json")
    assert made.returncode == 0, made.stderr
    name = json.loads(made.stdout)["metadata"]["name"]
    assert name.startswith("to-v1.23.0-")

    for verb, suspended in (("suspend", True), ("resume", False)):
        assert person.job(verb, name).returncode == 0
        assert json.loads(server.kubectl("get", "nuj", name, "-o", "json"))["spec"]["suspend"] is suspended

    entry = {"nodeName": "west-1", "phase": "Successful", "historicVersion": "v1.22.0"}
    status = {"phase": "Completed", "total": 1, "successful": 1, "done": "1/1", "nodeStatus": [entry]}
    patch = ("patch", "nuj", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    timer = threading.Timer(1.0, lambda: server.kubectl(*patch))
    timer.start()
    watched = person.job("watch", name, "--timeout", "60s")
    timer.join()
    assert watched.returncode == 0, watched.stderr
    assert watched.stdout.splitlines()[-1] == f"Job {name} is Completed: 1 upgraded."
    assert "west-1  Successful  upgraded from v1.22.0" in watched.stdout

    refused = person.job("retry", name, "--yes")
    assert (refused.returncode, "no node to try again" in refused.stderr) == (1, True)


def test_kubectl_finds_the_plugins(person: Person) -> None:
    listed = person.types(KUBECTL.path(), "nuj", "list")
    assert (listed.returncode, "No jobs. Make one" in listed.stderr) == (0, True), listed.stderr
    assert person.types(KUBECTL.path(), "beehive", "job", "list").returncode == 0
    known = person.types(KUBECTL.path(), "plugin", "list").stdout
    assert {"kubectl-nuj", "kubectl-beehive"} <= {Path(line).name for line in known.splitlines()}


def test_kubectl_completes_the_plugins_words_and_the_names_of_jobs(person: Person) -> None:
    def completed(*words: str) -> list[str]:
        done = person.types(KUBECTL.path(), "__complete", *words)
        assert done.returncode == 0, done.stderr
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    for name in ("north", "south"):
        assert person.job("create", name, "--version", "v1.23.0", "--nodes", "a", "--yes").returncode == 0
    assert completed("nuj", "des") == ["describe", ":4"]
    assert completed("nuj", "describe", "nor") == ["north", ":4"]
    assert completed("nuj", "watch", "") == ["north", "south", ":4"]
    assert completed("beehive", "job", "ab") == ["abort", ":4"]


def test_what_the_server_refuses_is_one_sentence(person: Person) -> None:
    server = person.server
    stranger = server.kubeconfig_for(server.service_account_token("stranger", "default"), "stranger")
    forbidden = person.job("list", kubeconfig=stranger)
    assert forbidden.returncode == 1
    assert "is forbidden" in forbidden.stderr
    assert forbidden.stderr.rstrip().endswith("Ask who runs the cluster for this right, or try --context NAME.")
    nobody = person.job("list", kubeconfig=server.kubeconfig_for("wrong", "nobody"))
    assert (nobody.returncode, "does not know these credentials" in nobody.stderr) == (1, True)
    missing = person.job("describe", "nowhere")
    assert missing.stderr == "There is no job nowhere. See them all: beehive job list\n"
    server.kubectl("delete", "crd", CRD)
    bare = person.job("list")
    assert (bare.returncode, "beehive crd | kubectl apply -f -" in bare.stderr) == (1, True), bare.stderr
    for done in (forbidden, nobody, missing, bare):
        assert len(done.stderr.splitlines()) == 1
        assert done.stdout == ""
    server.process.stop()
    away = person.job("list")
    assert (away.returncode, len(away.stderr.splitlines())) == (1, 1), away.stderr
    assert "connect" in away.stderr


def test_another_controller_that_writes_the_same_jobs_is_named(person: Person, tmp_path: Path) -> None:
    server = person.server
    node(server, "west-1", "v1.22.0")
    (tmp_path / "token").write_text(server.service_account_token("beehive", "kubeedge", RBAC))
    informer = {
        "server": server.url, "tokenFile": str(tmp_path / "token"), "caFile": str(server.ca_file),
        "lease": {"duration": "2s", "renewDeadline": "1500ms", "retryPeriod": "500ms"},
    }  # fmt: skip
    cloud = Cloud(tmp_path / "cloud", informer)
    try:
        cloud.start()
        cloud.wait_until_ready()
        words = ("--version", "v1.23.0", "--nodes", "west-1", "--on-offline", "Wait", "--yes")
        made = person.job("create", "north", *words)
        assert made.returncode == 0, made.stderr
        wait_until(lambda: "InProgress" in person.job("get", "north").stdout, 30, "Beehive has begun")
        assert "[!]" not in cloud.readyz()
        assert "Beware" not in person.job("describe", "north").stdout
        status = {"status": {"waiting": "somebody else's words"}}
        server.kubectl(
            "patch", "nuj", "north", "--subresource=status", "--type=merge", "--field-manager=cloudcore", "-p",
            json.dumps(status),
        )  # fmt: skip
        wait_until(lambda: "[!] informer cloudcore also writes the status" in cloud.readyz(), 20, "the warning")
        assert cloud.readyz().endswith("\nready\n"), "a warning only"
        said = person.job("describe", "north").stdout
        assert "Beware: cloudcore also writes the status of job north; two controllers" in said

        def events() -> str:
            found: str = server.kubectl("get", "events", "--field-selector", "reason=AnotherController", "-o", "json")
            return found

        wait_until(lambda: "cloudcore also writes" in events(), 20, "the Event on the job")
        (event,) = json.loads(events())["items"]
        assert (event["involvedObject"]["kind"], event["type"]) == ("NodeUpgradeJob", "Warning")
        told = person.job("logs", "north").stdout
        assert "AnotherController: cloudcore also writes" in told
        assert "Started: 1 node, 1 at a time" in told
    finally:
        cloud.end()
