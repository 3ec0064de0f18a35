"""A peer that behaves like a real EdgeCore (spec/kubeedge.md 7.1, 11.2): an hour of its traffic, sixty times as fast.

Keepalives, the traffic of its other modules, two jobs, lost links, and a leader that is killed; on a real
kube-apiserver and two cloud processes. It must hear `Check` once for each attempt and not one frame more: anything else
crashes it, and a second `Check` makes it upgrade twice.
"""

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from beehive.world import rfc3339
from tests.fakes.edges import names
from tests.real.running.apiserver import ApiServer
from tests.real.waving import Field
from tests.vectors import KUBEEDGE

FASTER = 60.0
HOUR = 3600.0 / FASTER
BEAT, OTHER, BETWEEN_REPORTS, AGAIN = 15.0 / FASTER, 10.0 / FASTER, 300.0 / FASTER, 10.0 / FASTER
(NODE,) = names(1)
ACTIONS = ("check_ok", "waitingconfirmation_ok", "backup_ok", "upgrade_ok_final")


def frame(name: str, job: str = "job-1") -> str:
    """A recorded one, about our node."""
    return (KUBEEDGE / f"{name}.json").read_text().replace("edge-a", NODE).replace("job-1", job)


def report(action: str, job: str, version: str) -> str:
    """One that ended just now."""
    recorded = frame(f"ws_upstream_v1alpha2_{action}", job).replace("v1.23.1", version)
    return recorded.replace("2026-01-01T00:00:05Z", rfc3339(time.time()))


def other(number: int, operation: str, resource: str, **header: Any) -> str:
    """What its other modules say (metaManager, edged), which expects answers from a real CloudCore."""
    route = {"source": "edged", "group": "resource", "operation": operation, "resource": resource}
    return json.dumps(
        {"header": {"msg_id": f"o-{number}", "timestamp": 1, **header}, "route": route, "content": {"x": 1}}
    )


OTHERS = (
    lambda n: other(n, "update", f"default/nodestatus/{NODE}", sync=True),
    lambda n: other(n, "query", f"kube-node-lease/lease/{NODE}", sync=True),
    lambda n: other(n, "patch", f"default/podpatch/pod-{n}"),
    lambda n: other(n, "get", f"node/{NODE}/membership/detail"),
    lambda _: frame("ws_error_edge_to_cloud"),
    lambda _: frame("ws_ack_edge_to_cloud"),
)


class EdgeCore(threading.Thread):
    """Dials one replica after the other; answers each `Check` with its four reports, minutes apart."""

    def __init__(self, servers: tuple[str, ...], context: ssl.SSLContext) -> None:
        super().__init__(daemon=True)
        self.heard: list[dict[str, Any]] = []
        self.links = self.lost = 0
        self.ends: list[str] = []
        self.said = 0
        self.silent = False
        """It does not begin to report yet."""
        self.lose = threading.Event()
        self.stop = threading.Event()
        self._servers, self._context = servers, context
        self._reports: list[tuple[str, str, str]] = []

    def run(self) -> None:
        turn = 0
        while not self.stop.is_set():
            server = self._servers[turn % len(self._servers)]
            turn += 1
            headers = {"node_id": NODE, "project_id": "p", "ConnectionUse": "msg"}
            try:
                with connect(
                    f"wss://{server}/e632aba927ea4ac2b575ec1603d56f10/{NODE}/events", ssl=self._context,
                    additional_headers=headers, compression=None, proxy=None, ping_interval=None, close_timeout=1,
                ) as link:  # fmt: skip
                    self.links += 1
                    self._talk(link)
            except ConnectionClosed as end:
                self.ends.append(str(end))
            except (OSError, EOFError, WebSocketException):
                time.sleep(AGAIN)

    def _talk(self, link: ClientConnection) -> None:
        beat = another = time.monotonic()
        due = time.monotonic() + BETWEEN_REPORTS
        while not self.stop.is_set():
            now = time.monotonic()
            if self.lose.is_set():
                self.lose.clear()
                link.send('{"header":{"msg_id":"","timestamp":0},"route":{},"content":null}')  # as it does when it ends
                link.socket.shutdown(socket.SHUT_RDWR)
                self.lost += 1
                return
            if now >= beat:
                beat = now + BEAT
                link.send(frame("ws_keepalive_edge_to_cloud"))
            if now >= another:
                another = now + OTHER
                link.send(OTHERS[self.said % len(OTHERS)](self.said))
                self.said += 1
            if now >= due and self._reports and not self.silent:
                due = now + BETWEEN_REPORTS
                link.send(report(*self._reports.pop(0)))
            try:
                self._hear(link.recv(timeout=0.05))
            except TimeoutError:
                continue
        link.close()

    def _hear(self, text: str | bytes) -> None:
        said = json.loads(text)
        self.heard.append(said)
        if said["route"].get("operation") == "Check":
            job = said["route"]["resource"].split("/")[3]
            self._reports += [(action, job, said["content"]["version"]) for action in ACTIONS]


@pytest.fixture
def field(_programs: None, tmp_path: Path) -> Iterator[Field]:
    (tmp_path / "server").mkdir()
    server = ApiServer.started(tmp_path / "server")
    made = Field(server, tmp_path, (NODE,))
    try:
        for _ in range(2):
            cloud = made.add_cloud(taskmanager={"cloud": {"offlineAfter": "30s", "flush": "200ms"}})
            config = json.loads(cloud.config.read_text())
            config["cloudhub"]["keepalive"] = "2s"  # 30 s, fifteen times as fast: this machine is busy
            cloud.config.write_text(json.dumps(config))
            cloud.start()
        for cloud in made.clouds:
            cloud.wait_until_ready()
        yield made
    finally:
        made.end()
        server.remove()


def test_an_hour_with_a_real_edgecore(field: Field) -> None:
    identities = field.directory / "identities"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(identities / "ca.pem")
    context.load_cert_chain(identities / f"{NODE}.pem")
    edgecore = EdgeCore(tuple(f"127.0.0.1:{cloud.websocket_port}" for cloud in field.clouds), context)
    began = time.monotonic()
    edgecore.start()
    try:
        field.wait(lambda: edgecore.links == 1, "it is connected")
        field.apply_job("job-a", timeoutSeconds=3600)
        field.wait(lambda: len(edgecore.heard) >= 1, "it was told")
        edgecore.lose.set()  # before it said anything
        field.wait(lambda: edgecore.links == 2, "it is back")
        field.wait(lambda: field.status("job-a")["nodeStatus"][0].get("actionFlow"), "its first report stands")

        first = field.wait_for_leader()
        assert first.process
        edgecore.silent = True
        first.process.kill()
        field.wait_for_leader(first)
        field.wait(lambda: edgecore.links == 3, "it is with the new leader")
        time.sleep(BETWEEN_REPORTS)  # in which a second Check would come
        edgecore.silent = False
        first.start()
        first.wait_until_ready()
        status = field.wait_for_end("job-a", 60)
        assert [entry["phase"] for entry in status["nodeStatus"]] == ["Successful"], status["nodeStatus"]

        field.apply_job("job-b", version="v1.24.0", timeoutSeconds=3600)
        field.wait(lambda: len(edgecore.heard) == 2, "it was told of the second")
        edgecore.lose.set()
        field.wait_for_end("job-b", 90)
        time.sleep(max(0.0, began + HOUR - time.monotonic()))
        assert edgecore.links == 4, edgecore.ends
    finally:
        edgecore.stop.set()
        edgecore.join(10)
    jobs = [said["route"]["resource"].split("/")[3] for said in edgecore.heard]
    assert jobs == ["job-a", "job-b"], "Check once for each attempt, and nothing else"
    for said in edgecore.heard:
        assert set(said) == {"header", "route", "content"}
        assert (said["route"]["group"], said["route"]["operation"]) == ("taskmanager", "Check")
    assert len(edgecore.ends) == 1, "only the killed leader ended a link"
    assert edgecore.said > 0.5 * HOUR / OTHER, "it talked all the time, as far as this machine let it"
