"""KubeEdge's own way to confirm: one path of HTTP on loopback, for programs of this host only."""

import asyncio
import socket
from pathlib import Path

import pytest

from beehive.errors import ConfigError
from beehive.messages.host import Decided, OwnerDecides
from modules.control.config import Config
from modules.control.module import Control
from modules.control.web import is_loopback_name, loopback
from tests.fakes.alone import alone

GOOD = "POST /api/v1/taskupgrade/confirm-upgrade HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


async def spoken(port: int, text: str) -> str:
    """What comes back; the server may need a moment to open."""
    for _ in range(500):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            break
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)
    else:
        raise AssertionError(f"nobody listens on port {port}")
    writer.write(text.format(port=port).encode())
    writer.write_eof()
    answer = (await reader.read()).decode()
    writer.close()
    return answer


async def test_kubeedges_keadm_can_confirm_by_it_and_hears_kubeedges_words(tmp_path: Path) -> None:
    port = free_port()
    async with alone(Control(Config(http=f"127.0.0.1:{port}"), tmp_path / "s")) as peers:
        peers.answer(OwnerDecides, lambda _: Decided(job="north", version="v1.23.0", confirmed=True))
        answer = await spoken(port, GOOD)
        assert answer.startswith("HTTP/1.1 200 OK\r\n")
        assert answer.endswith("\r\n\r\n"), "an empty body"
        peers.answer(OwnerDecides, lambda _: Decided(problem="there are no valid upgrade tasks to execute"))
        answer = await spoken(port, GOOD.replace("taskupgrade", "any-resource"))
        assert answer.startswith("HTTP/1.1 400 Bad Request\r\n")
        assert answer.endswith("\r\n\r\nthere are no valid upgrade tasks to execute")
        assert peers.all_of(OwnerDecides) == [OwnerDecides(confirmed=True)] * 2


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (GOOD.replace("POST", "GET"), "405"),
        (GOOD.replace("confirm", "reject"), "404"),
        (GOOD.replace("taskupgrade", "../../etc"), "404"),
        (GOOD.replace("Host: 127.0.0.1", "Host: evil.example"), "403"),
        (GOOD.replace("Content", "Origin: https://evil.example\r\nContent"), "403"),
        ("nonsense\r\n\r\n", "403"),
        ("no end", ""),
        ("x" * 20_000, ""),
    ],
)
async def test_anything_else_confirms_nothing(tmp_path: Path, text: str, status: str) -> None:
    port = free_port()
    async with alone(Control(Config(http=f"127.0.0.1:{port}"), tmp_path / "s")) as peers:
        try:
            answer = await spoken(port, text)
        except ConnectionError:
            answer = ""
        assert answer[9:12] == status
        assert peers.said == []


async def test_it_is_off_unless_it_is_asked_for(tmp_path: Path) -> None:
    async with alone(Control(Config(), tmp_path / "s")):
        listening = {
            line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"
        }
        assert not any(address.endswith(f":{10550:04X}") for address in listening)


@pytest.mark.parametrize(
    "address", ["0.0.0.0:10550", "10.0.0.1:10550", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:x", ":1"]
)
def test_an_address_that_is_not_loopback_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=r"control\.http: .* is not a loopback address"):
        loopback(address)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("127.0.0.1", True), ("127.0.0.1:10550", True), ("[::1]:10550", True), ("localhost", True), ("", False),
        ("localhost.evil.example", False), ("[", False), ("[::1", True), ("10.0.0.1:1", False),
    ],
)  # fmt: skip
def test_what_is_a_loopback_name(text: str, good: bool) -> None:
    assert is_loopback_name(text) is good
