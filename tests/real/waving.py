"""A wave on real parts: a kube-apiserver, cloud processes as its ServiceAccount, and a process of scripted edges."""

import asyncio
import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from beehive.api.crd import crd
from beehive.errors import RuntimeFailed
from modules.cloudhub import pki
from modules.demo.children import wait_until
from modules.demo.cloud import Cloud
from modules.informer.client import Client
from modules.informer.config import Config
from modules.informer.connection import Connection
from tests.fakes.edges import Records, Settings, edge_node, issue
from tests.fakes.jobs import NEW
from tests.real.running.apiserver import ApiServer

TOP = Path(__file__).resolve().parents[2]
JOBS = "/apis/operations.kubeedge.io/v1alpha2/nodeupgradejobs"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kubeedge/leases/beehive"
QUICK = {"duration": "3s", "renewDeadline": "2s", "retryPeriod": "300ms"}
_AT_ONCE = 32


class Field:
    """An API server with the definition, the shipped rights, a CA of ours, and as many edge nodes as asked for."""

    def __init__(self, server: ApiServer, directory: Path, nodes: Sequence[str]) -> None:
        self.server, self.directory, self.nodes = server, directory, tuple(nodes)
        server.apply(crd())
        server.kubectl("wait", "--for=condition=Established", f"crd/{crd()['metadata']['name']}", "--timeout=30s")  # type: ignore[index]
        token = server.service_account_token("beehive", "kubeedge", TOP / "configs" / "rbac.yaml")
        (directory / "token").write_text(token)
        (directory / "admin-token").write_text(server.admin_token)
        self.ca = pki.make_ca(time.time())
        data = {"cadata": self.ca.certificate, "cakeydata": self.ca.key}
        server.apply(
            {
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "beehive-ca", "namespace": "kubeedge"},
                "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
            }
        )  # fmt: skip
        issue(directory / "identities", self.nodes, self.ca)
        asyncio.run(self.each([("POST", "/api/v1/nodes", edge_node(name)) for name in self.nodes]))
        self.clouds: list[Cloud] = []

    def begin(self, directory: Path) -> None:
        """New processes in a new directory; nobody leads any more."""
        self.end()
        self.clouds = []
        for name in ("token", "admin-token", "identities"):
            (directory / name).symlink_to(self.directory / name)
        self.directory = directory
        self.server.request("DELETE", LEASE)

    def delete_jobs(self) -> None:
        """As `kubectl delete nuj --all`: it must not hang."""
        self.server.request("DELETE", JOBS)
        self.wait(lambda: not self.server.request("GET", JOBS).json()["items"], "the jobs are deleted")

    async def each(self, calls: Sequence[tuple[str, str, Any]]) -> None:
        """Calls of the admin, some at once."""
        config = Config(
            server=self.server.url, ca_file=str(self.server.ca_file), token_file=str(self.directory / "admin-token")
        )
        async with Connection(config) as connection:
            client, lane = Client(connection, 60), asyncio.Semaphore(_AT_ONCE)

            async def call(method: str, path: str, body: Any) -> None:
                async with lane:
                    data = json.dumps(body).encode()
                    reply = await (client.create(path, data) if method == "POST" else client.delete(path))
                    assert reply.status < 300, reply

            async with asyncio.TaskGroup() as group:
                for one in calls:
                    group.create_task(call(*one))

    # ---- processes ---------------------------------------------------------------------------------------------

    def add_cloud(self, url: str = "", lease: Mapping[str, str] = QUICK, **sections: Any) -> Cloud:
        """A replica, not started yet; `url` when it goes through a proxy."""
        reach = {"server": url or self.server.url, "tokenFile": str(self.directory / "token")}
        if not url:
            reach["caFile"] = str(self.server.ca_file)
        informer = {**reach, "lease": {**lease, "identity": f"replica-{len(self.clouds)}"}}
        cloud = Cloud(self.directory / f"cloud-{len(self.clouds)}", informer, **sections)
        self.clouds.append(cloud)
        return cloud

    def settings(self, **more: Any) -> Settings:
        """For the edges of all nodes, with all clouds that were added."""
        return Settings(
            servers=tuple(f"127.0.0.1:{one.websocket_port}" for one in self.clouds),
            identities=str(self.directory / "identities"),
            nodes=self.nodes,
            records=str(self.directory / "records.json"),
            **more,
        )

    @contextmanager
    def edges(self, seconds: float = 60, **more: Any) -> Iterator["EdgeProcess"]:
        """All nodes' edges, connected."""
        process = EdgeProcess(self.directory, self.settings(**more))
        try:
            process.wait_until_ready(seconds)
            yield process
        finally:
            process.end()

    def end(self) -> None:
        for cloud in self.clouds:
            if cloud.process and cloud.process.runs():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(cloud.process.pid, signal.SIGCONT)
            cloud.end()

    # ---- looking -----------------------------------------------------------------------------------------------

    def apply_job(self, name: str, nodes: Sequence[str] = (), **spec: Any) -> None:
        """Create it, as `kubectl create`."""
        body = {
            "apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "NodeUpgradeJob", "metadata": {"name": name},
            "spec": {"version": NEW, "nodeNames": list(nodes or self.nodes), **spec},
        }  # fmt: skip
        answer = self.server.request("POST", JOBS, body)
        assert answer.status == 201, answer

    def job(self, name: str) -> Any:
        return self.server.request("GET", f"{JOBS}/{name}").json()

    def status(self, name: str) -> Any:
        return self.job(name).get("status", {})

    def wait(self, holds: Callable[[], object], what: str, seconds: float = 40) -> None:
        wait_until(holds, seconds, what)

    def wait_for_end(self, name: str, seconds: float = 40) -> Any:
        """Until it is Completed or Failure, and no node is held any more; its status."""
        try:
            self.wait(lambda: self.status(name).get("phase") in ("Completed", "Failure"), f"job {name} ends", seconds)
            self.wait(lambda: not self.held_nodes(), f"no node is held by job {name}", seconds)
        except RuntimeFailed as late:
            raise AssertionError(f"{late} status: {self.status(name)}; held: {self.held_nodes()}") from None
        return self.status(name)

    def held_nodes(self) -> list[str]:
        """Nodes that are cordoned or carry our annotation."""
        items = self.server.request("GET", "/api/v1/nodes").json()["items"]
        return [
            one["metadata"]["name"]
            for one in items
            if one["spec"].get("unschedulable") or "beehive/cordon" in one["metadata"].get("annotations", {})
        ]

    def leader(self) -> str:
        """Who holds the Lease."""
        return str(self.server.request("GET", LEASE).json().get("spec", {}).get("holderIdentity", ""))

    def leading(self) -> Cloud | None:
        """The replica that holds it, or nobody for now."""
        holder = self.leader()
        return self.clouds[int(holder.rpartition("-")[2])] if holder else None

    def wait_for_leader(self, former: Cloud | None = None) -> Cloud:
        """Until a replica leads, another than the former one."""
        self.wait(lambda: self.leading() not in (None, former), "a replica leads")
        found = self.leading()
        assert found
        return found


class EdgeProcess:
    """The process of scripted edges."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        self._records = Path(settings.records)
        path = directory / "edges.json"
        path.write_bytes(msgspec.json.encode(settings))
        with (directory / "edges.log").open("ab") as log:
            self._process = subprocess.Popen(
                (sys.executable, "-m", "tests.fakes.edges", str(path)),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=TOP,
            )  # fmt: skip

    def wait_until_ready(self, seconds: float) -> None:
        assert self._process.stdout
        found, _, _ = select.select([self._process.stdout], [], [], seconds)
        assert found, "the edges are connected"
        assert self._process.stdout.readline() == b"ready\n"

    def saw(self) -> Records:
        """End it; what its hosts saw."""
        self.end()
        return msgspec.json.decode(self._records.read_bytes(), type=Records)

    def end(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin
            self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
