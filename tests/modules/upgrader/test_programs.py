"""Asking strangers for their version."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from beehive.errors import Refused
from modules.upgrader.config import Target
from modules.upgrader.host.programs import runs_from, version_in, version_of, version_of_running


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)

    def write(text: str) -> Path:
        path = folder / "edgecore"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("KubeEdge v1.23.0\n", "v1.23.0"),
        ("k3s version v1.30.4+k3s1 (98262b5d)\ngo version go1.22.5\n", "v1.30.4+k3s1"),
        ("1.12.1", "v1.12.1"),
        ("v1.23.1-acme.5.", "v1.23.1-acme.5"),
        ("warning: libfoo.so.1.2.3 is old\nKubeEdge v1.23.0", "v1.23.0"),
        ("no version here 1.2", ""),
        ("", ""),
    ],
)
def test_a_version_is_found_in_what_programs_say(output: str, version: str) -> None:
    assert version_in(output) == version


def test_it_runs_from_a_folder_that_only_root_may_enter(program: Callable[[str], Path]) -> None:
    assert version_of(program("echo KubeEdge v1.23.0"), 10) == "v1.23.0"


WHO = 'echo "v$(id -u).$(id -G | wc -w).$(env | grep -c BEEHIVE)"'


def test_it_runs_without_powers_without_groups_and_without_our_environment(
    program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root has powers to give away; whoever else runs this has none, and changes nothing."""
    monkeypatch.setenv("BEEHIVE_TOKEN", "hunter2")
    root, groups = os.geteuid() == 0, len({os.getegid(), *os.getgroups()})
    expected = "v64321.1.0" if root else f"v{os.geteuid()}.{groups}.0"
    assert version_of(program(WHO), 10) == expected


def test_who_is_not_root_does_not_try_to_become_somebody_else(
    program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert version_of(program(WHO), 10).startswith(f"v{os.getuid()}.")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("exit 3", "code 3 and named no version"),
        ("sleep 60", "no answer within 0.3 s"),
        ("sleep 60 &\nexit 0", "no answer within 0.3 s"),
        ("kill -SEGV $$", "named no version"),
    ],
)
def test_one_that_does_not_answer_is_refused_in_time(program: Callable[[str], Path], text: str, problem: str) -> None:
    began = time.monotonic()
    with pytest.raises(Refused, match=problem):
        version_of(program(text), 0.3)
    assert time.monotonic() - began < 5


def test_endless_output_is_read_to_a_bound_and_its_children_are_ended(program: Callable[[str], Path]) -> None:
    marker = "31.4159"
    with pytest.raises(Refused):
        version_of(program(f"sleep {marker} &\nexec yes nonsense"), 5)
    assert not subprocess.run(["pgrep", "-f", f"sleep {marker}"], capture_output=True, check=False).stdout


def test_what_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("just words")
    (tmp_path / "text").chmod(0o755)
    with pytest.raises(Refused, match="cannot be run: Exec format error"):
        version_of(tmp_path / "text", 5)
    with pytest.raises(Refused, match="cannot be opened: No such file"):
        version_of(tmp_path / "absent", 5)


def test_an_elf_program_is_known_by_its_inode_not_by_its_name(tmp_path: Path) -> None:
    placed = tmp_path / "bash"
    placed.write_bytes(Path("/bin/bash").read_bytes())
    placed.chmod(0o755)
    child = subprocess.Popen([placed, "-c", "read line"], stdin=subprocess.PIPE)
    try:
        assert runs_from(child.pid, Target(), placed)
        placed.rename(tmp_path / "old")
        placed.write_bytes(Path("/bin/bash").read_bytes())
        placed.chmod(0o755)
        assert not runs_from(child.pid, Target(), placed), "the same bytes under the same name are not the same file"
        assert version_of_running(child.pid, Target(), placed, 10).startswith("v5.")
    finally:
        child.kill()
        child.communicate()
    assert not runs_from(child.pid, Target(), placed)
    with pytest.raises(Refused, match="is gone"):
        version_of_running(child.pid, Target(), placed, 10)
