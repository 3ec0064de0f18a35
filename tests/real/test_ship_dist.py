"""The tarball for edge hosts, on a Debian without Python: installed, installed again, joined, upgraded, removed."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from modules.demo.cluster import Cluster, running
from shipping.inventory import may_be_shipped
from shipping.packing import TOOL
from tests.real.running.shipped import TOP, Root, bare_root, copy_source, tarball

START_LIMIT = 0.6
"""Seconds of processor time: what a host that has nothing else to do waits for."""
SIZE_LIMIT = 40e6
pytestmark = pytest.mark.timeout(600)  # the first test of a new state of the source builds it


@pytest.fixture(scope="module")
def packed() -> Path:
    return tarball()


@pytest.fixture(scope="module")
def bare() -> Path:
    return bare_root()


@pytest.fixture(scope="module")
def unpacked(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A layer with the unpacked tarball in /root/beehive."""
    layer = tmp_path_factory.mktemp("unpacked")
    layer.chmod(0o755)
    with tarfile.open(packed) as tar:
        tar.extractall(layer / "root", filter="tar")
    (tree,) = (layer / "root").iterdir()
    tree.rename(layer / "root" / "beehive")
    yield layer
    shutil.rmtree(layer)


@pytest.fixture
def host(unpacked: Path, bare: Path, tmp_path: Path) -> Iterator[Root]:
    """A host without Python, with the unpacked tarball and no more."""
    root = Root(tmp_path / "host", unpacked, bare)
    yield root
    shutil.rmtree(tmp_path / "host")


def installed(host: Root, *words: str) -> str:
    done = host.run("/root/beehive/install.sh", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def listing(host: Root) -> dict[str, tuple[int, int]]:
    """Everything that was installed, with its mode and time."""
    places = [host.written / place for place in ("usr/local", "etc/beehive", "etc/systemd", "var/lib/beehive")]
    files = [path for place in places for path in [place, *place.rglob("*")]]
    return {str(path): (path.lstat().st_mode, path.lstat().st_ino if path.is_file() else 0) for path in files}


def test_the_tarball_is_small_and_says_what_is_in_it(packed: Path, unpacked: Path) -> None:
    assert packed.stat().st_size <= SIZE_LIMIT
    with tarfile.open(packed) as tar:
        members = tar.getmembers()
    assert {(one.uid, one.gid, one.mtime) for one in members} == {(0, 0, members[0].mtime)}
    assert not [one.name for one in members if one.mode & 0o022], "nobody but root may write"
    assert packed.name == f"{members[0].name}.tar.gz"
    tree = unpacked / "root" / "beehive"
    assert re.fullmatch(r"2\.[0-9]+\n", (tree / "GLIBC").read_text())


def test_the_inventory_is_cyclonedx_and_names_all_that_is_shipped(unpacked: Path) -> None:
    """By the fields that CycloneDX 1.6 requires, and their forms."""
    tree = unpacked / "root" / "beehive"
    inventory = json.loads((tree / "sbom.cdx.json").read_text())
    assert (inventory["bomFormat"], inventory["specVersion"], inventory["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", inventory["serialNumber"])
    main, parts = inventory["metadata"]["component"], inventory["components"]
    assert (main["type"], main["name"], main["version"]) == ("application", "beehive", version_of(tree))
    references = [main["bom-ref"], *(part["bom-ref"] for part in parts)]
    assert len(set(references)) == len(references)
    for part in parts:
        assert (part["type"], part["name"] != "") == ("library", True)
        assert re.fullmatch(r"pkg:(pypi|generic)/[a-z0-9.-]+(@[A-Za-z0-9.+_-]+)?", part["purl"]), part
        (told,) = part["licenses"]
        assert may_be_shipped(told["expression"]), part
    named = {part["purl"].partition("/")[2].partition("@")[0] for part in parts}
    locked = set(re.findall(r"^([a-z0-9-]+)==", (TOP / "requirements.lock").read_text(), re.MULTILINE))
    build_only = {"editables", "hatchling", "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers"}
    assert named >= locked - build_only
    system = {path.name.partition(".so")[0] for path in (tree / "beehive" / "lib").glob("lib*.so*")}
    assert {"libcrypto", "libssl", "libpython3.11"} <= system
    assert {"openssl", "python", "pyinstaller-bootloader", "zlib", "sqlite"} <= named


def version_of(tree: Path) -> str:
    return (tree / "VERSION").read_text().strip()


def test_the_same_source_gives_the_same_bytes_elsewhere_and_later(packed: Path, tmp_path: Path) -> None:
    """Built again in another folder, by another umask, in another time zone and language: no file may differ."""
    copy_source(tmp_path / "elsewhere")
    command = [sys.executable, "shipping/build.py", "--out", "made", "--work", "work", "--tools", str(TOP / "build")]
    surroundings = {**os.environ, "TZ": "Pacific/Auckland", "LANG": "C", "PYTHONHASHSEED": "7", "USER": "somebody"}
    done = subprocess.run(command, cwd=tmp_path / "elsewhere", env=surroundings, umask=0o077, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    (made,) = (tmp_path / "elsewhere/made").iterdir()
    assert digests(made) == digests(packed)
    assert made.read_bytes() == packed.read_bytes(), "not the files but how they are packed"
    with tarfile.open(made) as tar:
        contents = [stream.read() for one in tar if (stream := tar.extractfile(one))]
    for place in (str(tmp_path), str(TOP)):
        assert not [one for one in contents if place.encode() in one], "it names the folder where it was built"
    shutil.rmtree(tmp_path / "elsewhere")


def digests(packed: Path) -> dict[str, str]:
    """Name → digest of everything in it, by its own list."""
    with tarfile.open(packed) as tar:
        stream = tar.extractfile(f"{tar.getnames()[0]}/SHA256SUMS")
        assert stream is not None
        lines = stream.read().decode().splitlines()
    assert len(lines) > 150
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def test_it_starts_quickly_where_there_is_no_python(host: Root) -> None:
    assert host.run("/usr/bin/python3", "--version").returncode != 0
    installed(host)
    version = host.sh("cat /root/beehive/VERSION").stdout
    took = []
    for _ in range(6):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = host.run("beehive", "--version")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert (done.returncode, done.stdout) == (0, version)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took) <= START_LIMIT, took


def test_installing_again_changes_nothing_and_settings_stay(host: Root) -> None:
    assert "is installed" in installed(host)
    settings = host.written / "etc/beehive/edge.yaml"
    settings.write_text(settings.read_text() + "\n# mine\n")
    before = listing(host)
    assert "was installed already" in installed(host)
    assert listing(host) == before
    assert settings.read_text().endswith("# mine\n")
    assert settings.stat().st_mode & 0o777 == 0o600
    assert host.run("beehive", "config", "check", "/etc/beehive/edge.yaml").returncode == 0
    for unit in (TOP / "configs" / "systemd").iterdir():
        assert (host.written / "etc/systemd/system" / unit.name).read_text() == unit.read_text().replace(*TOOL)
    tools = [one for one in (TOP / "configs/systemd").iterdir() if TOOL[0] in one.read_text()]
    assert {one.name for one in tools} == {"beehive-recover.service", "beehive-tool@.service"}


def test_another_version_takes_its_place_and_the_one_before_stays(host: Root) -> None:
    installed(host)
    for version in ("9.9.8", "9.9.9"):
        other = f"cd /root/beehive; echo {version} > VERSION; sed -i '/  VERSION$/d' SHA256SUMS"
        assert host.sh(other).returncode == 0
        assert f"version {version} is installed" in installed(host)
    lib = host.written / "usr/local/lib/beehive"
    assert ((lib / "current").readlink(), (lib / "tool").readlink()) == (Path("9.9.9"), Path("9.9.9"))
    assert {path.name for path in lib.iterdir()} == {"current", "tool", "9.9.8", "9.9.9", "uninstall.sh"}
    assert host.run("beehive", "routes", "--mode", "edge").returncode == 0


def test_it_removes_itself_and_leaves_backups_and_settings(host: Root) -> None:
    installed(host)
    (host.written / "var/lib/beehive/backup").write_text("precious")
    (host.written / "usr/local/bin/keadm").write_text("KubeEdge's own")
    done = host.run("/usr/local/lib/beehive/uninstall.sh")
    assert done.returncode == 0, done.stderr
    assert host.sh("ls /usr/local/bin /usr/local/lib /etc/systemd/system /etc/beehive /var/lib/beehive").stdout == (
        "/etc/beehive:\nedge.yaml\n\n/etc/systemd/system:\n"
        + "".join(f"{name}\n" for name in sorted(host.sh("ls /etc/systemd/system").stdout.split()))
        + "\n/usr/local/bin:\nkeadm\n\n/usr/local/lib:\n\n/var/lib/beehive:\nbackup\n"
    )
    assert "beehive" not in host.sh("ls /etc/systemd/system").stdout
    assert host.run("/root/beehive/uninstall.sh", "--purge").returncode == 0
    assert not host.sh("ls /etc/beehive 2>/dev/null || true").stdout


def command(name: str, does: str) -> str:
    """How to put a command of this name before the host's own."""
    return f"printf '#!/bin/sh\\n{does}\\n' > /usr/local/sbin/{name}; chmod 755 /usr/local/sbin/{name}"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("echo 2.99 > GLIBC", "this build needs 2.99 or newer"),
        (command("getconf", "echo glibc 2.28"), "this host has glibc 2.28; this build needs 2."),
        (command("getconf", "echo glibc 2.9"), "this host has glibc 2.9; this build needs 2."),
        (f"{command('getconf', 'exit 1')}; {command('ldd', 'echo musl libc >&2; exit 1')}",
         "no GNU C library that can be asked; Beehive needs glibc 2."),
        ("echo riscv64 > ARCH", "this is Beehive for riscv64, and this host is x86_64"),
        ("echo x >> beehive/beehive", "this tarball is damaged; fetch it again. Nothing was changed."),
        ("rm LICENSE", "this tarball is damaged"),
        ("mkdir -p /usr/local/bin; echo mine > /usr/local/bin/beehive", "bin/beehive is not of Beehive's making"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_anything_is_changed(host: Root, spoil: str, said: str) -> None:
    assert host.sh(f"cd /root/beehive; {spoil}").returncode == 0
    done = host.run("/root/beehive/install.sh")
    assert done.returncode == 1
    assert said in done.stderr
    assert host.sh("ls /usr/local/lib").stdout == ""


def wheels_for(platform: str) -> "subprocess.CompletedProcess[str]":
    """Asks for each locked package whether its index has a wheel for that platform, by one of the locked digests."""
    uv, locks = Path(sys.executable).with_name("uv"), ("requirements.lock", "shipping/requirements.lock")
    command: list[str | Path] = [uv, "pip", "install", "--dry-run", "--target", "/nowhere", "--python-version", "3.11",
               "--python-platform", platform, "--only-binary", ":all:", "--require-hashes"]  # fmt: skip
    for lock in locks:
        command += ["-r", lock]
    return subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)


def test_every_locked_package_has_a_wheel_for_arm64() -> None:
    """As far as that goes without such a machine: nothing was built or run on one."""
    done = wheels_for("aarch64-manylinux_2_36")
    assert done.returncode == 0, done.stderr
    locked = sum((TOP / lock).read_text().count("==") for lock in ("requirements.lock", "shipping/requirements.lock"))
    assert int(re.findall(r"Would install (\d+) packages", done.stderr)[0]) > locked // 2
    assert "has no usable wheels" in wheels_for("riscv64-unknown-linux").stderr, "one that lacks wheels is noticed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--frobnicate",), "--frobnicate is not an option"),
        (("--cloud", "https://x:10002"), "--cloud needs --token-file FILE"),
        (("--cloud",), "--cloud needs a value"),
        (("--cloud", "https://x:10002", "--token-file", "/none"), "/none cannot be read"),
        (("--cloud", "https://x:10002", "--token", "t", "--root", "/mnt"), "do not go together"),
        (("--cloud", "https://x:10002", "--token-file", "/root"), "/root cannot be read"),
        (("--cloud", "http://x:10002", "--token", "t"), "http://x:10002 is not like https://cloud.example:10002"),
        (("--cloud", "https://x/path", "--token", "t"), "is not like https://cloud.example:10002"),
        (("--cloud", "https://x:10002", "--token", "t", "--hub", "x"), "x is not like cloud.example:10000"),
        (("--cloud", "https://x;id:10002", "--token", "t"), "is not like https://cloud.example:10002"),
        (("--node", "edge-7"), "go with --cloud URL"),
    ],
)
def test_wrong_words_are_usage(host: Root, words: tuple[str, ...], said: str) -> None:
    done = host.run("/root/beehive/install.sh", *words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
    assert host.sh("ls /usr/local/lib /etc/beehive 2>/dev/null || true").stdout == "/usr/local/lib:\n"


def test_one_executable_has_many_names(host: Root) -> None:
    installed(host)
    names = "keadm cloudcore edgecore kubectl-nuj kubectl-beehive"
    script = f"for name in {names}; do ln -sf /usr/local/bin/beehive /tmp/$name; done"
    assert host.sh(script).returncode == 0
    assert "upgrade" in host.run("/tmp/keadm", "--help").stdout
    assert "Start no further node" in host.run("/tmp/kubectl-nuj", "--help").stdout
    assert "beehive demo" in host.run("/tmp/kubectl-beehive", "--help").stdout
    for name, needs in (("cloudcore", "runtime.data"), ("edgecore", "runtime.data")):
        done = host.run(f"/tmp/{name}", "--config", "/none.yaml")
        assert (done.returncode, "/none.yaml has 1 problem" in done.stderr) == (78, True), (needs, done.stderr)


def test_the_frozen_crd_is_the_committed_one(host: Root) -> None:
    installed(host)
    committed = yaml.safe_load((TOP / "configs/crd/nodeupgradejobs.yaml").read_text())
    assert yaml.safe_load(host.run("beehive", "crd").stdout) == committed


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    with running(tmp_path / "cluster") as cluster:
        yield cluster


def test_one_command_joins_and_the_next_does_not_join_again(host: Root, cluster: Cluster) -> None:
    token = cluster.cloud.join_token()
    (host.written / "root").mkdir(mode=0o700)
    (host.written / "root/join.token").write_text(token)
    url = f"https://127.0.0.1:{cluster.cloud.https_port}"
    words = ("--cloud", url, "--token-file", "/root/join.token", "--node", "edge-7")
    said = installed(host, *words)
    assert "edge-7 has joined" in said
    identity = host.written / "etc/beehive/pki"
    assert {path.stat().st_mode & 0o077 for path in identity.iterdir()} == {0}
    assert 'servers: ["127.0.0.1:10000"]' in (host.written / "etc/beehive/edge.yaml").read_text()
    before = {path.name: path.read_bytes() for path in identity.iterdir()}
    assert "has joined already" in installed(host, *words)
    assert {path.name: path.read_bytes() for path in identity.iterdir()} == before
    settings = [path.read_text(errors="replace") for path in (host.written / "etc").rglob("*") if path.is_file()]
    assert token not in "".join(settings)


def test_the_whole_demo_runs_frozen_where_there_is_no_python(host: Root) -> None:
    """API server, cloud, five agents, keepers and tools, all of them the one executable; with a power cut."""
    installed(host)
    done = host.run("beehive", "demo", "--json", timeout=110)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {name: (node["phase"], node["running"]) for name, node in told["nodes"].items()} == {
        "edge-1": ("Successful", "v1.23.0"), "edge-2": ("Failure", "v1.22.0"), "edge-3": ("Successful", "v1.23.0"),
        "edge-4": ("Skipped", "v1.22.0"), "edge-5": ("Successful", "v1.23.0"),
    }  # fmt: skip
