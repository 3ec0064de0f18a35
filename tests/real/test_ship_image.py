"""The two images, built by buildah from the Dockerfile on a bare Debian, and run against the real kube-apiserver."""

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.api.crd import crd
from tests.real.running.apiserver import ApiServer
from tests.real.running.buildah import Buildah
from tests.real.running.processes import Daemon, wait_until, with_free_ports
from tests.real.running.shipped import TOP, Root, bare_root, tarball

SIZE_LIMIT = PACKAGE_LIMIT = 90e6
USER = "65532:65532"
pytestmark = pytest.mark.timeout(900)  # the first test of a new state of the source builds it
NOT_WANTED = ("python3", "pip", "pip3", "gcc", "cc", "make", "objdump", "curl", "wget")


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    made = Buildah(tmp_path_factory.mktemp("images"))
    made.build(made.context(), "beehive")
    made.build(made.context(), "package", "--target", "installation-package")
    yield made
    made.remove()


def test_the_image_is_small_runs_as_nobody_and_says_what_it_is(buildah: Buildah) -> None:
    assert buildah.packed("beehive") <= SIZE_LIMIT
    config = buildah.inspect("beehive")
    assert config["User"] == USER
    assert config["Entrypoint"] == ["beehive"]
    assert config["Cmd"] == ["--mode", "cloud", "--config", "/etc/beehive/cloud.yaml"]
    assert config["Healthcheck"]["Test"][:3] == ["CMD", "beehive", "ready"]
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert config["Labels"]["org.opencontainers.image.version"] == config_version()
    assert set(config["ExposedPorts"]) == {"10000/tcp", "10002/tcp", "9443/tcp", "10350/tcp"}


def config_version() -> str:
    with tarfile.open(tarball()) as tar:
        name = tar.getnames()[0]
        text = tar.extractfile(f"{name}/VERSION")
        assert text is not None
        return text.read().decode().strip()


def test_nothing_in_it_builds_or_downloads(buildah: Buildah) -> None:
    root = buildah.mount("beehive")
    places = [root / place for place in ("usr/bin", "usr/local/bin", "usr/sbin", "usr/local/lib/beehive")]
    found = [str(place / name) for place in places for name in NOT_WANTED if (place / name).exists()]
    assert found == []
    files = [path for path in (root / "usr/local").rglob("*") if not path.is_symlink()]
    assert [path for path in files if path.stat().st_mode & 0o022] == []
    assert (root / "var/lib/beehive").stat().st_uid == 65532


@pytest.fixture
def cluster(apiserver: ApiServer) -> ApiServer:
    """The shared server with our CRD, which stays: others use it too."""
    apiserver.apply(crd())
    return apiserver


def test_it_serves_on_a_read_only_root_with_the_shipped_rights(
    buildah: Buildah, cluster: ApiServer, tmp_path: Path
) -> None:
    """The image's own command line and configuration; where the API server is comes by environment, as in a Pod."""
    image = buildah.mount("beehive")
    root = Root(tmp_path / "pod", image)
    mounts = root.written / "run/secrets"
    mounts.mkdir(parents=True)
    token = cluster.service_account_token("beehive", "kubeedge", TOP / "configs" / "rbac.yaml")
    (mounts / "token").write_text(token)
    shutil.copy(cluster.ca_file, mounts / "ca.crt")
    config = buildah.inspect("beehive")
    environment = dict(item.split("=", 1) for item in config["Env"])
    command = [*config["Entrypoint"], *config["Cmd"]]
    started: list[Daemon] = []

    def start(ports: list[int]) -> dict[str, str]:
        settings = {
            **environment, "BEEHIVE_INFORMER_SERVER": cluster.url, "BEEHIVE_INFORMER_TOKENFILE": "/run/secrets/token",
            "BEEHIVE_INFORMER_CAFILE": "/run/secrets/ca.crt", "BEEHIVE_INFORMER_LEASE_NAME": "image",
            "BEEHIVE_CLOUDHUB_WEBSOCKET_PORT": str(ports[0]), "BEEHIVE_CLOUDHUB_HTTPS_PORT": str(ports[1]),
            "BEEHIVE_ADMISSION_PORT": str(ports[2]), "BEEHIVE_RUNTIME_ADMIN_PORT": str(ports[3]),
        }  # fmt: skip
        how, mounting = root.command("env", *pairs(settings), *command, read_only=True,
                                     writable="/var/lib/beehive", user=USER)  # fmt: skip
        daemon = Daemon("image", how, tmp_path, mounting)
        started.append(daemon)
        daemon.start(lambda: ready(settings).returncode == 0, seconds=60)
        return settings

    def ready(settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """The image's health check, in the image."""
        probe = Root(tmp_path / f"probe-{len(os.listdir(tmp_path))}", image)
        test = config["Healthcheck"]["Test"][1:]
        return probe.run("env", *pairs(settings), *test, read_only=True, writable="/var/lib/beehive", user=USER)

    settings = with_free_ports(start, 4)
    daemon = started[-1]
    try:
        wait_until(lambda: "[+] informer ready" in ready(settings).stdout, 30, "the health check says what is ready")
        lease = json.loads(cluster.kubectl("get", "lease", "image", "-n", "kubeedge", "-o", "json"))
        assert lease["spec"]["holderIdentity"]
        status = Path(f"/proc/{daemon.pid}/status").read_text()
        assert "\nUid:\t65532\t65532\t65532\t65532\n" in status
    finally:
        daemon.stop(30)
    assert '"level":"info"' in daemon.log.read_text().lower().replace(": ", ":"), "logs are JSON"
    assert token not in daemon.log.read_text()
    assert {path.name for path in root.written.rglob("*") if path.is_file()} == {"token", "ca.crt"}, "nothing written"
    assert ready(settings).returncode == 1, "and the health check sees that it is gone"


def pairs(environment: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


def test_the_upgrade_source_holds_the_tree_and_the_tool_as_one_file(buildah: Buildah, tmp_path: Path) -> None:
    root = buildah.mount("package")
    ours = [path for path in root.glob("usr/local/*/*") if path.is_file() or path.name == "beehive"]
    assert {str(path.relative_to(root)) for path in ours} == {"usr/local/bin/keadm", "usr/local/lib/beehive"}
    keadm = root / "usr/local/bin/keadm"
    assert keadm.stat().st_mode & 0o777 == 0o755
    labels = buildah.inspect("package")["Labels"]
    assert labels["org.opencontainers.image.version"] == config_version()
    assert buildah.packed("package") <= PACKAGE_LIMIT
    host = Root(tmp_path / "host", bare_root())
    (host.written / "usr/local/bin").mkdir(parents=True)
    shutil.copy2(keadm, host.written / "usr/local/bin/keadm")
    shutil.copytree(root / "usr/local/lib/beehive/package", host.written / "root/beehive")
    done = host.run("keadm", "--help")
    assert done.returncode == 0, done.stderr
    assert "upgrade" in done.stdout
    refused = host.run("keadm", "frobnicate")
    assert refused.returncode == 2
    installed = host.run("/root/beehive/install.sh")
    assert installed.returncode == 0, installed.stderr
    shutil.rmtree(tmp_path / "host")
