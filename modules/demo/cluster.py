"""The demo's cluster: the embedded API server and the cloud side, as processes, and an operator's view of them."""

import contextlib
import json
import secrets
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec

from beehive.api.crd import crd
from beehive.api.nodeupgradejob import API_VERSION, KIND, NodeUpgradeJob
from beehive.errors import RuntimeFailed
from modules.demo.certificate import write_certificate
from modules.demo.children import Child, wait_until
from modules.demo.cloud import Cloud

NAMESPACE = "kubeedge"
_JOBS = f"/apis/{API_VERSION}/nodeupgradejobs"


class Cluster:
    """One API server and one cloud process in a directory."""

    def __init__(self, directory: Path, **sections: Any) -> None:
        self.directory = directory
        self.token = secrets.token_urlsafe(24)
        self._write("token", self.token)
        self._write("crd.json", json.dumps(crd()))
        self.ca, key = directory / "api.crt", directory / "api.key"
        write_certificate(self.ca, key)
        headers = {"Authorization": f"Bearer {self.token}"}
        trusting = ssl.create_default_context(cafile=str(self.ca))
        self._client = httpx.Client(headers=headers, verify=trusting, timeout=10, trust_env=False)
        self.api = self._start_api()
        self.url = wait_until(self._address, 20, "The start of the API server", self.api)
        self._write("kubeconfig", json.dumps(self._kubeconfig()))
        self.cloud = Cloud(directory / "cloud", self._informer(), **sections)

    def _start_api(self) -> Child:
        arguments = (
            sys.executable, "-m", "modules.demo.apiserver", "--port", "0", "--namespace", NAMESPACE,
            "--token-file", str(self.directory / "token"), "--crd", str(self.directory / "crd.json"),
            "--certificate", str(self.ca), "--key", str(self.directory / "api.key"),
        )  # fmt: skip
        return Child("the API server", arguments, self.directory / "apiserver.log")

    def end(self) -> None:
        """End both processes."""
        self.cloud.end()
        self.api.end()
        self._client.close()

    # ---- an operator's view ------------------------------------------------------------------------------------

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

    def change_job(self, name: str, spec: dict[str, Any]) -> None:
        """Change its spec, as `beehive job abort` would."""
        self._call("PATCH", f"{_JOBS}/{name}", {"spec": spec}, "application/merge-patch+json")

    def job(self, name: str) -> NodeUpgradeJob:
        """The job as it stands in the API server."""
        return msgspec.json.decode(self._call("GET", f"{_JOBS}/{name}"), type=NodeUpgradeJob)

    def node(self, name: str) -> dict[str, Any]:
        """The Node object as it stands in the API server."""
        found: dict[str, Any] = json.loads(self._call("GET", f"/api/v1/nodes/{name}"))
        return found

    # ---- inside ------------------------------------------------------------------------------------------------

    def _call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> bytes:
        content = None if body is None else json.dumps(body)
        answer = self._client.request(method, self.url + path, content=content, headers={"Content-Type": kind})
        if answer.status_code >= 400:
            raise RuntimeFailed(f"The API server refuses {method} {path}: {answer.text}")
        return answer.content

    def _address(self) -> str:
        log = self.api.log.read_text(encoding="utf-8")
        return next((line.strip() for line in log.splitlines() if line.startswith("http")), "")

    def _write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")

    def _informer(self) -> dict[str, Any]:
        return {
            "server": self.url, "tokenFile": str(self.directory / "token"), "caFile": str(self.ca),
            "namespace": NAMESPACE,
            "lease": {"duration": "2s", "renewDeadline": "1500ms", "retryPeriod": "500ms"},
        }  # fmt: skip

    def _kubeconfig(self) -> dict[str, Any]:
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": "demo",
            "clusters": [{"name": "demo", "cluster": {"server": self.url, "certificate-authority": str(self.ca)}}],
            "users": [{"name": "demo", "user": {"token": self.token}}],
            "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
        }  # fmt: skip


@contextlib.contextmanager
def running(directory: Path, **sections: Any) -> Iterator[Cluster]:
    """A cluster that is ready, its cloud with these further sections of configuration.

    Its processes are ended at the end, also when that is an error.
    """
    cluster = Cluster(directory, **sections)
    try:
        cluster.cloud.start()
        cluster.cloud.wait_until_ready()
        yield cluster
    finally:
        cluster.end()
