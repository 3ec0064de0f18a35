"""What keeps the real servers: lost races for ports, servers that fail, killed sessions, the check at the end."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.running import leftovers
from tests.real.running.processes import Daemon, PortTakenError, StartError, free_ports, wait_until, with_free_ports
from tests.real.running.store import Etcd

SLEEP = ("sleep", "600")


def test_a_server_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    broken = Daemon("broken", ["sh", "-c", "echo no such disk >&2; exit 3"], tmp_path)
    with pytest.raises(StartError, match="broken ended before it was ready:\nno such disk"):
        broken.start(lambda: False)


def test_a_silent_server_is_ended_at_its_deadline(tmp_path: Path) -> None:
    silent = Daemon("silent", SLEEP, tmp_path)
    with pytest.raises(StartError, match=r"silent was not ready after 0\.2 s"):
        silent.start(lambda: False, 0.2)
    assert not silent.running


def test_a_lost_race_for_a_port_is_run_again(tmp_path: Path) -> None:
    asked: list[list[int]] = []

    with socket.socket() as thief:

        def start(ports: list[int]) -> Etcd:
            asked.append(ports)
            if len(asked) == 1:
                thief.bind(("127.0.0.1", ports[0]))
                thief.listen()
            etcd = Etcd(tmp_path, ports)
            etcd.start()
            return etcd

        etcd = with_free_ports(start, 2)
    etcd.remove()
    assert len(asked) == 2
    assert not set(asked[0]) & set(asked[1])


def test_a_port_that_is_always_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as thief:
        port = thief.getsockname()[1]
        etcd = Etcd(tmp_path, [port, *free_ports(1)])
        with pytest.raises(PortTakenError, match=f"127.0.0.1:{port}"):
            etcd.start()


def test_a_paused_process_can_be_stopped(tmp_path: Path) -> None:
    server = Daemon("server", SLEEP, tmp_path)
    server.start()
    server.pause()
    server.stop(5)
    assert not server.running


def test_servers_die_with_a_session_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys\n"
        "from tests.real.running.processes import Daemon\n"
        f"server = Daemon('server', {SLEEP!r}, pathlib.Path(sys.argv[1]))\n"
        "server.start()\n"
        "print(server.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command: list[str | Path] = [sys.executable, "-c", script, tmp_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None
        pid = int(session.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        session.send_signal(signal.SIGKILL)
    try:
        wait_until(lambda: not _lives(pid), 10, f"the server {pid} is gone")
    finally:
        if _lives(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_server_whose_session_died_while_it_started_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = os.getpid()
    late = Daemon("late", ["sh", "-c", "echo it runs; exec sleep 600"], tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: parent + 1)
        with pytest.raises(StartError, match=r"late ended before it was ready:\n$"):
            late.start(lambda: False)


def _lives(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_the_check_at_the_end_finds_an_orphan_a_port_and_a_file(tmp_path: Path) -> None:
    orphan = ["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"]
    environment = {**os.environ, leftovers.MARK: "of-this-test"}
    pid = int(subprocess.run(orphan, env=environment, capture_output=True, text=True, check=True).stdout)
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            (tmp_path / "forgotten").touch()
            wait_until(lambda: leftovers.processes("of-this-test"), 5, "the orphan has its environment")
            found = leftovers.found("of-this-test", {port}, tmp_path)
        assert [sentence.split()[0] for sentence in found] == ["process", "port", "temporary"]
        assert str(pid) in found[0]
    finally:
        os.kill(pid, signal.SIGKILL)
    (tmp_path / "forgotten").unlink()
    wait_until(lambda: not leftovers.found("of-this-test", {port}, tmp_path), 5, "nothing is left")
