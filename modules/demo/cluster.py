"""The demo's cluster: the embedded API server and the cloud side, as processes, and an operator's view of them."""

import contextlib
import json
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from beehive.api.crd import crd
from beehive.api.nodeupgradejob import API_VERSION, KIND, NodeUpgradeJob
from beehive.errors import RuntimeFailed
from modules.demo.children import COMMAND, Child, command, tail

T = TypeVar("T")

NAMESPACE = "kubeedge"
_JOBS = f"/apis/{API_VERSION}/nodeupgradejobs"


def free_port() -> int:
    """A TCP port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(look: Callable[[], T], seconds: float, what: str, *children: Child) -> T:
    """Look again and again until the answer is true. Raises RuntimeFailed that says what did not happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for child in children:
            child.must_run()
        with contextlib.suppress(OSError, httpx.HTTPError):
            found = look()
            if found:
                return found
        time.sleep(0.05)
    logs = "\n".join(f"  {child.name}:\n{tail(child.log)}" for child in children)
    raise RuntimeFailed(f"{what} did not happen within {seconds:g} s.\n{logs}")


class Cluster:
    """One API server and one cloud process in a directory."""

    def __init__(self, directory: Path, offline_after: str = "2s") -> None:
        self.directory = directory
        self.token = secrets.token_urlsafe(24)
        self.websocket_port, self.https_port = free_port(), free_port()
        self._offline_after = offline_after
        self._write("token", self.token)
        self._write("crd.json", json.dumps(crd()))
        self.api = self._start_api()
        self.url = ""
        self.cloud: Child | None = None
        self._client = httpx.Client(headers={"Authorization": f"Bearer {self.token}"}, timeout=10, trust_env=False)

    # ---- life --------------------------------------------------------------------------------------------------

    def _start_api(self) -> Child:
        arguments = (
            sys.executable, "-m", "modules.demo.apiserver", "--port", "0", "--namespace", NAMESPACE,
            "--token-file", str(self.directory / "token"), "--crd", str(self.directory / "crd.json"),
        )  # fmt: skip
        return Child("the API server", arguments, self.directory / "apiserver.log")

    def wait_for_api(self) -> None:
        """Until the API server has said where it listens; writes the kubeconfig and the cloud's configuration."""
        self.url = wait_until(self._address, 20, "The start of the API server", self.api)
        self._write("kubeconfig", json.dumps(self._kubeconfig()))
        self._write("cloud.yaml", json.dumps(self._cloud_config(), indent=1))

    def start_cloud(self) -> None:
        """`beehive --mode cloud`; can be called again after `cloud.kill()`."""
        arguments = (*COMMAND, "--mode", "cloud", "--config", str(self.directory / "cloud.yaml"))
        self.cloud = Child("the cloud", arguments, self.directory / "cloud.log")

    def wait_for_cloud(self) -> None:
        """Until all its modules are ready."""
        assert self.cloud is not None
        wait_until(self._cloud_is_ready, 30, "The start of the cloud", self.cloud)

    def end(self) -> None:
        """End both processes."""
        for child in (self.cloud, self.api):
            if child:
                child.end()
        self._client.close()

    # ---- an operator's view ------------------------------------------------------------------------------------

    def join_token(self, node: str) -> str:
        """A token with which this host may join: `beehive token create`."""
        return command("token", "create", "--node", node, "--config", str(self.directory / "cloud.yaml")).strip()

    def add_node(self, name: str, version: str) -> None:
        """Register a Ready edge node, as its kubelet would."""
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        info = {"kubeletVersion": f"v1.30.7-kubeedge-{version}", "architecture": "amd64"}
        labels = {"node-role.kubernetes.io/edge": "", "kubernetes.io/hostname": name}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        self._call("POST", "/api/v1/nodes", body)
        self._call("PUT", f"/api/v1/nodes/{name}/status", {**body, "status": {"conditions": [ready], "nodeInfo": info}})

    def create_job(self, name: str, spec: dict[str, Any]) -> None:
        """Create the job, as `kubectl apply` would."""
        self._call("POST", _JOBS, {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec})

    def job(self, name: str) -> NodeUpgradeJob:
        """The job as it stands in the API server."""
        return msgspec.json.decode(self._call("GET", f"{_JOBS}/{name}"), type=NodeUpgradeJob)

    def node(self, name: str) -> dict[str, Any]:
        """The Node object as it stands in the API server."""
        found: dict[str, Any] = json.loads(self._call("GET", f"/api/v1/nodes/{name}"))
        return found

    # ---- inside ------------------------------------------------------------------------------------------------

    def _call(self, method: str, path: str, body: object = None) -> bytes:
        answer = self._client.request(method, self.url + path, json=body)
        if answer.status_code >= 400:
            raise RuntimeFailed(f"The API server refuses {method} {path}: {answer.text}")
        return answer.content

    def _address(self) -> str:
        log = self.api.log.read_text(encoding="utf-8")
        return next((line.strip() for line in log.splitlines() if line.startswith("http")), "")

    def _cloud_is_ready(self) -> bool:
        address = (self.directory / "cloud" / "admin.address").read_text(encoding="utf-8").strip()
        return httpx.get(f"http://{address}/readyz", timeout=5, trust_env=False).status_code == 200

    def _write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")

    def _cloud_config(self) -> dict[str, Any]:
        return {
            "runtime": {"data": str(self.directory / "cloud"), "admin": {"port": 0}},
            "informer": {
                "server": self.url, "tokenFile": str(self.directory / "token"), "namespace": NAMESPACE,
                "lease": {"duration": "2s", "renewDeadline": "1500ms", "retryPeriod": "500ms"},
            },
            "taskmanager": {"cloud": {"offlineAfter": self._offline_after, "flush": "200ms"}},
            "admission": {"port": 0},
            "cloudhub": {
                "websocket": {"address": "127.0.0.1", "port": self.websocket_port},
                "https": {"address": "127.0.0.1", "port": self.https_port},
            },
        }  # fmt: skip

    def _kubeconfig(self) -> dict[str, Any]:
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": "demo",
            "clusters": [{"name": "demo", "cluster": {"server": self.url}}],
            "users": [{"name": "demo", "user": {"token": self.token}}],
            "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
        }  # fmt: skip


@contextlib.contextmanager
def running(directory: Path) -> Iterator[Cluster]:
    """A cluster that is ready; its processes are ended at the end, also when that is an error."""
    cluster = Cluster(directory)
    try:
        cluster.wait_for_api()
        cluster.start_cloud()
        cluster.wait_for_cloud()
        yield cluster
    finally:
        cluster.end()
