"""Tracing switched while running, over real HTTP; what it shows and to whom."""

import asyncio
import http.client
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from beehive import admin as admin_module
from beehive.admin import Admin, Asked
from beehive.module import Endpoint
from beehive.supervisor import Supervisor
from beehive.world import World
from tests.kernel.talk import Do, Double, drain, pair


class House:
    def __init__(self, admin: Admin, caller: Endpoint, owner: Endpoint) -> None:
        self.admin, self.caller, self.owner = admin, caller, owner

    def fetch(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.admin.port, timeout=10)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    async def request(self, method: str, path: str, **headers: str) -> tuple[int, str]:
        return await asyncio.to_thread(self.fetch, method, path, headers)

    async def say(self, n: int) -> None:
        await self.caller.send(Do(n=n))


@pytest.fixture
async def house() -> AsyncIterator[House]:
    caller, owner, bus = pair(capacity=64)
    admin = Admin(Supervisor(bus, World()), asyncio.get_running_loop(), "127.0.0.1", 0)
    taking = asyncio.create_task(drain(owner))
    yield House(admin, caller, owner)
    owner.inbox.close()
    await taking
    admin.close()


async def test_tracing_begins_and_ends_while_running_and_its_record_stays(house: House) -> None:
    assert await house.request("GET", "/trace") == (
        200,
        "tracing is off, and nothing was recorded; POST /trace?on begins\n",
    )
    await house.say(1)
    assert await house.request("POST", "/trace?on") == (200, "tracing is on\n")
    await house.say(2)
    assert await house.request("POST", "/trace?off") == (200, "tracing is off\n")
    await house.say(3)
    assert await house.request("GET", "/trace") == (
        200,
        'tracing is off; the last messages:\n#1 caller -> owner  Do {"type":"talk.do","n":2}\n',
    )
    status, story = await house.request("GET", "/story?id=1")
    assert (status, story) == (200, '#1 +0.000s caller -> owner  Do {"type":"talk.do","n":2}\n')


async def test_a_story_has_the_answer(house: House) -> None:
    await house.request("POST", "/trace?on")
    assert await house.caller.ask(Double(n=21)) == 42
    _, story = await house.request("GET", "/story?id=1")
    first, second = story.splitlines()
    assert first == '#1 +0.000s caller -> owner  Double {"type":"talk.double","n":21}'
    assert second.startswith("  = +0.0")
    assert second.endswith("s int 42")


async def test_switching_on_twice_keeps_the_record(house: House) -> None:
    await house.request("POST", "/trace?on")
    await house.say(1)
    await house.request("POST", "/trace?on")
    _, text = await house.request("GET", "/trace")
    assert "#1 caller" in text
    await house.request("POST", "/trace?off")
    await house.request("POST", "/trace?on")
    _, text = await house.request("GET", "/trace")
    assert "#1 caller" not in text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/trace", 400), ("POST", "/trace?maybe", 400), ("PUT", "/trace?on", 404), ("GET", "/trace?on", 200),
        ("GET", "/story?id=1", 404), ("POST", "/story?id=1", 404), ("POST", "/metrics", 404), ("POST", "/livez", 404),
    ],
)  # fmt: skip
async def test_what_is_not_meant_changes_nothing(house: House, method: str, path: str, status: int) -> None:
    assert (await house.request(method, path))[0] == status
    assert house.caller._watch.tracer is None


@pytest.mark.parametrize("number", ["", "x", "-1", "1.5", "%D9%A1", "9" * 30, "1&id=2", "%31"])
async def test_only_a_number_is_a_number(house: House, number: str) -> None:
    await house.request("POST", "/trace?on")
    assert (await house.request("GET", f"/story?id={number}"))[0] == 400
    assert await house.request("GET", "/story?id=99999") == (200, "#99999 (no longer in the record)\n")


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Host", "evil.example"), ("Host", "evil.example:10350"), ("Host", "10.0.0.7"), ("Host", ""),
        ("Host", "localhost.evil.example"), ("Host", "127.0.0.1.evil.example"), ("Host", "a@127.0.0.1"),
        ("Origin", "http://evil.example"), ("Origin", "null"), ("Origin", "http://127.0.0.1:10350"),
    ],
)  # fmt: skip
async def test_a_page_in_a_browser_and_a_rebound_name_are_refused(house: House, header: str, value: str) -> None:
    for method, path in (("POST", "/trace?on"), ("GET", "/trace"), ("GET", "/story?id=1")):
        assert (await house.request(method, path, **{header: value}))[0] == 403
    assert house.caller._watch.tracer is None
    assert (await house.request("GET", "/livez", **{header: value}))[0] == 200


def asked(remote: str, host: str) -> Asked:
    return Asked.from_wsgi({"REQUEST_METHOD": "GET", "PATH_INFO": "/trace", "REMOTE_ADDR": remote, "HTTP_HOST": host})


@pytest.mark.parametrize(
    ("remote", "host", "is_local"),
    [
        ("127.0.0.1", "127.0.0.1:10350", True), ("127.8.9.1", "localhost", True), ("::1", "[::1]:10350", True),
        ("::ffff:127.0.0.1", "localhost:1", True), ("10.1.2.3", "127.0.0.1", False),
        ("::ffff:10.1.2.3", "[::1]", False), ("fe80::1", "localhost", False), ("", "localhost", False),
        ("127.0.0.1", "[::1", False), ("127.0.0.1", "[127.0.0.1", False), ("127.0.0.1", "", False),
    ],
)  # fmt: skip
def test_who_is_local(remote: str, host: str, is_local: bool) -> None:
    assert asked(remote, host).is_local is is_local


async def test_a_loop_that_hangs_is_told_and_the_switch_does_not_hang(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.request("POST", "/trace?on")
    monkeypatch.setattr(admin_module, "_PATIENCE", 0.1)
    with ThreadPoolExecutor() as pool:  # whose results are waited for by the loop's own thread: the loop hangs
        asking = [pool.submit(house.fetch, *asked, {}) for asked in (("GET", "/trace"), ("GET", "/story?id=1"))]
        assert [one.result() for one in asking] == [(503, "the event loop did not turn for 0.1 s\n")] * 2
