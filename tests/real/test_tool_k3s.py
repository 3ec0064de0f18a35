"""The tool with a K3s agent's layout: a program that runs from an unpacked copy of itself."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from modules.upgrader.config import Target
from modules.upgrader.host.host import Host
from modules.upgrader.tool import main
from tests.fakes.edge_host import NEW, OLD, EdgeHost
from tests.real.running.processes import wait_until
from tests.real.running.standins import Variant, standin

STATE = "/var/lib/rancher/k3s"
TARGET = Target(
    executable="/usr/local/bin/k3s",
    image_path="/bin/k3s",
    runs_from=(f"{STATE}/data/*/bin/k3s",),
    config="/etc/rancher/k3s/config.yaml",
    database="",
    service="k3s-agent",
    start=("{executable}", "agent", f"--state={{root}}{STATE}"),
)


def k3s(version: str, variant: Variant = Variant.UNPACKING) -> bytes:
    return standin(version, variant).read_bytes()


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[EdgeHost]:
    made = EdgeHost(tmp_path / "host", soak=0.6, target=msgspec.structs.replace(TARGET, database="/unused"))
    assert made.layout.database
    made.layout.database.unlink()
    made.config = msgspec.structs.replace(made.config, target=TARGET)
    made.host = Host(made.config)
    made.layout = made.host.layout
    made.install(k3s(OLD))
    made.host.services.start(made.host.service)
    yield made
    made.host.services.stop(made.host.service)


def upgrade(edge: EdgeHost, new: bytes) -> int:
    edge.images.add(NEW, [{"/bin/k3s": new}])
    settings = edge.root / "edge.yaml"
    target = {
        "executable": TARGET.executable,
        "imagePath": TARGET.image_path,
        "runsFrom": TARGET.runs_from,
        "config": TARGET.config,
        "database": "",
        "service": TARGET.service,
        "start": TARGET.start,
    }
    section = {
        "root": str(edge.root),
        "serviceManager": "process",
        "soak": "600ms",
        "stopTimeout": "1s",
        "target": target,
        "images": {"layout": str(edge.images.folder), "registry": False},
    }
    settings.write_text(json.dumps({"upgrader": section}))
    return main(["upgrade", "edge", "--toVersion", NEW, "--force", "--settings", str(settings)])


def running(edge: EdgeHost) -> tuple[str, str]:
    """Where the running process runs from, below the root, and what it says."""
    status = edge.host.services.status(edge.host.service)
    place = os.readlink(f"/proc/{status.pid}/exe").removeprefix(str(edge.root))
    return place, edge.host.running(status)


def test_it_is_upgraded_and_known_by_its_own_word(edge: EdgeHost) -> None:
    assert running(edge) == (f"{STATE}/data/{OLD}/bin/k3s", OLD)
    assert upgrade(edge, k3s(NEW)) == 0
    assert running(edge) == (f"{STATE}/data/{NEW}/bin/k3s", NEW)
    assert edge.host.runs_installed(edge.host.services.status(edge.host.service))


def test_a_copy_of_the_old_version_does_not_count_as_the_new_one(edge: EdgeHost) -> None:
    """The program was swapped under a process that nobody started again."""
    edge.host.files.install(standin(NEW, Variant.UNPACKING), edge.layout.executable)
    status = edge.host.services.status(edge.host.service)
    assert edge.host.running(status) == OLD
    assert not edge.host.runs_installed(status)


def test_one_that_crashes_is_taken_back(edge: EdgeHost) -> None:
    assert upgrade(edge, k3s(NEW, Variant.CRASHING)) == 1
    assert running(edge) == (f"{STATE}/data/{OLD}/bin/k3s", OLD)
    assert edge.layout.executable.read_bytes() == k3s(OLD)
    assert str(edge.report()["errorMessage"]).startswith(f"{NEW} exited with code 1")


def test_a_process_from_elsewhere_is_refused(edge: EdgeHost) -> None:
    elsewhere = msgspec.structs.replace(TARGET, runs_from=("/opt/*/bin/k3s",))
    host = Host(msgspec.structs.replace(edge.config, target=elsewhere))
    wait_until(lambda: running(edge)[0] == f"{STATE}/data/{OLD}/bin/k3s", 10, "it runs from its copy")
    assert not host.runs_installed(host.services.status(host.service))
