"""The tool with machine code: real executables with good and bad manners, known by inode and by their own word."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from modules.upgrader.host.host import Host
from modules.upgrader.tool import main
from tests.fakes.edge_host import NEW, OLD, EdgeHost, until
from tests.real.running.standins import Variant, standin


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[EdgeHost]:
    made = EdgeHost(tmp_path / "host", soak=0.6)
    start = ("{executable}", "--state", "{root}/var/lib/kubeedge")
    target = msgspec.structs.replace(made.config.target, format="elf", start=start)
    made.config = msgspec.structs.replace(made.config, target=target)
    made.host = Host(made.config)
    assert made.layout.database
    made.layout.database.unlink()
    made.install(standin(OLD).read_bytes())
    made.start()
    yield made
    made.end()


def upgrade(edge: EdgeHost) -> int:
    settings = edge.root / "edge.yaml"
    section = {
        "root": str(edge.root),
        "serviceManager": "process",
        "soak": "600ms",
        "stopTimeout": "1s",
        "target": {"start": edge.config.target.start},
        "images": {"layout": str(edge.images.folder), "registry": False},
    }
    settings.write_text(json.dumps({"upgrader": section}))
    return main(["upgrade", "edge", "--toVersion", NEW, "--force", "--settings", str(settings)])


def test_a_good_program_runs_from_the_very_file_that_was_placed(edge: EdgeHost) -> None:
    program = standin(NEW)
    edge.offer(program.read_bytes())
    assert upgrade(edge) == 0
    status = edge.host.services.status(edge.host.service)
    assert edge.host.running(status) == NEW
    assert Path(f"/proc/{status.pid}/exe").read_bytes() == program.read_bytes()
    assert edge.starts() == [OLD, NEW]


@pytest.mark.parametrize(
    ("variant", "reason"),
    [
        (Variant.CRASHING, f"{NEW} exited with code 1 after 0."),
        (Variant.DYING, f'{NEW} exited with code 1 after 0.3 s: "fatal error: out of memory"'),
        (Variant.LYING, f"edgecore runs v0.0.0-lie, not {NEW}"),
    ],
)
def test_a_bad_program_is_taken_back(edge: EdgeHost, variant: Variant, reason: str) -> None:
    lives = {"lives": "300ms"} if variant is Variant.DYING else {}
    edge.offer(standin(NEW, variant, **lives).read_bytes())  # type: ignore[arg-type]
    assert upgrade(edge) == 1
    assert str(edge.report()["errorMessage"]).startswith(reason)
    assert edge.runs() == OLD
    assert edge.starts() == [OLD, NEW, OLD]


def test_a_running_program_that_was_replaced_on_disk_is_not_taken_for_the_new_one(edge: EdgeHost) -> None:
    """Somebody swapped the file under the running process: `--version` of the path would lie."""
    edge.host.files.install(standin(NEW), edge.layout.executable)
    status = edge.host.services.status(edge.host.service)
    assert status.active
    assert not edge.host.runs_installed(status)
    until(lambda: edge.host.installed() == NEW, "the new file's word")
