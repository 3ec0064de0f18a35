"""A whole agent as a process, asked by its owner's commands."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive_cli.root import run

pytestmark = pytest.mark.long
CONFIG = """
runtime: {{data: {0}/data, admin: {{port: 0}}}}
edgehub: {{servers: ["127.0.0.1:9"], identity: {0}/pki}}
upgrader: {{root: {0}, serviceManager: process}}
"""


class Agent:
    """`beehive --mode edge` on a folder."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "edge.yaml"
        self.file.write_text(CONFIG.format(folder))
        self.socket = folder / "data" / "control.sock"
        self.log = folder / "agent.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = (sys.executable, "-m", "beehive_cli", "--mode", "edge", "--config", str(self.file))
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end(self, number: int) -> int:
        assert self.process
        self.process.send_signal(number)
        return self.process.wait(30)


def spoil(folder: Path, how: str) -> None:
    """What a bad disk, a bad hand or another version left."""
    journal = folder / "data" / "journal"
    if how == "a file in its place":
        journal.mkdir(parents=True)
        for module in ("taskmanager", "edgehub"):
            (journal / module).write_text("")
        return
    for name in ("taskmanager/attempt.json", "edgehub/report-u1-1.json"):
        place = journal / name
        place.parent.mkdir(parents=True)
        if how == "a folder":
            place.mkdir()
        elif how == "a stranger's" and os.geteuid() == 0:
            place.write_text("{}")
            os.chown(place, 4711, 4711)
        else:
            place.write_bytes({"half": b'{"attempt": {"job"', "newer": b'{"schema": 99}'}.get(how, b""))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    one = Agent(tmp_path)
    one.start()
    yield one
    if one.process and one.process.poll() is None:
        one.end(signal.SIGKILL)


def seen(agent: Agent, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """What the owner's command shows, once an agent answers."""
    deadline = time.monotonic() + 30
    while True:
        code = run(["edge", "status", "--config", str(agent.file), "-o", "json"])
        shown = capsys.readouterr()
        assert code == 0 or "ask again in a moment" in shown.err, shown.err
        found: dict[str, object] = json.loads(shown.out or '{"agent": ""}')
        if found["agent"]:
            return found
        assert time.monotonic() < deadline, agent.log.read_text()
        time.sleep(0.05)


def test_it_answers_from_its_socket_and_is_found_again_after_it_was_killed(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    found = seen(agent, capsys)
    assert isinstance(found["link"], dict)
    assert found["link"]["trouble"] == "this host has not joined"
    assert agent.end(signal.SIGKILL) == -signal.SIGKILL
    assert agent.socket.exists()
    assert run(["edge", "status", "--config", str(agent.file)]) == 0
    assert capsys.readouterr().out.startswith("agent       does not run")
    agent.start()
    assert seen(agent, capsys)["agent"]
    assert run(["edge", "confirm", "--config", str(agent.file)]) == 1
    assert capsys.readouterr().err == "there are no valid upgrade tasks to execute\n"
    assert run(["edge", "logs", "--socket", str(agent.socket)]) == 0
    assert agent.end(signal.SIGTERM) == 0
    assert not agent.socket.exists()


@pytest.mark.parametrize("how", ["empty", "half", "newer", "a folder", "a stranger's", "a file in its place"])
def test_whatever_lies_in_its_journals_it_comes_up_stays_up_and_says_so(
    tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(tmp_path, how)
    one = Agent(tmp_path)
    one.start()
    assert one.process
    try:
        found = seen(one, capsys)
        if how == "a file in its place":
            assert "the agent cannot say anything about its attempts" in str(found["trouble"])
            assert "cannot save what comes next, so nothing is done" in one.log.read_text()
        else:
            assert isinstance(found["attempts"], dict)
            assert "it is kept as attempt.bad" in found["attempts"]["fault"]
            assert (tmp_path / "data/journal/taskmanager/attempt.bad").exists()
        assert one.process.poll() is None
        assert "failed" not in one.log.read_text(), "no module was started anew"
    finally:
        assert one.end(signal.SIGTERM) == 0


def test_many_who_ask_nothing_neither_end_it_nor_keep_its_descriptors(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    import socket  # noqa: PLC0415

    seen(agent, capsys)
    assert agent.process
    descriptors = Path(f"/proc/{agent.process.pid}/fd")
    before = len(os.listdir(descriptors))
    for _ in range(300):
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(str(agent.socket))
            one.sendall(b"garbage\n")
    seen(agent, capsys)
    deadline = time.monotonic() + 20
    while len(os.listdir(descriptors)) > before + 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "Traceback" not in agent.log.read_text()
