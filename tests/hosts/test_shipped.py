"""What is shipped, on a booted systemd without Python: the tarball by its script, the tool by its one file."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from modules.demo.cluster import Cluster, running
from tests.hosts.running.edge import NEW, OLD
from tests.hosts.running.forge import Forge
from tests.hosts.running.machine import wait_until
from tests.hosts.running.shipped import AGENT, TREE, Bare, Onlooker, tools_at_work
from tests.real.running.buildah import Buildah
from tests.real.running.images import installation_package
from tests.real.running.registry import Registry
from tests.real.running.shipped import TOP, tarball
from tests.real.running.standins import Variant, standin

pytestmark = pytest.mark.timeout(900)  # the first test of a new state of the source builds it
REPOSITORY = "kubeedge/installation-package"
UNPACK = f"mkdir {TREE} && tar xf beehive-*.tar.gz -C {TREE} --strip-components=1"
Make = Callable[..., Bare]


@pytest.fixture
def bare(forge: Forge) -> Iterator[Make]:
    """Makes booted hosts with the tarball in /root, and removes them after the test."""
    made: list[Bare] = []

    def make(*, packed: bool = True) -> Bare:
        host = Bare(forge.machine(), standin(OLD), tarball() if packed else None)
        made.append(host)
        host.machine.boot()
        assert host.machine.say("/usr/bin/python3", "--version").returncode != 0
        return host

    yield make
    for host in made:
        host.machine.remove()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    with running(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    (tmp_path / "registry").mkdir()
    server = Registry.started(tmp_path / "registry")
    yield server
    server.remove()


def joining(host: Bare, cluster: Cluster, token: str) -> str:
    """What a person types after unpacking; the token is in a file."""
    (host.machine.root / "root/join.token").write_text(f"{token}\n")
    cloud = cluster.cloud
    return (
        f"{TREE}/install.sh --cloud https://127.0.0.1:{cloud.https_port} --hub 127.0.0.1:{cloud.websocket_port} "
        "--token-file join.token --node edge-7"
    )


def test_one_line_joins_a_second_changes_nothing_and_a_boot_brings_it_back(bare: Make, cluster: Cluster) -> None:
    host, token = bare(), cluster.cloud.join_token()
    line = joining(host, cluster, token)
    with Onlooker().looking() as seen:
        code, said = host.say_to_shell(f"{UNPACK} && {line}")
    assert code == 0, said
    assert "edge-7 has joined" in said
    assert "the agent runs" in said
    assert [one for one in seen.lines if b"edge\0join\0" in one], "the onlooker saw how it joined"
    assert not [one for one in seen.lines | seen.environments if token.encode() in one]
    for unit in (AGENT, "beehive-recover.service"):
        assert host.machine.run("systemctl", "is-enabled", unit) == "enabled\n"
    wait_until(host.is_connected, "the agent has its session", 60, host.explain)

    before, process = host.listing(), host.machine.show(AGENT, "MainPID", "InvocationID", "NRestarts")
    code, said = host.say_to_shell(line)
    assert code == 0, said
    assert "was installed already" in said
    assert "has joined already" in said
    assert host.listing() == before
    assert host.machine.show(AGENT, "MainPID", "InvocationID", "NRestarts") == process

    assert token not in host.machine.say("journalctl", "--no-pager", "-q").stdout
    files = [path for place in ("etc", "var/lib/beehive") for path in (host.machine.root / place).rglob("*")]
    assert not [path for path in files if path.is_file() and token.encode() in path.read_bytes()]

    host.machine.shut_down()
    host.machine.boot()
    wait_until(lambda: host.state(AGENT) == "active" and host.is_connected(), "it is back", 60, host.explain)


def test_a_wrong_token_leaves_a_host_that_the_right_one_lets_in(bare: Make, cluster: Cluster) -> None:
    host, token = bare(), cluster.cloud.join_token()
    line = joining(host, cluster, f"{token[:-4]}AAAA")
    code, said = host.say_to_shell(f"{UNPACK} && {line}")
    assert code == 1, said
    assert "the program is installed, but this host has not joined. Run this again." in said
    assert "Traceback" not in said
    assert host.state(AGENT) == "inactive"
    code, said = host.say_to_shell(joining(host, cluster, token))
    assert code == 0, said
    wait_until(host.is_connected, "the agent has its session", 60, host.explain)


def test_an_installed_host_is_upgraded_by_a_job_and_removing_beehive_leaves_the_backups(
    bare: Make, cluster: Cluster, registry: Registry
) -> None:
    registry.push(REPOSITORY, NEW, installation_package(standin(NEW)))
    host, image = bare(), f"{registry.address}/{REPOSITORY}"
    line = joining(host, cluster, cluster.cloud.join_token())
    code, said = host.say_to_shell(f"{UNPACK} && {line}")
    assert code == 0, said
    host.owner_allows({"soak": "1s", "images": {"allow": [image], "insecureHosts": [registry.address]}})
    host.machine.run("systemctl", "restart", AGENT)
    wait_until(host.is_connected, "the agent has its session", 60, host.explain)

    cluster.add_node("edge-7", OLD)
    cluster.create_job("north", {"version": NEW, "image": image, "nodeNames": ["edge-7"]})
    wait_until(lambda: ended(cluster), "the job ends", 120, host.explain)
    assert ended(cluster) == [("edge-7", "Successful")], host.explain()
    assert host.running() == NEW
    assert host.starts() == [OLD, NEW]

    wait_until(lambda: not tools_at_work(host), "the tool has ended, too", 60, host.explain)
    kept = sorted(path.name for path in host.layout.backups.iterdir())
    assert OLD in kept
    code, said = host.say_to_shell("/usr/local/lib/beehive/uninstall.sh")
    assert code == 0, said
    assert sorted(path.name for path in host.layout.backups.iterdir()) == kept
    assert host.machine.path("/etc/beehive/pki/node.pem").exists()
    assert not host.machine.path("/usr/local/lib/beehive").exists()
    assert host.machine.say("systemctl", "cat", AGENT).returncode != 0
    assert host.running() == NEW, "the agent of Kubernetes goes on"

    code, said = host.say_to_shell(line)
    assert code == 0, said
    assert "has joined already" in said
    wait_until(host.is_connected, "it has its session again", 60, host.explain)


def ended(cluster: Cluster) -> list[tuple[str, str]]:
    """Node → phase, when the job has ended."""
    status = cluster.job("north").status
    if status.phase not in ("Completed", "Failure"):
        return []
    return [(entry.node_name, entry.phase) for entry in status.node_status or ()]


def test_while_a_tool_is_at_work_nothing_is_installed_or_removed(bare: Make) -> None:
    host = bare()
    code, said = host.say_to_shell(f"{UNPACK} && {TREE}/install.sh")
    assert code == 0, said
    assert "this host has joined no cloud yet" in said
    tool = "[Service]\nExecStart=\nExecStart=/bin/sleep infinity\n"
    drop_in = host.machine.path("/etc/systemd/system/beehive-tool@.service.d/busy.conf")
    drop_in.parent.mkdir()
    drop_in.write_text(tool)
    host.machine.run("systemctl", "daemon-reload")
    host.machine.run("systemctl", "start", "beehive-tool@6b1f2c34-0.service")
    before = host.listing()
    for script in (f"echo 9.9.9 > {TREE}/VERSION; {TREE}/install.sh", f"{TREE}/uninstall.sh"):
        code, said = host.say_to_shell(script)
        assert (code, "beehive-tool@6b1f2c34-0.service upgrades this host just now" in said) == (3, True), said
    assert host.listing() == before


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    made = Buildah(tmp_path_factory.mktemp("images"))
    made.build(made.context(), "package", "--target", "installation-package")
    yield made
    made.remove()


_COPY = """
mkdir -p "$1/tmp/usr/local/bin"
mount --bind "$2" "$1/tmp/usr/local/bin"
exec chroot "$1" /bin/sh -c 'sleep 0 && cp /usr/local/bin/keadm /tmp/usr/local/bin/keadm'
"""
_AS_ITS_CHILD = """[Service]
ExecReload=/bin/sh -c 'setsid /usr/local/bin/keadm upgrade edge --force --toVersion {version} --image {image} \
>>/tmp/keadm.log 2>&1 &'
"""


class RealEdgeCore:
    """What KubeEdge's own agent does with an installation package, step by step (spec/kubeedge.md 7.4, 7.5)."""

    def __init__(self, host: Bare, buildah: Buildah, registry: Registry) -> None:
        self._host, self._buildah, self._registry = host, buildah, registry
        self.image = f"{registry.address}/{REPOSITORY}"
        host.owner_allows({"soak": "1s", "images": {"allow": [self.image], "insecureHosts": [registry.address]}})

    def publish(self, version: str, variant: Variant = Variant.GOOD) -> None:
        """Our package with an EdgeCore in it, in the registry."""
        self._buildah.with_file("package", standin(version, variant), "/usr/local/bin/edgecore", f"package-{version}")
        self._buildah.push(f"package-{version}", f"{self.image}:{version}")

    def copy_keadm(self, version: str) -> None:
        """By the image's own shell, in a container that sees the host's folder."""
        root = self._buildah.mount(f"package-{version}")
        inside = ("unshare", "--mount", "--propagation=private", "/bin/sh", "-euc", _COPY, "sh")
        subprocess.run([*inside, root, self._host.machine.path("/usr/local/bin")], check=True, capture_output=True)

    def upgrade(self, version: str) -> None:
        """As a child of its own, which lives on when the unit is stopped."""
        drop_in = self._host.machine.path("/etc/systemd/system/edgecore.service.d/reload.conf")
        drop_in.parent.mkdir(exist_ok=True)
        drop_in.write_text(_AS_ITS_CHILD.format(version=version, image=self.image))
        self._host.layout.report.unlink(missing_ok=True)
        self._host.machine.run("systemctl", "daemon-reload")
        self._host.machine.run("systemctl", "reload", "edgecore")
        wait_until(self._host.layout.report.exists, "keadm reports", 120, self.log)
        wait_until(lambda: not self._host.layout.lock.exists(), "keadm ends", 120, self.log)

    def log(self) -> str:
        return self._host.machine.say("cat", "/tmp/keadm.log").stdout + self._host.explain()


def test_a_real_edgecore_can_use_the_tool_as_one_file_from_the_package(
    bare: Make, buildah: Buildah, registry: Registry
) -> None:
    """Nothing else of ours is on the host: no tree, no units, no Python."""
    host = bare(packed=False)
    edgecore = RealEdgeCore(host, buildah, registry)
    edgecore.publish(NEW)
    edgecore.copy_keadm(NEW)
    installed = {path.name for path in host.machine.path("/usr/local/bin").iterdir()}
    assert installed == {"edgecore", "keadm"}
    edgecore.upgrade(NEW)
    assert host.report() == {"event": "Upgrade", "success": True, "fromVersion": OLD, "toVersion": NEW}, edgecore.log()
    wait_until(lambda: host.running() == NEW, "the new version runs", 30, host.explain)
    assert host.starts() == [OLD, NEW]

    bad = "v1.24.0"
    edgecore.publish(bad, Variant.CRASHING)
    edgecore.upgrade(bad)
    report = host.report()
    assert (report["event"], report["success"], report["toVersion"]) == ("Rollback", True, NEW), edgecore.log()
    assert "nil pointer" in report["errorMessage"]
    wait_until(lambda: host.running() == NEW, "the new version runs", 30, host.explain)

    back = host.machine.say("/usr/local/bin/keadm", "rollback", "edge", "--historical-version", OLD, timeout=120)
    assert back.returncode == 0, back.stderr + edgecore.log()
    assert host.running() == OLD
    assert not host.layout.lock.exists()
    assert not list(host.machine.path("/tmp").glob("_MEI*")), "it took away what it had unpacked"


PACKAGED = "/usr/local/lib/beehive/package/beehive"


def itself() -> dict[str, object]:
    """The target that docs/install.md shows for hosts on which Beehive upgrades itself."""
    section = (TOP / "docs/install.md").read_text().partition("## Upgrading Beehive itself")[2].partition("\n## ")[0]
    shown = yaml.safe_load("".join(line[4:] for line in section.splitlines(keepends=True) if line.startswith("    ")))
    target: dict[str, object] = shown["upgrader"]["target"]
    assert target["imagePath"] == PACKAGED
    return target


def as_version(buildah: Buildah, version: str, folder: Path) -> str:
    """The package, with a tree that is of this version by its own metadata; the image's name."""
    (metadata,) = (buildah.mount("package") / PACKAGED.lstrip("/")).glob("lib/beehive-*.dist-info/METADATA")
    text = re.sub(r"^Version: .*$", f"Version: {version}", metadata.read_text(), count=1, flags=re.MULTILINE)
    (folder / "METADATA").write_text(text)
    place = f"{PACKAGED}/lib/{metadata.parent.name}/METADATA"
    buildah.with_file("package", folder / "METADATA", place, f"itself-{version}")
    return f"itself-{version}"


def test_beehive_upgrades_itself_from_the_package_and_goes_back(
    bare: Make, buildah: Buildah, cluster: Cluster, registry: Registry, tmp_path: Path
) -> None:
    old, image = tarball().name.split("-")[1], f"{registry.address}/beehive/installation-package"
    buildah.push(as_version(buildah, "9.9.9", tmp_path), f"{image}:v9.9.9")
    host = bare()
    code, said = host.say_to_shell(f"{UNPACK} && {joining(host, cluster, cluster.cloud.join_token())}")
    assert code == 0, said
    images = {"allow": [image], "insecureHosts": [registry.address]}
    host.owner_allows({"soak": "1s", "images": images, "target": itself()})
    host.machine.run("systemctl", "restart", AGENT)
    wait_until(host.is_connected, "the agent has its session", 60, host.explain)
    host.machine.run("rm", "-r", TREE)  # the disk has little room

    cluster.add_node("edge-7", f"v{old}")
    cluster.create_job("north", {"version": "v9.9.9", "image": image, "nodeNames": ["edge-7"]})
    wait_until(lambda: ended(cluster), "the job ends", 180, host.explain)
    assert ended(cluster) == [("edge-7", "Successful")], f"{cluster.job('north').status}\n{host.explain()}"
    assert host.machine.run("beehive", "--version") == "9.9.9\n"
    wait_until(lambda: not tools_at_work(host), "the tool has ended, too", 60, host.explain)
    lib = host.machine.path("/usr/local/lib/beehive")
    assert (lib / "current").readlink() == (lib / "tool").readlink()
    wait_until(host.is_connected, "the new agent has its session", 60, host.explain)

    code, said = host.say_to_shell("beehive keadm rollback edge")
    assert code == 0, said + host.explain()
    assert host.machine.run("beehive", "--version") == f"{old}\n"
    wait_until(host.is_connected, "the old agent has its session again", 60, host.explain)
    host.machine.run("rm", "-r", "/etc/kubeedge/upgrade")
    code, said = host.say_to_shell(f"{UNPACK} && {TREE}/install.sh")
    assert code == 0, said
    assert host.machine.run("beehive", "--version") == f"{old}\n"
    assert (lib / "tool").resolve() == (lib / "current").resolve()
