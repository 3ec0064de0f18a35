"""What an operator watches: scraped by a real Prometheus while hosts are upgraded, documented, drawn, and each alert
played by promtool."""

import contextlib
import json
import re
import socket
import ssl
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from beehive.figures import Metric
from beehive.metrics import KERNEL
from modules.console.papers import declared, names
from modules.demo.cluster import running
from modules.demo.scene import Stage
from modules.demo.scenes import NEWEST_SCHEMA, Plan, Scene
from modules.registry import MODULES
from tests.real.running.etcd import EtcdCluster
from tests.real.running.processes import Daemon, wait_until, with_free_ports

TOP = Path(__file__).resolve().parents[2]
ALERTS = TOP / "configs" / "prometheus" / "alerts.yaml"
DASHBOARD = json.loads((TOP / "configs" / "grafana" / "beehive.json").read_text(encoding="utf-8"))
SCENE = Scene("one goes well, one is rolled back", (Plan("edge-1"), Plan("edge-2", schema=NEWEST_SCHEMA + 1)))


class Prometheus:
    """A real one that scrapes a cloud and an edge, with the shipped rules."""

    def __init__(self, folder: Path, port: int, targets: dict[str, str]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        scrapes = [
            {"job_name": name, "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
            for name, target in targets.items()
        ]
        config = {"global": {"evaluation_interval": "1s"}, "rule_files": [str(ALERTS)], "scrape_configs": scrapes}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        flags = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{port}")  # fmt: skip
        self.process = Daemon("prometheus", ["/usr/bin/prometheus", *flags], folder)
        self.process.start(lambda: urllib.request.urlopen(f"{self.url}/-/ready", timeout=5).status == 200)

    def ask(self, path: str, **query: str) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, text: str) -> Any:
        return self.ask("query", query=text)["result"]

    def value(self, text: str) -> float:
        found = self.query(text)
        assert len(found) == 1, (text, found)
        return float(found[0]["value"][1])


def admin(data: Path) -> str:
    return (data / "admin.address").read_text().strip()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, _programs: None) -> Iterator[Stage]:
    """The embedded API server, a cloud with a real etcd beside it, and two hosts that are connected."""
    folder = tmp_path_factory.mktemp("metrics")
    etcd = EtcdCluster.started(tmp_path_factory.mktemp("etcd") / "cluster", size=1)
    who = etcd.client
    section = {
        "endpoints": [member.client_url for member in etcd.members], "caFile": str(who.ca), "period": "1s",
        "certFile": str(who.certificate), "keyFile": str(who.key),
    }  # fmt: skip
    try:
        with running(folder, etcdmanager=section) as cluster:
            stage = Stage(SCENE, folder, cluster)
            try:
                stage.set_up()
                yield stage
            finally:
                stage.end()
    finally:
        etcd.remove()


@pytest.fixture(scope="module")
def prometheus(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It looks on while the scene is played, and has seen its end."""
    folder = tmp_path_factory.mktemp("prometheus")
    edge = stage.hosts["edge-1"].directory / "var/lib/beehive"
    targets = {"beehive": admin(stage.cluster.cloud.directory / "data"), "beehive-edge": admin(edge)}
    server = with_free_ports(lambda ports: Prometheus(folder, ports[0], targets), 1)
    try:
        wait_until(lambda: server.query("beehive_lease_held == 1"), 20, "a scrape")
        stage.play(lambda job, seconds: None)
        suspended = {"version": "v1.24.0", "nodeNames": ["edge-1"], "suspend": True}
        stage.cluster.create_job("waits", suspended)
        wait_until(lambda: server.query('beehive_nodes{reason="RolledBack"} == 1'), 20, "the outcome is scraped")
        wait_until(lambda: server.query('beehive_job_budget_left{nodeupgradejob="waits"}'), 20, "an open job")
        yield server
    finally:
        server.process.stop()


def metrics(mode: str) -> list[Metric]:
    return [*KERNEL, *(metric for spec in MODULES if getattr(spec, mode) for metric in declared(spec))]


OF_CLOUD_ONLY = {"taskmanager"}
"""In both modes, but its figures are the planner's."""


@pytest.mark.parametrize(("scraped", "mode"), [("beehive", "cloud"), ("beehive-edge", "edge")])
def test_the_metrics_of_a_real_process_are_the_documented_ones(prometheus: Prometheus, scraped: str, mode: str) -> None:
    found = {one["metric"]["__name__"] for one in prometheus.query(f'{{job="{scraped}",__name__=~"beehive_.*"}}')}
    known = {name for metric in metrics(mode) for name in names(metric)}
    assert found - known == set()
    planner = {name for spec in MODULES if spec.name in OF_CLOUD_ONLY for m in declared(spec) for name in names(m)}
    assert known - found - (planner if mode == "edge" else set()) == set()


def test_labels_are_the_documented_ones_and_few(prometheus: Prometheus) -> None:
    by_name = {name: metric for metric in (*metrics("cloud"), *metrics("edge")) for name in names(metric)}
    for series in prometheus.query('{__name__=~"beehive_.*"}'):
        labels = set(series["metric"]) - {"__name__", "job", "instance", "le"}
        assert labels == set(by_name[series["metric"]["__name__"]].labels), series
    assert all(int(one["value"][1]) < 300 for one in prometheus.query('count by (__name__) ({__name__=~"beehive_.*"})'))


def test_the_numbers_are_what_happened(prometheus: Prometheus) -> None:
    value = prometheus.value
    assert value('beehive_nodes{phase="Successful",reason="none",job="beehive"}') == 1
    assert value('beehive_nodes{phase="Failure",reason="RolledBack",job="beehive"}') == 1
    assert value('beehive_jobs{phase="Failure",job="beehive"}') == 1
    assert value("beehive_jobs_suspended") == 1
    assert value('sum(beehive_step_seconds_count{step="Upgrade"})') == 2
    assert value('beehive_step_seconds_count{step="Upgrade",result="ok"}') == 1
    assert 0 < value('beehive_step_seconds_sum{step="Upgrade",result="ok"}') < 60
    assert value('beehive_connected_nodes{peer="beehive"}') == 2
    assert value('sum(beehive_api_calls_total{verb="patch",code="200"})') > 3
    assert value("beehive_etcd_voters") == value("beehive_etcd_voters_living") == 1
    assert value("beehive_etcd_members_unhealthy") == 0
    assert 300 * 86400 < value('beehive_certificate_expiry_seconds{certificate="hub"}') < 370 * 86400
    assert value('beehive_certificate_expiry_seconds{certificate="node"}') > 86400
    assert value("beehive_edge_connected") == 1
    assert value("beehive_edge_reports_pending") == 0
    assert value('count(beehive_build_info{job="beehive",version!="unknown"})') == 1


def test_who_is_turned_away_is_counted_by_reason(prometheus: Prometheus, stage: Stage) -> None:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    address = ("127.0.0.1", stage.cluster.cloud.websocket_port)

    def knock(reason: str, greeting: bytes = b"") -> float:
        with socket.create_connection(address, timeout=10) as plain, contextlib.suppress(OSError):
            if greeting:
                plain.sendall(greeting)
                plain.recv(100)
            else:
                with trusting.wrap_socket(plain) as secure:
                    secure.recv(100)
        return prometheus.value(f'beehive_handshakes_refused_total{{reason="{reason}"}}')

    assert prometheus.value("sum(beehive_handshakes_refused_total)") == 0
    wait_until(lambda: knock("no_certificate") > 0, 30, "somebody without a certificate is counted")
    wait_until(lambda: knock("other", b"GET / HTTP/1.1\r\n\r\n") > 0, 30, "somebody without TLS is counted")
    assert prometheus.value('beehive_connected_nodes{peer="beehive"}') == 2


def test_prometheus_takes_the_rules_and_finds_no_fault_in_them(prometheus: Prometheus) -> None:
    def rules() -> list[Any]:
        return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] == "ok" for rule in rules()), 20, "every rule is evaluated")
    used = set(re.findall(r"beehive_[a-z_]+", " ".join(rule["query"] for rule in rules())))
    assert used <= {name for metric in metrics("cloud") for name in names(metric)}
    firing = {rule["name"] for rule in rules() if rule["state"] == "firing"}
    assert "BeehiveRollbackFailed" not in firing


def queries() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


def test_every_query_of_the_dashboard_returns_data(prometheus: Prometheus) -> None:
    assert len(queries()) > 25
    empty = []
    for query in queries():
        asked = query.replace("$job", "beehive").replace("$__rate_interval", "2m")
        if not prometheus.query(asked):
            empty.append(asked)
    assert empty == []
    used = set(re.findall(r"beehive_[a-z_]+", " ".join(queries())))
    assert used <= {name for metric in metrics("cloud") for name in names(metric)}


def test_the_dashboard_is_one_that_grafana_can_lay_out() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        own = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not own & cells, panel["title"]
        assert max(x for x, _ in own) < 24
        cells |= own
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert all(re.search(r'job="\$job"', query) for query in queries())


def test_every_alert_is_played(tmp_path: Path) -> None:
    checked = subprocess.run(["promtool", "check", "rules", ALERTS], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    played = subprocess.run(
        ["promtool", "test", "rules", "alerts_test.yaml"],
        cwd=ALERTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    text = (ALERTS.parent / "alerts_test.yaml").read_text()
    names_ = [rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    prefixed = text.replace("Beehive(NobodyLeads|TwoLead)", "BeehiveNobodyLeads BeehiveTwoLead")
    assert [name for name in names_ if name not in prefixed] == []
    for threshold, wrong in (
        ("> 30\n", "> 3000\n"),
        ("< 14 * 86400", "< 1"),
        ('reason="RollbackFailed"', 'reason="x"'),
    ):
        broken = ALERTS.read_text().replace(threshold, wrong)
        assert broken != ALERTS.read_text()
        (tmp_path / "alerts.yaml").write_text(broken)
        (tmp_path / "alerts_test.yaml").write_text(text)
        spoilt = subprocess.run(["promtool", "test", "rules", "alerts_test.yaml"], cwd=tmp_path, capture_output=True)  # noqa: PLW1510
        assert spoilt.returncode != 0, f"the tests would notice {wrong}"
