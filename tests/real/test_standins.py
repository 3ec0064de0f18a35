"""The programs that upgrade tests install do what their names say."""

import json
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.running.processes import Daemon, StartError, wait_until
from tests.real.running.standins import Variant

Standin = Callable[..., Path]


class Host:
    """A root folder with a stand-in at its place."""

    def __init__(self, root: Path) -> None:
        self.state = root / "var/lib/kubeedge"
        self.executable = root / "usr/local/bin/edgecore"
        self.executable.parent.mkdir(parents=True)
        self.state.mkdir(parents=True)
        self.service = Daemon("edgecore", [self.executable], root)

    def install(self, program: Path) -> None:
        beside = self.executable.with_suffix(".new")
        shutil.copy(program, beside)
        beside.rename(self.executable)

    def version(self) -> str:
        return subprocess.run([self.executable, "--version"], capture_output=True, text=True, check=True).stdout

    def start(self) -> dict[str, object]:
        self.service.start((self.state / "running").exists)
        running: dict[str, object] = json.loads((self.state / "running").read_text())
        return running

    def starts(self) -> list[str]:
        return [" ".join(line.split()[:2]) for line in (self.state / "starts.log").read_text().splitlines()]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    host.service.kill()


def test_a_good_one_says_and_records_its_version_and_ends_when_asked(host: Host, standin: Standin) -> None:
    host.install(standin("v1.22.0"))
    assert host.version() == "KubeEdge v1.22.0\n"
    running = host.start()
    assert running["pid"] == host.service.pid
    assert running["version"] == running["says"] == "v1.22.0"
    assert running["executable"] == str(host.executable)
    host.service.stop(5)
    assert not (host.state / "running").exists(), "it was killed instead of ending by itself"


def test_a_new_executable_in_its_place_is_not_yet_what_runs(host: Host, standin: Standin) -> None:
    host.install(standin("v1.22.0"))
    host.start()
    host.install(standin("v1.23.0"))
    assert host.version() == "KubeEdge v1.23.0\n"
    assert json.loads((host.state / "running").read_text())["version"] == "v1.22.0"
    host.service.stop()
    assert host.start()["version"] == "v1.23.0"
    assert host.starts() == ["v1.22.0 good", "v1.23.0 good"]


def test_it_is_a_static_executable_of_this_machine(standin: Standin) -> None:
    head = standin("v1.22.0").read_bytes()[:20]
    assert (head[:4], head[4]) == (b"\x7fELF", 2)


@pytest.mark.parametrize(
    ("variant", "word"),
    [(Variant.CRASHING, "nil pointer"), (Variant.DYING, "out of memory")],
)
def test_a_bad_one_ends_with_code_1_and_a_reason(host: Host, standin: Standin, variant: Variant, word: str) -> None:
    host.install(standin("v1.23.0", variant, lives="100ms"))
    done = subprocess.run([host.executable], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 1
    assert word in done.stderr
    assert host.starts() == [f"v1.23.0 {variant}"]
    assert host.version() == "KubeEdge v1.23.0\n"


def test_a_hanging_one_ignores_sigterm(host: Host, standin: Standin) -> None:
    host.install(standin("v1.23.0", Variant.HANGING))
    with subprocess.Popen([host.executable], stderr=subprocess.DEVNULL) as service:
        wait_until((host.state / "running").exists, 10, "it runs")
        service.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            service.wait(0.3)
        service.kill()


def test_readiness_is_told_to_a_service_manager_by_all_but_the_hanging_one(host: Host, standin: Standin) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0beehive-standin-test")
        for variant in (Variant.HANGING, Variant.GOOD):
            host.install(standin("v1.23.0", variant))
            service = Daemon("edgecore", [host.executable], host.state, {"NOTIFY_SOCKET": "@beehive-standin-test"})
            (host.state / "running").unlink(missing_ok=True)
            service.start((host.state / "running").exists)
            if variant is Variant.GOOD:
                manager.settimeout(10)
                assert manager.recv(100) == b"READY=1"
            service.kill()
            manager.setblocking(False)
            with pytest.raises(BlockingIOError):
                manager.recv(100)


def test_a_lying_one_changes_its_version_once_it_runs(host: Host, standin: Standin) -> None:
    host.install(standin("v1.23.0", Variant.LYING))
    assert host.version() == "KubeEdge v1.23.0\n"
    running = host.start()
    assert (running["version"], running["says"]) == ("v1.23.0", "v0.0.0-lie")
    assert host.version() == "KubeEdge v0.0.0-lie\n"
    host.service.kill()
    assert host.version() == "KubeEdge v1.23.0\n"


@pytest.mark.parametrize("found", [8, 10])
def test_data_of_another_schema_end_it(host: Host, standin: Standin, found: int) -> None:
    host.install(standin("v1.23.0", schema=9))
    (host.state / "schema").write_text(f"{found}\n")
    with pytest.raises(StartError, match=f"cannot open database: schema {found}"):
        host.start()
    (host.state / "schema").write_text("9\n")
    assert host.start()["version"] == "v1.23.0"


def test_a_migrating_one_leaves_data_that_the_old_one_cannot_read(host: Host, standin: Standin) -> None:
    with sqlite3.connect(host.state / "edgecore.db") as database:
        database.execute("CREATE TABLE meta_v2 (key TEXT)")
        database.execute("PRAGMA user_version = 8")
    database.close()
    host.install(standin("v1.23.0", Variant.MIGRATING, schema=9))
    host.start()
    host.service.stop()
    database = sqlite3.connect(host.state / "edgecore.db")
    assert database.execute("PRAGMA user_version").fetchone() == (9,)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
    host.install(standin("v1.22.0", schema=8))
    with pytest.raises(StartError, match="cannot open database: schema 9"):
        host.start()


def test_the_state_directory_can_be_given(tmp_path: Path, standin: Standin) -> None:
    state = tmp_path / "elsewhere"
    service = Daemon("edgecore", [standin("v1.22.0"), "--state", state], tmp_path)
    service.start((state / "running").exists)
    service.stop()
    assert (state / "starts.log").exists()
