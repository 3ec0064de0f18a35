"""What an operator watches: scraped by a real Prometheus, documented, and the alerts played by promtool."""

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from modules.demo.cluster import Cluster, running
from tests.real.running.processes import Daemon, wait_until, with_free_ports

TOP = Path(__file__).resolve().parents[2]
ALERTS = TOP / "configs" / "prometheus" / "alerts.yaml"
DOCS = (TOP / "docs" / "metrics.md").read_text(encoding="utf-8")


class Prometheus:
    """A real one that scrapes one process, with the shipped rules."""

    def __init__(self, folder: Path, port: int, target: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        scrape = {"job_name": "beehive", "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
        config = {"global": {"evaluation_interval": "1s"}, "rule_files": [str(ALERTS)], "scrape_configs": [scrape]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        flags = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{port}")  # fmt: skip
        self.process = Daemon("prometheus", ["/usr/bin/prometheus", *flags], folder)
        self.process.start(lambda: urllib.request.urlopen(f"{self.url}/-/ready", timeout=5).status == 200)

    def ask(self, path: str, **query: str) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("metrics")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def prometheus(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    target = (cluster.cloud.directory / "data" / "admin.address").read_text().strip()
    server = with_free_ports(lambda ports: Prometheus(folder, ports[0], target), 1)
    yield server
    server.process.stop()


def test_the_metrics_of_a_real_process_are_the_documented_ones(prometheus: Prometheus) -> None:
    wait_until(lambda: prometheus.ask("query", query='beehive_gauge{what="leads"} == 1')["result"], 20, "a scrape")
    scraped = {name for name in prometheus.ask("label/__name__/values") if name.startswith("beehive_")}
    documented = set(re.findall(r"^\| `(beehive_[a-z_]+)`", DOCS, re.MULTILINE))
    assert scraped - {name for name in scraped if name.endswith("_created")} <= documented
    optional = {"beehive_counted_total"}
    assert documented - optional <= scraped
    series = prometheus.ask("query", query='beehive_gauge{module!="etcdmanager"}')["result"]
    undocumented = [one["metric"]["what"] for one in series if f"`{one['metric']['what']}`" not in DOCS]
    assert undocumented == []


def test_jobs_are_counted_as_they_are(prometheus: Prometheus, cluster: Cluster) -> None:
    cluster.create_job("counted", {"version": "v1.23.0", "nodeNames": ["nowhere"], "failureTolerate": "0"})
    query = 'beehive_gauge{what="jobs_failure"} == 1 and on () beehive_gauge{what="nodes_failed"} == 1'
    wait_until(lambda: prometheus.ask("query", query=query)["result"], 20, "the failed job is counted")


def test_prometheus_takes_the_rules_and_finds_no_fault_in_them(prometheus: Prometheus) -> None:
    def rules() -> list[Any]:
        return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] == "ok" for rule in rules()), 20, "every rule is evaluated")
    names = {rule["name"] for rule in rules()}
    assert names == set(re.findall(r"^\| (Beehive[A-Za-z]+) \|", DOCS, re.MULTILINE))
    assert all({"summary", "action"} <= rule["annotations"].keys() for rule in rules())
    used = set(re.findall(r"beehive_[a-z_]+", " ".join(rule["query"] for rule in rules())))
    assert used <= set(re.findall(r"beehive_[a-z_]+", DOCS))


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
    names = [rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    prefixed = text.replace("Beehive(NobodyLeads|TwoLead)", "BeehiveNobodyLeads BeehiveTwoLead")
    assert [name for name in names if name not in prefixed] == []
    broken = ALERTS.read_text().replace("> 30", "> 3000")
    (tmp_path / "alerts.yaml").write_text(broken)
    (tmp_path / "alerts_test.yaml").write_text(text)
    spoilt = subprocess.run(["promtool", "test", "rules", "alerts_test.yaml"], cwd=tmp_path, capture_output=True)  # noqa: PLW1510
    assert spoilt.returncode != 0, "the tests would notice a wrong threshold"
