"""Probes and metrics over real HTTP, also while the loop hangs."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from beehive import admin as admin_module
from beehive.admin import Admin
from beehive.errors import RuntimeFailed
from beehive.supervisor import Supervisor
from beehive.world import World
from tests.kernel.talk import Do, pair


def fetch(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
async def house() -> AsyncIterator[tuple[Supervisor, Admin]]:
    caller, _, bus = pair()
    supervisor = Supervisor(bus, World())
    supervisor.add("owner", lambda: pytest.fail("not started in this test"))
    await caller.send(Do(n=1))
    admin = Admin(supervisor, asyncio.get_running_loop(), "127.0.0.1", 0)
    yield supervisor, admin
    admin.close()


async def get(admin: Admin, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(fetch, admin.port, path)


async def test_readyz_says_which_part_waits_for_what(house: tuple[Supervisor, Admin]) -> None:
    supervisor, admin = house
    supervisor.keepers[0].endpoint.waiting_for("the API server at https://127.0.0.1:1: connection refused")
    said = "[-] owner waits for the API server at https://127.0.0.1:1: connection refused\nnot ready\n"
    assert await get(admin, "/readyz?verbose") == (503, said)
    supervisor.keepers[0].endpoint.ready()
    assert await get(admin, "/readyz") == (200, "ready\n")
    assert await get(admin, "/readyz?verbose") == (200, "[+] owner ready\nready\n")


async def test_metrics_are_pulled_from_the_inboxes(house: tuple[Supervisor, Admin]) -> None:
    status, text = await get(house[1], "/metrics")
    assert status == 200
    assert 'beehive_inbox_depth{module="owner"} 1.0' in text.splitlines()
    assert 'beehive_messages_taken_total{module="owner"} 0.0' in text.splitlines()


async def test_readyz_tells_a_warning_of_a_module_that_works(house: tuple[Supervisor, Admin]) -> None:
    class Warned:
        warning = "cloudcore also writes the status of job north"

    house[0].keepers[0].module = Warned()  # type: ignore[assignment]
    house[0].keepers[0].endpoint.ready()
    status, text = await get(house[1], "/readyz?verbose")
    said = "[+] owner ready\n[!] owner cloudcore also writes the status of job north\nready\n"
    assert (status, text) == (200, said)
    assert await get(house[1], "/readyz") == (200, "ready\n")


async def test_livez_fails_while_the_loop_hangs(
    house: tuple[Supervisor, Admin], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await get(house[1], "/livez") == (200, "ok\n")
    monkeypatch.setattr(admin_module, "_PATIENCE", 0.1)
    with ThreadPoolExecutor() as pool:  # whose result is waited for by the loop's own thread: the loop hangs
        asked = pool.submit(fetch, house[1].port, "/livez")
        assert asked.result() == (503, "the event loop did not turn for 0.1 s\n")


async def test_other_paths_are_told_what_there_is(house: tuple[Supervisor, Admin]) -> None:
    said = "there is /livez, /readyz?verbose, /metrics, and on this machine /trace, POST /trace?on|off, /story?id=N\n"
    assert await get(house[1], "/") == (404, said)


async def test_a_taken_port_is_named(house: tuple[Supervisor, Admin]) -> None:
    supervisor, admin = house
    with pytest.raises(RuntimeFailed, match=rf"Port {admin.port} on 127.0.0.1 is taken .* set runtime\.admin\.port"):
        Admin(supervisor, asyncio.get_running_loop(), "127.0.0.1", admin.port)
