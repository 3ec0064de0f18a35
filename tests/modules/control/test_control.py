"""Local control on a real socket: who may ask, what is answered, and what does no harm."""

import asyncio
import contextlib
import grp
import json
import os
import socket
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from beehive.config import Duration
from beehive.errors import ConfigError, RuntimeFailed, Unavailable
from beehive.local import Peer, ask, listen
from beehive.messages.attempts import Attempts, InHand, ListAttempts
from beehive.messages.host import Decided, HostState, LogLines, LookAtHost, OwnerDecides, ReadLogs
from beehive.messages.uplink import Link, LinkState
from modules.control.access import may_ask
from modules.control.client import asked
from modules.control.config import Config
from modules.control.module import Control
from modules.control.requests import Decide, Hello, Logs, Question, Status
from tests.fakes.alone import Peers, alone

NODE = HostState(service="edgecore", active=True, pid=812, version="v1.22.0")
IN_HAND = Attempts(InHand(job="north", uid="u1", attempt=1, version="v1.23.0", step="Check"))
LINK = Link(True, 1.0, "wss://cloud.example:10000", 0, "", "edge-7")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "data" / "control.sock"


@contextlib.asynccontextmanager
async def serving(place: Path, **settings: object) -> AsyncIterator[Peers]:
    """The module, with somebody who knows an answer to everything."""
    async with alone(Control(Config(patience=Duration(1), **settings), place)) as peers:  # type: ignore[arg-type]
        peers.answer(LookAtHost, lambda _: NODE)
        peers.answer(ListAttempts, lambda _: IN_HAND)
        peers.answer(LinkState, lambda _: LINK)
        peers.answer(OwnerDecides, lambda word: Decided(job="north", version="v1.23.0", confirmed=word.confirmed))
        peers.answer(ReadLogs, lambda request: LogLines(tuple(f"line {one}" for one in range(request.lines))))
        await until(place.exists, "the socket")
        yield peers


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for it; say what did not come."""
    end = asyncio.get_running_loop().time() + 10
    while not condition():
        assert asyncio.get_running_loop().time() < end, f"{what} did not come"
        await asyncio.sleep(0.01)


async def answer(place: Path, question: Question) -> dict[str, object]:
    """As a program would see it."""
    found = await asyncio.to_thread(asked, place, question)
    shown: dict[str, object] = json.loads(msgspec.json.encode(found))
    return shown


async def said(place: Path, data: bytes, *, then_end: bool = False) -> str:
    """What comes back for these bytes."""
    reader, writer = await asyncio.open_unix_connection(place)
    with contextlib.suppress(ConnectionError):
        writer.write(data)
        if then_end:
            writer.write_eof()
        await writer.drain()
    got = b""
    with contextlib.suppress(ConnectionError):  # it was sent away before all of it was read
        async with asyncio.timeout(10):
            while piece := await reader.read(65536):
                got += piece
    writer.transport.abort()
    return got.decode()


async def test_it_gathers_what_the_others_know(place: Path) -> None:
    async with serving(place):
        found = await answer(place, Status())
        assert found["node"] == {"service": "edgecore", "active": True, "pid": 812, "version": "v1.22.0"}
        assert found["attempts"] == {
            "in_hand": {"job": "north", "uid": "u1", "attempt": 1, "version": "v1.23.0", "step": "Check"}
        }
        assert (await answer(place, Logs(lines=3)))["lines"] == ["line 0", "line 1", "line 2"]


async def test_one_that_gives_no_answer_is_named_and_the_rest_is_told(place: Path) -> None:
    async with serving(place) as peers:
        peers.answer(LinkState, lambda _: asyncio.sleep(3))
        found = await answer(place, Status())
        assert "about the link to the cloud" in str(found["problem"])
        assert "node" in found
        assert "link" not in found


async def test_the_owners_word_reaches_the_upgrader_and_its_answer_the_owner(place: Path) -> None:
    async with serving(place) as peers:
        found = await answer(place, Decide(confirmed=False, job="north", reason="shift"))
        assert peers.all_of(OwnerDecides) == [OwnerDecides(confirmed=False, job="north", reason="shift")]
        assert found["decided"] == {"job": "north", "version": "v1.23.0"}
        peers.answer(OwnerDecides, lambda _: Decided(problem="there are no valid upgrade tasks to execute"))
        assert (await answer(place, Decide(confirmed=True)))["problem"] == "there are no valid upgrade tasks to execute"


async def test_a_nonce_comes_back_with_the_version_and_the_kernel_says_whose_it_is(place: Path) -> None:
    async with serving(place):
        line, peer = await asyncio.to_thread(ask, place, msgspec.json.encode(Hello(nonce="n1")), 5)
        found = json.loads(line)
        assert found["nonce"] == "n1"
        assert found["version"][0].isdigit()
        assert peer.pid == os.getpid()


# ---- what does no harm -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"garbage\n",
        b"\xff\xfe\x00\n",
        b"[]\n",
        b'{"ask": "reboot"}\n',
        b'{"ask": "status", "more": 1}\n',
        b'{"ask": "logs", "lines": 1000000000}\n',
        b'{"ask": "logs", "lines": -1}\n',
        b'{"ask": "hello", "nonce": "' + b"n" * 100 + b'"}\n',
        b'{"ask": "decide", "confirmed": "yes"}\n',
        b"[" * 5000 + b"\n",
        b"x" * 9000 + b"\n",
    ],
)
async def test_what_is_no_question_gets_a_sentence_and_does_nothing(place: Path, data: bytes) -> None:
    async with serving(place) as peers:
        found = json.loads(await said(place, data))
        assert list(found) == ["problem"]
        assert "Traceback" not in found["problem"]
        assert peers.said == []
        assert "node" in await answer(place, Status()), "and the next one is answered"


async def test_ten_megabytes_are_not_kept(place: Path) -> None:
    async with serving(place):
        before = Path("/proc/self/statm").read_text().split()[1]
        assert await said(place, b"x" * 10_000_000) in ("", '{"problem":"a question has at most 8192 bytes"}\n')
        grown = (int(Path("/proc/self/statm").read_text().split()[1]) - int(before)) * os.sysconf("SC_PAGE_SIZE")
        assert grown < 30_000_000, "the test's own 10 MB, and what asyncio copies of them to send"
        assert "node" in await answer(place, Status())


async def test_who_says_nothing_is_sent_away_and_who_leaves_is_forgotten(place: Path) -> None:
    async with serving(place):
        assert await said(place, b'{"ask": "sta') == '{"problem":"no question came within 1 s"}\n'
        assert await said(place, b'{"ask": "sta', then_end=True) == ""
        assert await said(place, b"", then_end=True) == ""
        assert "node" in await answer(place, Status())


async def test_who_connects_again_and_again_keeps_nobody_out_for_long(place: Path) -> None:
    async with serving(place):
        silent = [socket.socket(socket.AF_UNIX) for _ in range(60)]
        for one in silent:
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(str(place))
            await asyncio.sleep(0)
        assert "ask again in a moment" in await said(place, b'{"ask": "status"}\n')
        for one in silent:
            one.close()
        await until(lambda: len(serving_tasks()) <= 8, "the end of those who left")
        assert "node" in await answer(place, Status())


async def test_who_never_reads_the_answer_is_given_up(place: Path) -> None:
    async with serving(place) as peers:
        peers.answer(ReadLogs, lambda _: LogLines(tuple("x" * 1000 for _ in range(2000))))
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.connect(str(place))
            deaf.sendall(b'{"ask": "logs", "lines": 1000}\n')
            assert "node" in await answer(place, Status())
            await until(lambda: serving_tasks() == [], "the end of one who never reads")


def serving_tasks() -> list[object]:
    """Connections that are being served in this process."""
    return [task for task in asyncio.all_tasks() if "Control._serve(" in repr(task.get_coro())]


# ---- who may ask -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "group", "allowed"),
    [
        (Peer(1, 0, frozenset({0})), None, True),
        (Peer(1, 1000, frozenset({1000})), None, False),
        (Peer(1, 1000, frozenset({1000, 44})), 44, True),
        (Peer(1, 1000, frozenset({1000, 45})), 44, False),
        (Peer(1, 999, frozenset({999})), None, True),
    ],
)
def test_root_the_agents_own_user_and_the_members_of_the_group_may_ask(
    peer: Peer, group: int | None, allowed: bool
) -> None:
    assert may_ask(peer, 999, group) is allowed


async def test_the_socket_is_its_owners_alone_unless_a_group_is_named(place: Path) -> None:
    async with serving(place):
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert not place.exists(), "nothing is left when the agent has ended"
    ours = grp.getgrgid(os.getegid()).gr_name
    async with serving(place, group=ours):
        assert stat.S_IMODE(place.stat().st_mode) == 0o660


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_a_stranger_who_gets_to_the_socket_is_told_who_may_ask() -> None:
    with tempfile.TemporaryDirectory(prefix="beehive-control-") as folder:  # pytest's own folders are root's alone
        place = Path(folder) / "control.sock"
        Path(folder).chmod(0o755)
        async with serving(place) as peers:
            place.chmod(0o666)
            assert json.loads(await asked_by(4711, place)) == {
                "problem": "only root may ask this agent; you are user 4711"
            }
            assert peers.said == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_a_member_of_the_group_may_speak_and_nobody_else_gets_in() -> None:
    group = next(one for one in grp.getgrall() if one.gr_gid not in (0, os.getegid()))
    with tempfile.TemporaryDirectory(prefix="beehive-control-") as folder:
        place = Path(folder) / "control.sock"
        Path(folder).chmod(0o755)
        async with serving(place, group=group.gr_name):
            decided = json.loads(await asked_by(4711, place, group.gr_gid))
            assert decided == {"decided": {"job": "north", "version": "v1.23.0", "confirmed": True}}
            assert await asked_by(4711, place) == "", "the socket itself lets nobody else in"


async def asked_by(user: int, place: Path, *groups: int) -> str:
    """What this user, who is in these groups too, is answered."""
    code = (
        "import os, sys; from pathlib import Path; from beehive.local import ask\n"
        "os.setgroups([int(one) for one in sys.argv[3:]]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
        'line, _ = ask(Path(sys.argv[1]), b\'{"ask": "decide", "confirmed": true}\', 10)\n'
        "sys.stdout.write(line.decode())"
    )
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(place), str(user), *map(str, groups),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    out, _ = await child.communicate()
    return out.decode()


def test_a_group_that_is_not_there_is_a_fault_of_the_configuration(place: Path) -> None:
    with pytest.raises(ConfigError, match=r"control\.group: there is no group 'beekeepers'"):
        Control(Config(group="beekeepers"), place)


# ---- its place ---------------------------------------------------------------------------------------------------


async def test_what_a_killed_agent_left_is_replaced_and_what_a_living_one_serves_is_not(place: Path) -> None:
    listen(place).close()
    assert place.exists()
    async with serving(place):
        assert "node" in await answer(place, Status())
        with pytest.raises(RuntimeFailed, match="Another process serves"):
            listen(place)
        assert "node" in await answer(place, Status())


async def test_a_second_agent_waits_visibly_and_takes_nothing(place: Path) -> None:
    async with serving(place), alone(Control(Config(), place)) as second:
        await until(lambda: "Another process serves" in second.module.waits_for, "the second one's words")


async def test_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    place = tmp_path / ("long" * 30) / ("folder" * 20) / "control.sock"
    async with serving(place):
        assert "node" in await answer(place, Status())


def test_nobody_there_is_said_in_a_sentence(tmp_path: Path) -> None:
    for place in (tmp_path / "nothing", tmp_path / "no" / "folder", tmp_path):
        with pytest.raises(Unavailable, match=f"nobody answers at {place}"):
            ask(place, b"{}", 1.0)
