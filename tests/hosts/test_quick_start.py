"""docs/install.md typed word by word: a host on which nothing is installed, a cloud at the ports that it names."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.demo.cluster import Cluster
from tests.hosts.running.edge import NEW, OLD
from tests.hosts.running.forge import Forge
from tests.hosts.running.machine import wait_until
from tests.hosts.running.shipped import AGENT, Bare, tools_at_work
from tests.real.running.build import KUBECTL, build
from tests.real.running.images import installation_package
from tests.real.running.registry import Registry
from tests.real.running.shipped import TOP, tarball
from tests.real.running.standins import standin

pytestmark = pytest.mark.timeout(900)  # the first test of a new state of the source builds it
ADDRESS = "127.77.0.1"
"""Where `hub.example` is: the documented ports, at an address of the loopback that nobody else takes."""
IN_THE_POD = "kubectl -n kubeedge exec deploy/beehive -- beehive "


def blocks(title: str) -> list[str]:
    """What is to be typed below a heading of docs/install.md."""
    text = (TOP / "docs/install.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return [
        re.sub(r"^    ", "", block, flags=re.MULTILINE)
        for block in re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)
    ]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster")
    try:
        settings = json.loads(cluster.cloud.config.read_text())
        sockets = {name: {"address": ADDRESS, "port": port} for name, port in (("websocket", 10000), ("https", 10002))}
        settings["cloudhub"] = {**sockets, "advertise": ["hub.example"]}
        cluster.cloud.config.write_text(json.dumps(settings))
        cluster.cloud.start()
        cluster.cloud.wait_until_ready()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    (tmp_path / "registry").mkdir()
    server = Registry.started(tmp_path / "registry")
    yield server
    server.remove()


@pytest.fixture
def host(forge: Forge) -> Iterator[Bare]:
    made = Bare(forge.machine(), standin(OLD), tarball())
    with (made.machine.root / "etc/hosts").open("a") as hosts:
        hosts.write(f"{ADDRESS} hub.example\n")
    made.machine.boot()
    yield made
    made.machine.remove()


def typed(host: Bare, block: str) -> str:
    """In one shell, as a person who looks at every line's outcome."""
    code, said = host.say_to_shell(f"set -e; export HOME=/root; {block}")
    assert code == 0, f"{block}\n{said}\n{host.explain()}"
    return said


def test_what_the_papers_tell_to_type_works(host: Bare, cluster: Cluster, registry: Registry) -> None:
    make_token, join, leave = blocks("Edge hosts")
    assert make_token.startswith(IN_THE_POD)
    here = make_token.replace(IN_THE_POD, f"{sys.executable} -m beehive_cli ")
    here = here.replace("/etc/beehive/cloud.yaml", str(cluster.cloud.config))
    subprocess.run(["/bin/sh", "-euc", here], check=True, cwd=host.machine.path("/root"))
    assert "edge-7 has joined" in typed(host, join)
    assert not host.machine.path("/root/join.token").exists()
    wait_until(host.is_connected, "the agent has its session", 60, host.explain)

    registry.push("kubeedge/installation-package", NEW, installation_package(standin(NEW)))
    mirrors = [{"host": registry.address}]
    host.owner_allows({"soak": "1s", "images": {"mirrors": mirrors, "insecureHosts": [registry.address]}})
    host.machine.run("systemctl", "restart", AGENT)
    wait_until(host.is_connected, "the agent has its session", 60, host.explain)
    cluster.add_node("edge-7", OLD)
    sit_down(host, cluster)
    (first,) = blocks("The first job")
    said = typed(host, first)
    assert f"Would upgrade 1 of 1 node selected to {NEW}" in said
    assert re.search(r"^Job first is Completed after \d+s: 1 upgraded\.$", said, re.MULTILINE)
    assert host.running() == NEW

    wait_until(lambda: not tools_at_work(host), "the tool has ended, too", 60, host.explain)
    typed(host, leave)
    assert not host.machine.path("/usr/local/bin/beehive").exists()
    assert host.machine.path("/etc/beehive/pki/node.pem").exists()
    assert OLD in {path.name for path in host.layout.backups.iterdir()}
    assert host.running() == NEW


def sit_down(host: Bare, cluster: Cluster) -> None:
    """A kubectl, and the administrator's kubeconfig where it is looked for."""
    shutil.copy(build(KUBECTL), host.machine.path("/usr/local/bin/kubectl"))
    home = host.machine.path("/root/.kube")
    home.mkdir()
    shutil.copy(cluster.ca, home / "ca.crt")
    config = (cluster.directory / "kubeconfig").read_text().replace(str(cluster.ca), "/root/.kube/ca.crt")
    (home / "config").write_text(config)
