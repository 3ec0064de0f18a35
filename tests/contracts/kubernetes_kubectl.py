"""Contract: kubectl at work."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.contracts.api import EVENTS, NODES, Api, fresh, node
from tests.contracts.rollout import ROLLOUTS, rollout


class Kubectl:
    """Runs kubectl for one server."""

    def __init__(self, program: Path, kubeconfig: Path, home: Path) -> None:
        self._command = [str(program), f"--kubeconfig={kubeconfig}", f"--cache-dir={home}"]
        self._environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}

    def run(self, *arguments: str, stdin: object = None) -> subprocess.CompletedProcess[str]:
        """One command; ``stdin`` is sent as JSON."""
        text = "" if stdin is None else json.dumps(stdin)
        command = [*self._command, *arguments]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, env=self._environment, check=False, timeout=60
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that goes on beside the test."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*self._command, *arguments], stdout=pipe, stderr=pipe, text=True, env=self._environment
        )

    def __call__(self, *arguments: str, stdin: object = None) -> str:
        """What it prints; a failure of kubectl fails the test."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout


class KubectlContract:
    """Fixtures: ``api``, and ``kubectl`` for the same server."""

    @pytest.fixture
    def name(self, api: Api) -> str:
        """The name of a Rollout that exists."""
        made = api.make(ROLLOUTS, rollout(fresh()))
        return str(made["metadata"]["name"])

    def test_create_and_apply(self, api: Api, kubectl: Kubectl) -> None:
        name = fresh()
        assert kubectl("create", "-f", "-", stdin=rollout(name)) == f"rollout.contract.test/{name} created\n"
        applied = kubectl("apply", "-f", "-", stdin=rollout(name, suspend=True))
        assert applied == f"rollout.contract.test/{name} configured\n"
        assert kubectl("apply", "-f", "-", stdin=rollout(name, suspend=True)).endswith("unchanged\n")
        assert api.get(f"{ROLLOUTS}/{name}")["spec"]["suspend"] is True
        assert kubectl("diff", "-f", "-", stdin=rollout(name, suspend=True)) == ""
        assert kubectl("delete", "rollout", name) == f'rollout.contract.test "{name}" deleted\n'

    def test_apply_on_the_server(self, api: Api, kubectl: Kubectl) -> None:
        name = fresh()
        said = kubectl("apply", "--server-side", "-f", "-", stdin=rollout(name))
        assert said == f"rollout.contract.test/{name} serverside-applied\n"
        kubectl("delete", "ro", name)

    def test_apply_of_built_in_kinds(self, api: Api, kubectl: Kubectl) -> None:
        name = fresh()
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1", "b": "2"}}
        kubectl("apply", "-f", "-", stdin=body)
        kubectl("apply", "-f", "-", stdin={**body, "data": {"b": "3"}})
        assert json.loads(kubectl("get", "cm", name, "-o", "json"))["data"] == {"b": "3"}
        kubectl("delete", "cm", name)

    def test_a_bad_object_is_refused_in_a_sentence(self, kubectl: Kubectl) -> None:
        name = fresh()
        bad = rollout(name, version="latest", selector={})
        said = kubectl.run("apply", "-f", "-", stdin=bad)
        assert said.returncode == 1
        assert said.stderr.startswith(f'The Rollout "{name}" is invalid:')
        assert '"latest" is not a version; write one like v1.23' in said.stderr
        assert "give exactly one of names and selector" in said.stderr
        unknown = kubectl.run("create", "-f", "-", stdin=rollout(name, verison="v1"))
        assert unknown.returncode == 1
        assert 'strict decoding error: unknown field "spec.verison"' in unknown.stderr

    def test_get(self, api: Api, kubectl: Kubectl, name: str) -> None:
        conditions = [{"type": "Complete", "status": "True", "reason": "AllDone"}]
        api.patch(
            f"{ROLLOUTS}/{name}/status", {"status": {"phase": "Completed", "failed": 1, "conditions": conditions}}
        )
        head, row = kubectl("get", "ro", name).splitlines()
        assert head.split() == ["NAME", "VERSION", "PHASE", "FAILED", "AGE"]
        assert row.split()[:4] == [name, "v1.2", "Completed", "1"]
        head, row = kubectl("get", "rollouts.contract.test", name, "-o", "wide").splitlines()
        assert head.split()[-1] == "REASON"
        assert row.split()[-1] == "AllDone"
        assert name in kubectl("get", "contract", "-o", "name")
        assert kubectl("get", "ro", name, "-o", "jsonpath={.status.phase}") == "Completed"

    def test_get_nodes(self, api: Api, kubectl: Kubectl) -> None:
        name = fresh()
        api.make(NODES, node(name, **{"node-role.kubernetes.io/edge": ""}))
        kubectl("cordon", name)
        row = kubectl("get", "nodes", name, "--no-headers").split()
        assert row[:3] == [name, "Unknown,SchedulingDisabled", "edge"]
        kubectl("uncordon", name)
        kubectl("label", "node", name, "a=b")
        kubectl("annotate", "node", name, "c=d")
        metadata = api.get(f"{NODES}/{name}")["metadata"]
        assert (metadata["labels"]["a"], metadata["annotations"]["c"]) == ("b", "d")

    def test_wait(self, api: Api, kubectl: Kubectl, name: str) -> None:
        path = f"{ROLLOUTS}/{name}/status"
        api.patch(path, {"status": {"conditions": [{"type": "Complete", "status": "True"}]}})
        assert "condition met" in kubectl("wait", "--for=condition=Complete", f"ro/{name}", "--timeout=10s")
        late = kubectl.run("wait", "--for=condition=Failed", f"ro/{name}", "--timeout=1s")
        assert late.returncode == 1
        assert "timed out" in late.stderr

    def test_wait_for_what_comes_later(self, api: Api, kubectl: Kubectl, name: str) -> None:
        process = kubectl.start("wait", "--for=condition=Complete", f"ro/{name}", "--timeout=20s")
        api.patch(f"{ROLLOUTS}/{name}/status", {"status": {"conditions": [{"type": "Complete", "status": "True"}]}})
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert "condition met" in out

    def test_describe(self, api: Api, kubectl: Kubectl, name: str) -> None:
        uid = api.get(f"{ROLLOUTS}/{name}")["metadata"]["uid"]
        about = {"kind": "Rollout", "apiVersion": "contract.test/v1", "name": name, "uid": uid}
        event = {"metadata": {"name": fresh()}, "involvedObject": about, "reason": "Started", "type": "Normal"}
        times = {"firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:05Z"}
        api.make(EVENTS, {**event, **times, "message": "5 nodes, 2 at a time", "count": 1})
        told = kubectl("describe", "ro", name)
        assert f"Name:         {name}" in told
        assert "5 nodes, 2 at a time" in told
        assert "Started" in kubectl("get", "events", "--field-selector", f"involvedObject.name={name}")

    def test_explain(self, kubectl: Kubectl) -> None:
        told = kubectl("explain", "rollout.spec")
        assert "The version to bring the nodes to." in told
        assert "version\t<string> -required-" in told

    def test_patch_and_replace(self, api: Api, kubectl: Kubectl, name: str) -> None:
        kubectl("patch", "ro", name, "--type=merge", "-p", '{"spec":{"suspend":true}}')
        kubectl("patch", "ro", name, "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"InProgress"}}')
        operations = '[{"op":"replace","path":"/spec/concurrency","value":3}]'
        kubectl("patch", "ro", name, "--type=json", "-p", operations)
        found = api.get(f"{ROLLOUTS}/{name}")
        assert (found["spec"]["suspend"], found["spec"]["concurrency"], found["status"]["phase"]) == (
            True,
            3,
            "InProgress",
        )
        kubectl("replace", "-f", "-", stdin={**found, "spec": {**found["spec"], "concurrency": 4}})
        assert api.get(f"{ROLLOUTS}/{name}")["spec"]["concurrency"] == 4

    def test_watch(self, api: Api, kubectl: Kubectl, name: str) -> None:
        # A list is watched from its version on; one object by name is not, and a change in between would go unseen.
        process = kubectl.start("get", "ro", f"--field-selector=metadata.name={name}", "--watch", "--no-headers")
        try:
            assert process.stdout is not None
            assert process.stdout.readline().split()[0] == name
            api.patch(f"{ROLLOUTS}/{name}/status", {"status": {"phase": "InProgress"}})
            assert process.stdout.readline().split()[:3] == [name, "v1.2", "InProgress"]
        finally:
            process.terminate()
            process.communicate(timeout=10)

    def test_delete_waits_for_finalizers(self, api: Api, kubectl: Kubectl) -> None:
        body = rollout(fresh())
        body["metadata"]["finalizers"] = ["contract.test/hold"]
        name = api.make(ROLLOUTS, body)["metadata"]["name"]
        process = kubectl.start("delete", "ro", name, "--timeout=20s")
        with api.watch(ROLLOUTS, fieldSelector=f"metadata.name={name}") as events:
            while "deletionTimestamp" not in next(events)["object"]["metadata"]:
                assert process.poll() is None
        api.patch(f"{ROLLOUTS}/{name}", {"metadata": {"finalizers": None}})
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert f'"{name}" deleted' in out

    def test_api_resources(self, kubectl: Kubectl) -> None:
        rows = [line.split() for line in kubectl("api-resources", "--no-headers").splitlines()]
        assert ["rollouts", "ro", "contract.test/v1", "false", "Rollout"] in rows
        assert ["nodes", "no", "v1", "false", "Node"] in rows
