"""A fleet and two replicas on a real kube-apiserver; the leader hangs, is killed, and is restarted in place.

What counts is what the hosts saw, what the job says, and which Pod carries the label. `BEEHIVE_EDGES=5000` takes as
many edges as one hub is made for; by default there are 300. The edges are a process of their own.
`pytest tests/real/test_channel_leader.py -s` prints how long each change took.
"""

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from modules.demo.cloud import Cloud
from tests.fakes.edges import names
from tests.real.running.apiserver import ApiServer
from tests.real.waving import Field

COUNT = int(os.environ.get("BEEHIVE_EDGES", "300"))
NODES = names(COUNT)
PATIENCE = 60.0 + COUNT / 20
"""Seconds, on a machine that others use too."""
PODS = "/api/v1/namespaces/kubeedge/pods"
LEADERS = f"{PODS}?labelSelector=beehive%2Frole%3Dleader"


class Replicas:
    """Two cloud processes, each with a Pod of its own."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.took: list[str] = []
        for number in range(2):
            self._add_pod(f"cloud-{number}")
            cloud = field.add_cloud(taskmanager={"cloud": {"offlineAfter": f"{PATIENCE:g}s", "flush": "500ms"}})
            config = json.loads(cloud.config.read_text())
            config["informer"]["pod"] = f"cloud-{number}"
            cloud.config.write_text(json.dumps(config))
            cloud.start()
        for cloud in field.clouds:
            cloud.wait_until_ready(60)

    def _add_pod(self, name: str) -> None:
        container = {"name": "cloud", "image": "registry.example.org/beehive"}
        body = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "kubeedge"},
            "spec": {"containers": [container], "automountServiceAccountToken": False, "serviceAccountName": "beehive"},
        }  # fmt: skip
        answer = self.field.server.request("POST", PODS, body)
        assert answer.status == 201, answer.body

    def labelled(self) -> list[str]:
        """The Pods that carry the label."""
        return [one["metadata"]["name"] for one in self.field.server.request("GET", LEADERS).json()["items"]]

    def pod(self, cloud: Cloud) -> str:
        return f"cloud-{self.field.clouds.index(cloud)}"

    def all_are_with(self, cloud: Cloud, began: float, what: str) -> None:
        """Until every edge has a session there, and the label is on its Pod alone."""
        self.field.wait(lambda: connected(cloud) == COUNT, f"all are back after {what}", PATIENCE)
        self.took.append(f"{what:<24}{COUNT} back after {time.monotonic() - began:5.1f} s")
        self.field.wait(lambda: self.labelled() == [self.pod(cloud)], f"the label after {what}", 10)

    def done(self) -> int:
        return int(self.field.status("north").get("successful", 0))

    def wait_for_more(self, nodes: int) -> None:
        before = self.done()
        assert before < COUNT, "the job still runs"
        self.field.wait(lambda: self.done() >= min(COUNT, before + nodes), f"{nodes} more are done", PATIENCE)


def connected(cloud: Cloud) -> int:
    """What its own metrics say; -1 while it does not answer."""
    try:
        text = httpx.get(f"http://{cloud._admin()}/metrics", timeout=5, trust_env=False).text
    except (OSError, httpx.HTTPError):
        return -1
    line = next(one for one in text.splitlines() if one.startswith('beehive_connected_nodes{peer="beehive"}'))
    return int(float(line.rpartition(" ")[2]))


@pytest.fixture
def replicas(_programs: None, tmp_path: Path) -> Iterator[Replicas]:
    (tmp_path / "server").mkdir()
    server = ApiServer.started(tmp_path / "server")
    field = Field(server, tmp_path, NODES)
    try:
        yield Replicas(field)
    finally:
        field.end()
        server.remove()


@pytest.mark.timeout(1200)
def test_a_fleet_outlives_every_end_of_a_leader(replicas: Replicas) -> None:
    field = replicas.field
    with field.edges(PATIENCE, work=0.5, repeat=3.0 + COUNT / 400, dead_after=5.0 + COUNT / 200) as edges:
        field.apply_job("north", concurrency=max(1, COUNT // 12))
        replicas.wait_for_more(COUNT // 20)

        hung = field.wait_for_leader()
        assert hung.process
        began = time.monotonic()
        os.kill(hung.process.pid, signal.SIGSTOP)
        second = field.wait_for_leader(hung)
        replicas.all_are_with(second, began, "a leader that hung")
        os.kill(hung.process.pid, signal.SIGCONT)
        replicas.wait_for_more(COUNT // 10)
        hung.process.must_run()
        assert connected(hung) == 0
        assert replicas.labelled() == [replicas.pod(second)], "who woke up takes the label from nobody"

        began = time.monotonic()
        assert second.process
        second.process.kill()
        third = field.wait_for_leader(second)
        replicas.all_are_with(third, began, "a leader that was killed")
        replicas.wait_for_more(COUNT // 10)

        began = time.monotonic()
        assert third.process
        third.process.kill()  # and the other one is down: only it itself can come back
        third.start()
        third.wait_until_ready(60)
        assert field.wait_for_leader() is third
        replicas.all_are_with(third, began, "restarted in place")
        second.start()

        status = field.wait_for_end("north", PATIENCE * 2)
        saw = edges.saw()
        assert replicas.labelled() == [replicas.pod(third)]
    sys.stdout.write("\n" + "\n".join(replicas.took) + "\n")
    assert status["phase"] == "Completed"
    assert Counter(one["phase"] for one in status["nodeStatus"]) == {"Successful": COUNT}, "none skipped or forgotten"
    assert saw.ran() == dict.fromkeys(NODES, 1), "no upgrade was begun twice"
    assert saw.unseen == 0, "every last word was acknowledged"
