"""What happens in the demo: some hosts, one job, and what somebody or something does to them meanwhile."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec import Struct

from beehive.api import nodeupgradejob as api
from beehive.api.nodeupgradejob import NodeUpgradeJob
from beehive.errors import RuntimeFailed
from modules.demo.children import wait_until
from modules.demo.cluster import Cluster
from modules.demo.hosts import EXECUTABLE, Host
from modules.demo.images import write_layout
from modules.demo.program import program
from modules.demo.scenes import NEW, NEWEST_SCHEMA, OLD, Plan, Scene

JOB = "demo"
_LIMIT = 120.0

Look = Callable[[NodeUpgradeJob, float], None]
"""Is shown the job and the seconds since it was created, again and again."""


class Played(Struct, frozen=True):
    """How it ended."""

    job: NodeUpgradeJob
    seconds: float
    hosts: tuple[Host, ...]
    scene: Scene

    def wrong(self) -> list[str]:
        """What did not end as the scene tells; each a sentence."""
        status, scene = self.job.status, self.scene
        entries = {entry.node_name: entry for entry in status.node_status or ()}
        found = [] if status.phase == scene.phase else [f"the job is {status.phase}, not {scene.phase}"]
        for plan in scene.hosts:
            entry = entries[plan.name]
            ended = f"{entry.phase}/{entry.reason_code}" if entry.reason_code else entry.phase
            if ended not in plan.ends:
                found.append(f"{plan.name} is {ended}, not {' or '.join(plan.ends)}")
        for host in self.hosts:
            wanted = NEW if entries[host.name].phase == api.SUCCESSFUL else OLD
            if host.answers() != wanted or not host.runs():
                found.append(f"{host.name} should run {wanted} and answers {host.answers() or 'nothing'}")
        return found

    def told(self) -> dict[str, Any]:
        """The one object that `--json` prints."""
        entries = {entry.node_name: entry for entry in self.job.status.node_status or ()}
        return {
            "job": self.job.metadata.name,
            "phase": self.job.status.phase,
            "seconds": round(self.seconds, 1),
            "asTold": not self.wrong(),
            "nodes": {
                host.name: {
                    "phase": entries[host.name].phase,
                    "reasonCode": entries[host.name].reason_code,
                    "from": OLD,
                    "to": NEW,
                    "running": host.answers(),
                }
                for host in self.hosts
            },
        }


class Stage:
    """Sets a scene up in a directory and plays it."""

    def __init__(self, scene: Scene, directory: Path, cluster: Cluster) -> None:
        self.scene, self.cluster = scene, cluster
        self._directory = directory
        self._token = directory / "join.token"
        source = {"images": {"layout": str(directory / "images"), "registry": False}}
        self.hosts = {
            plan.name: Host(plan.name, directory / "hosts" / plan.name, cluster.cloud, source) for plan in scene.hosts
        }
        self.notes: dict[str, str] = {}
        """What the demo did to a host, by its name."""

    def set_up(self) -> None:
        """Images, hosts with their programs, Nodes, identities, agents that are connected."""
        new = (program(NEW, NEWEST_SCHEMA), 0o755)
        files = {f"/{EXECUTABLE}": new, "/usr/local/bin/keadm": (b"#!/bin/true\n", 0o755)}
        write_layout(self._directory / "images", api.DEFAULT_IMAGE, NEW, dict.fromkeys(("amd64", "arm64"), files))
        self._token.touch(mode=0o600)
        self._token.write_text(self.cluster.cloud.join_token(len(self.scene.hosts)), encoding="utf-8")
        with ThreadPoolExecutor(len(self.scene.hosts)) as pool:
            list(pool.map(self._boot, self.scene.hosts))
        online = [self.hosts[plan.name] for plan in self.scene.hosts if not plan.offline]
        for host in online:
            assert host.agent is not None
            wait_until(host.is_connected, 30, f"The connection of {host.name} to the cloud", host.agent)

    def _boot(self, plan: Plan) -> None:
        host = self.hosts[plan.name]
        host.install(program(OLD, NEWEST_SCHEMA + 1), plan.schema)
        host.start_program()
        self.cluster.add_node(plan.name, OLD)
        host.join(self._token)
        if not plan.offline:
            host.start_agent()

    def play(self, look: Look) -> Played:
        """Create the job and look on until it has ended. Raises RuntimeFailed when it does not."""
        self.cluster.create_job(JOB, self._job_spec())
        begun = time.monotonic()
        while (seconds := time.monotonic() - begun) < _LIMIT:
            job = self.cluster.job(JOB)
            look(job, seconds)
            self._act(job)
            if job.status.phase in (api.COMPLETED, api.FAILURE):
                self._until_cordons_are_undone()
                return Played(job, seconds, tuple(self.hosts.values()), self.scene)
            time.sleep(0.05)
        raise RuntimeFailed(f"the job did not end within {_LIMIT:g} s; the logs are in {self._directory}")

    def _job_spec(self) -> dict[str, Any]:
        return {
            "version": NEW, "nodeNames": [plan.name for plan in self.scene.hosts],
            "concurrency": self.scene.concurrency, "failureTolerate": self.scene.tolerate,
            "onOffline": self.scene.on_offline,
        }  # fmt: skip

    def _act(self, job: NodeUpgradeJob) -> None:
        """Do to the hosts and to the job what the scene wants done now."""
        status = job.status
        for plan in self.scene.hosts:
            host = self.hosts[plan.name]
            if plan.cut and plan.name not in self.notes and host.is_upgrading():
                self.notes[plan.name] = "its power was cut during the upgrade"
                host.cut_power()
                host.boot()
            if plan.returns and plan.name not in self.notes and status.total and status.successful == status.total - 1:
                self.notes[plan.name] = "it was away, and came back when the others were done"
                host.start_agent()
        swapping = any(host.is_upgrading() for host in self.hosts.values())
        if self.scene.aborted and not job.spec.abort and status.successful and swapping:
            self.cluster.change_job(JOB, {"abort": True})

    def _until_cordons_are_undone(self) -> None:
        def all_open() -> bool:
            return not any(self.cluster.node(name)["spec"].get("unschedulable") for name in self.hosts)

        wait_until(all_open, 10, "The uncordon of all nodes")

    def end(self) -> None:
        """End everything on all hosts."""
        for host in self.hosts.values():
            host.end()
