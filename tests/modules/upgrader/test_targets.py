"""Which file is the target, and how it is replaced: found from its unit, behind a link, while it runs, across disks."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from beehive.errors import Refused
from modules.upgrader.config import Config, Target
from modules.upgrader.host.files import Files
from modules.upgrader.host.host import Host
from modules.upgrader.host.layout import Layout
from modules.upgrader.host.program import program_of
from modules.upgrader.host.programs import runs_from, version_of
from modules.upgrader.host.service import Service, Unit
from tests.fakes.edge_host import NEW
from tests.fakes.memory_host import KillableFiles, MemoryServices


class Starting(MemoryServices):
    """A manager whose unit starts this program."""

    def __init__(self, starts: str) -> None:
        super().__init__(KillableFiles())
        self.starting = starts

    def unit(self, service: Service) -> Unit:
        del service
        return Unit(starts=self.starting)


@pytest.mark.parametrize(
    ("starts", "executable"),
    [
        ("/usr/bin/edgecore", "/usr/bin/edgecore"),
        ("/opt/kubeedge/edgecore", "/opt/kubeedge/edgecore"),
        ("", "/usr/local/bin/edgecore"),
        ("/bin/sh", "/usr/local/bin/edgecore"),
    ],
)
def test_it_is_the_program_that_the_unit_starts_and_never_its_shell(
    tmp_path: Path, starts: str, executable: str
) -> None:
    host = Host(Config(root=str(tmp_path)), services=Starting(starts))
    assert host.layout.executable == tmp_path / executable.lstrip("/")


def test_what_is_configured_is_not_looked_for_but_held_against_the_unit(tmp_path: Path) -> None:
    mine = Target(executable="/usr/local/bin/edgecore")
    host = Host(Config(root=str(tmp_path), target=mine), services=Starting("/usr/bin/edgecore"))
    assert host.layout.executable == tmp_path / "usr/local/bin/edgecore"
    with pytest.raises(Refused, match=r"edgecore\.service starts /usr/bin/edgecore, not .*/usr/local/bin/edgecore"):
        host.check_unit()


def test_a_link_to_the_program_is_the_program(tmp_path: Path) -> None:
    host = Host(Config(root=str(tmp_path)), services=Starting("/usr/bin/edgecore"))
    host.layout.executable.parent.mkdir(parents=True)
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/edgecore-1").write_text("v1")
    host.layout.executable.symlink_to("../../opt/edgecore-1")
    (tmp_path / "new").write_text("v2")
    again = program_of(Files(), host.layout)
    again.swap(tmp_path / "new", NEW, like_installed=True)
    assert os.readlink(host.layout.executable) == "../../opt/edgecore-1"
    assert (tmp_path / "opt/edgecore-1").read_text() == "v2"
    host.check_unit()


def test_a_link_out_of_the_root_is_replaced_and_not_followed(tmp_path: Path) -> None:
    layout = Layout(Config(root=str(tmp_path / "host")))
    layout.executable.parent.mkdir(parents=True)
    (tmp_path / "outside").write_text("theirs")
    layout.executable.symlink_to(tmp_path / "outside")
    (tmp_path / "new").write_text("v2")
    program_of(Files(), layout).swap(tmp_path / "new", NEW, like_installed=True)
    assert (tmp_path / "outside").read_text() == "theirs"
    assert layout.executable.read_text() == "v2"


def test_a_running_program_is_replaced_across_file_systems_with_its_mode_owner_and_attributes(tmp_path: Path) -> None:
    """Written in place it would fail with ETXTBSY, renamed from another disk with EXDEV."""
    other = Path("/dev/shm")
    if other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.fail("this machine has no second file system at /dev/shm")
    layout = Layout(Config(root=str(tmp_path)))
    layout.executable.parent.mkdir(parents=True)
    layout.executable.write_bytes(Path("/bin/sleep").read_bytes())
    layout.executable.chmod(0o751)
    if os.geteuid() == 0:
        os.chown(layout.executable, 4321, 5432)
    os.setxattr(layout.executable, "user.label", b"edge")
    before = layout.executable.stat()
    artefact = other / f"beehive-test-{os.getpid()}"
    running = subprocess.Popen([layout.executable, "60"])
    try:
        artefact.write_bytes(Path("/bin/cat").read_bytes())
        program_of(Files(), layout).swap(artefact, NEW, like_installed=True)
        now = layout.executable.stat()
        assert layout.executable.read_bytes() == Path("/bin/cat").read_bytes()
        assert (now.st_mode, now.st_uid, now.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
        assert os.getxattr(layout.executable, "user.label") == b"edge"
        assert running.poll() is None, "what ran goes on from its own file"
        assert not runs_from(running.pid, Target(), layout.executable)
        assert runs_from(running.pid, Target(), layout.executable, (f"{layout.executable} (deleted)",))
    finally:
        artefact.unlink()
        running.kill()
        running.wait()


@pytest.fixture
def edgecore(tmp_path: Path) -> Path:
    place = tmp_path / "edgecore"
    place.write_text("#!/bin/sh\necho v1.2.3\n")
    place.chmod(0o755)
    return place


def test_a_program_that_somebody_holds_open_for_a_moment_is_asked_again(edgecore: Path) -> None:
    writer = edgecore.open("ab")
    threading.Timer(0.3, writer.close).start()
    assert version_of(edgecore, 5) == "v1.2.3"


def test_one_that_stays_open_is_refused_in_time(edgecore: Path) -> None:
    with edgecore.open("ab"), pytest.raises(Refused, match="cannot be run: Text file busy"):
        version_of(edgecore, 0.3)
