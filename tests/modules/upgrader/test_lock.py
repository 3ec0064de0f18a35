"""One at a time on a host, by the kernel's word."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from modules.upgrader.host.lock import Busy, Holder, held, who_holds

NORTH = Holder(job="north", uid="6b1f", attempt=1, step="Upgrade", pid=4021, since=100.0)


def test_the_second_is_told_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "idempotency_record"
    with held(path, NORTH):
        assert who_holds(path) == NORTH
        with pytest.raises(Busy) as refused, held(path, Holder(since=112.0)):
            raise AssertionError("two hold it")
        assert str(refused.value) == (
            "Another upgrade holds this host: job north, attempt 1, pid 4021, step Upgrade, since 12 s."
            " Wait for it, or look: beehive edge logs."
        )
        assert who_holds(path) == NORTH, "a refused one has changed nothing"
    assert who_holds(path) is None
    assert not path.exists(), "KubeEdge's own keadm takes the mere file for a lock"


@pytest.mark.parametrize("left", ["", '{"pid": 1, "job": "old"}', "\0\0\0"])
def test_what_a_dead_holder_left_blocks_nobody(tmp_path: Path, left: str) -> None:
    path = tmp_path / "idempotency_record"
    path.write_text(left)
    assert who_holds(path) is None
    with held(path, NORTH):
        assert who_holds(path) == NORTH


def test_it_is_gone_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "idempotency_record"
    code = (
        "import sys; from pathlib import Path; from modules.upgrader.host.lock import *;"
        "context = held(Path(sys.argv[1]), Holder(job='north')); context.__enter__();"
        "print('held', flush=True); input()"
    )
    environment = os.environ | {"PYTHONPATH": str(Path.cwd())}
    child = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert child.stdout
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(Busy), held(path, NORTH):
        pass
    child.kill()
    child.communicate()
    with held(path, NORTH):
        assert who_holds(path) == NORTH


def test_who_looks_does_not_keep_anybody_out(tmp_path: Path) -> None:
    path = tmp_path / "idempotency_record"
    path.touch()
    looking = os.open(path, os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH)
    try:
        with pytest.raises(Busy) as refused, held(path, NORTH):
            pass
        assert "somebody on this host" in str(refused.value)
    finally:
        os.close(looking)
    with held(path, NORTH):
        pass


def test_a_symlink_in_its_place_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path = tmp_path / "idempotency_record"
    path.symlink_to(victim)
    with pytest.raises(OSError, match="Too many levels"), held(path, NORTH):
        pass
    assert victim.read_text() == "precious"


def test_a_file_taken_away_between_open_and_lock_is_not_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last holder removes the file just then: the lock would be on a file that nobody else can find."""
    path = tmp_path / "idempotency_record"
    really, once = fcntl.flock, [True]

    def flock(descriptor: int, how: int) -> None:
        if once and how & fcntl.LOCK_EX:
            once.clear()
            path.unlink()
        really(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with held(path, NORTH):
        assert path.exists()
        with pytest.raises(Busy), held(path, Holder()):
            pass
