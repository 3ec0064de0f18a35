"""What the environment may and may not do to the way to kube-apiserver."""

from pathlib import Path

import pytest
from aiohttp import web

from modules.demo.apiserver.server import Server
from modules.informer import Config
from modules.informer.client import Client
from modules.informer.connection import Connection
from tests.contracts.faults import Proxy, answers


@pytest.fixture
def token(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text("ours\n")
    return str(path)


async def test_a_netrc_file_does_not_take_the_place_of_our_token(
    proxy: Proxy, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root on a host where somebody keeps a `default` entry for other tools."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login somebody password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    shown: list[str] = []

    async def act(request: web.Request) -> web.StreamResponse:
        shown.append(request.headers["Authorization"])
        return await answers(200, "{}")(request)

    proxy.fail(lambda _: True, act)
    async with Connection(Config(server=proxy.address, token_file=token)) as connection:
        assert (await Client(connection, 5).get("/version")).status == 200
    assert shown == ["Bearer ours"]


@pytest.mark.parametrize(
    ("environment", "passes"),
    [
        ({"http_proxy": "{proxy}"}, True),
        ({"HTTP_PROXY": "{proxy}"}, True),
        ({"http_proxy": "{proxy}", "no_proxy": "10.0.0.0/8,127.0.0.1"}, False),
        ({"http_proxy": "{proxy}", "NO_PROXY": "*"}, False),
        ({"https_proxy": "{proxy}"}, False),
        ({}, False),
    ],
)
async def test_a_proxy_of_the_environment(
    server: Server, proxy: Proxy, environment: dict[str, str], passes: bool
) -> None:
    named = {key: value.format(proxy=proxy.address) for key, value in environment.items()}
    async with Connection(Config(server=server.address), named) as connection:
        assert (await Client(connection, 5).get("/version")).status == 200
    assert proxy.count("/version") == passes
