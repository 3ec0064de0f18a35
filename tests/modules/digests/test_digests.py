"""Look-ups over real TLS on loopback: good answers, and every way in which a registry may be hostile or broken."""

import asyncio
import contextlib
import hashlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from beehive.config import Duration
from beehive.errors import ConfigError
from beehive.messages.images import Digests, DigestsAnswer, LookUpDigests, NoDigests
from beehive.world import World
from modules.digests.answer import INDEX_TYPES, MANIFEST_TYPES, MOST_BYTES
from modules.digests.config import Config
from modules.digests.module import DigestsModule
from modules.digests.question import address, path, repository
from tests.fakes.alone import alone
from tests.vectors import vector

TOKEN = "very.secret"
CA = trustme.CA()
Serve = Callable[[asyncio.StreamWriter], Awaitable[None]]


def platform(architecture: str, variant: str = "", system: str = "linux") -> dict[str, object]:
    return {"platform": {"architecture": architecture, "os": system, "variant": variant}, "digest": "sha256:x"}


INDEX = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": INDEX_TYPES[0],
        "manifests": [
            platform("amd64"), platform("arm64", "v8"), platform("arm", "v7"), platform("riscv64"),
            platform("amd64", system="windows"), platform("unknown", system="unknown"), {"digest": "sha256:y"},
        ],
    }
).encode()  # fmt: skip
MANIFEST = json.dumps({"schemaVersion": 2, "config": {}, "layers": []}).encode()


def sha(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


class Registry:
    """Answers every request as it was told to, over TLS; keeps what it was asked."""

    def __init__(self, serve: Serve) -> None:
        self.requests: list[str] = []
        self._serve = serve

    @asynccontextmanager
    async def running(self, ca: trustme.CA = CA) -> AsyncIterator[str]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert("127.0.0.1").configure_cert(context)
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0, ssl=context)
        async with server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
            await self._serve(writer)
            await writer.drain()
        writer.close()


def says(status: str, body: bytes = b"", **headers: str) -> Serve:
    named = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in headers.items())
    head = f"HTTP/1.1 {status}\r\n{named}content-length: {len(body)}\r\nconnection: close\r\n\r\n"

    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(head.encode() + body)

    return serve


async def looked_up(
    host: str, tmp_path: Path, *, hosts: tuple[str, ...] | None = None, timeout: float = 5.0, token: str = TOKEN
) -> DigestsAnswer:
    ca = tmp_path / "ca.pem"
    CA.cert_pem.write_to_path(str(ca))
    config = Config(hosts=(host,) if hosts is None else hosts, ca_file=str(ca), timeout=Duration(timeout))
    async with alone(DigestsModule(config), world=World()) as peers:
        return await peers.ask(LookUpDigests(host=host, token=token, image="k/pack:old", version="v1.30.4+k3s1"))


async def test_an_index_pins_each_of_its_linux_platforms(tmp_path: Path) -> None:
    registry = Registry(says("200 OK", INDEX, content_type=INDEX_TYPES[0], docker_content_digest=sha(INDEX)))
    async with registry.running() as host:
        found = await looked_up(host, tmp_path)
    assert found == Digests(dict.fromkeys(("amd64", "arm/v7", "arm64", "riscv64"), sha(INDEX)))
    (request,) = registry.requests
    assert request.startswith("GET /v2/k/pack/manifests/v1.30.4-k3s1 HTTP/1.1\r\n")
    assert f"Authorization: Bearer {TOKEN}\r\n" in request
    assert all(kind in request for kind in INDEX_TYPES + MANIFEST_TYPES)


async def test_a_manifest_that_stands_alone_pins_both_usual_platforms(tmp_path: Path) -> None:
    registry = Registry(says("200 OK", MANIFEST, content_type=f"{MANIFEST_TYPES[1]}; charset=utf-8"))
    async with registry.running() as host:
        assert await looked_up(host, tmp_path, token="") == Digests(dict.fromkeys(("amd64", "arm64"), sha(MANIFEST)))
    assert "uthorization" not in registry.requests[0]


@pytest.mark.parametrize(
    ("serve", "sentence", "may_pass"),
    [
        (says("307 Temporary Redirect", location="https://evil.example/v2/"), "sends us elsewhere (HTTP 307)", False),
        (says("301 Moved", location="/v2/other"), "sends us elsewhere (HTTP 301)", False),
        (says("401 Unauthorized", www_authenticate='Bearer realm="https://evil.example/token"'),
         "does not take the token of spec.imageDigestGatter (HTTP 401)", False),
        (says("403 Forbidden"), "does not take the token of spec.imageDigestGatter (HTTP 403)", False),
        (says("404 Not Found", b"no"), "has no k/pack:v1.30.4-k3s1", False),
        (says("418 Teapot"), "answers with HTTP 418", False),
        (says("429 Too Many", retry_after="9"), "cannot answer now (HTTP 429)", True),
        (says("503 Away"), "cannot answer now (HTTP 503)", True),
        (says("200 OK", INDEX, content_type=INDEX_TYPES[0], docker_content_digest=sha(b"other")),
         "does not have the digest that it names", False),
        (says("200 OK", b"<html>login</html>", content_type="text/html"), "no manifest of an image", False),
        (says("200 OK", b"\xff\xfe", content_type=INDEX_TYPES[0]), "no manifest of an image", False),
        (says("200 OK", b"[" * 100_000, content_type=INDEX_TYPES[0]), "no manifest of an image", False),
        (says("200 OK", b'{"layers": []}', content_type="application/json"), "no manifest of an image", False),
        (says("200 OK", b'{"manifests": []}', content_type=INDEX_TYPES[0]), "is built for no Linux platform", False),
        (says("200 OK", json.dumps({"manifests": [platform(f"a{n}") for n in range(99)]}).encode(),
              content_type=INDEX_TYPES[0]), "more than 16 platforms", False),
    ],
)  # fmt: skip
async def test_what_cannot_be_believed_is_refused_with_a_sentence(
    tmp_path: Path, serve: Serve, sentence: str, may_pass: bool
) -> None:
    registry = Registry(serve)
    async with registry.running() as host:
        found = await looked_up(host, tmp_path)
    assert isinstance(found, NoDigests)
    assert sentence in found.reason
    assert found.may_pass is may_pass
    assert len(registry.requests) == 1, "nobody is followed"
    assert TOKEN not in found.reason
    assert found.reason.isprintable()


async def test_a_redirect_to_another_host_never_reaches_it(tmp_path: Path) -> None:
    elsewhere = Registry(says("200 OK", INDEX, content_type=INDEX_TYPES[0]))
    async with elsewhere.running() as other:
        registry = Registry(says("302 Found", location=f"https://{other}/v2/k/pack/manifests/v1"))
        async with registry.running() as host:
            assert isinstance(await looked_up(host, tmp_path, hosts=(host, other)), NoDigests)
    assert elsewhere.requests == []


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "without end"])
async def test_a_huge_body_is_left_where_it_is(tmp_path: Path, announced: bool) -> None:
    sent = 0

    async def serve(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        length = "content-length: 99999999999\r\n" if announced else ""
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {INDEX_TYPES[0]}\r\n{length}connection: close\r\n\r\n".encode())
        while True:
            writer.write(b" " * 65536)
            await writer.drain()
            sent += 65536

    async with Registry(serve).running() as host:
        found = await looked_up(host, tmp_path)
    assert found == NoDigests(f"registry {host} answers with more than the 4,194,304 bytes that a manifest may have")
    assert sent < 8 * MOST_BYTES


@pytest.mark.parametrize("begins", [True, False], ids=["drip by drip", "not at all"])
async def test_a_slow_one_is_not_waited_for(tmp_path: Path, begins: bool) -> None:
    async def serve(writer: asyncio.StreamWriter) -> None:
        if begins:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" " if begins else b"")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with Registry(serve).running() as host:
        found = await looked_up(host, tmp_path, timeout=0.5)
    assert found == NoDigests(f"registry {host} did not answer within 0.5 s", may_pass=True)


async def test_a_cut_may_pass(tmp_path: Path) -> None:
    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{")

    async with Registry(serve).running() as host:
        found = await looked_up(host, tmp_path)
    assert isinstance(found, NoDigests)
    assert found.may_pass
    assert found.reason.startswith(f"registry {host} cannot be reached: ")


async def test_a_registry_that_is_not_there_may_come(tmp_path: Path) -> None:
    async with Registry(says("200 OK")).running() as host:
        pass
    found = await looked_up(host, tmp_path)
    assert isinstance(found, NoDigests)
    assert found.may_pass


async def test_a_certificate_of_somebody_else_gets_no_token(tmp_path: Path) -> None:
    registry = Registry(says("200 OK", INDEX, content_type=INDEX_TYPES[0]))
    async with registry.running(trustme.CA()) as host:
        found = await looked_up(host, tmp_path)
    assert isinstance(found, NoDigests)
    assert found.reason.startswith(f"the certificate of registry {host} is not trusted: ")
    assert not found.may_pass
    assert registry.requests == []


async def test_who_is_not_listed_is_not_asked(tmp_path: Path) -> None:
    registry = Registry(says("200 OK", INDEX, content_type=INDEX_TYPES[0]))
    async with registry.running() as host:
        for hosts in ((), ("registry.example.org",), (host.partition(":")[0],), (f"x{host}",)):
            found = await looked_up(host, tmp_path, hosts=hosts)
            assert found == NoDigests(
                f"registry {host} may not be asked; who runs the cloud lists it under digests.hosts"
            )
    assert registry.requests == []


async def test_plain_http_is_never_spoken(tmp_path: Path) -> None:
    heard = bytearray()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.read(4096))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        found = await looked_up(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", tmp_path)
    assert isinstance(found, NoDigests)
    assert heard[:1] == b"\x16", "a TLS handshake and nothing else"
    assert TOKEN.encode() not in heard


async def test_a_token_that_no_header_can_hold_is_refused(tmp_path: Path) -> None:
    async with Registry(says("200 OK")).running() as host:
        found = await looked_up(host, tmp_path, token="ü\u2603")
    assert found == NoDigests("spec.imageDigestGatter.registryAPI: the token holds what no header can")


async def test_one_that_hangs_does_not_hold_up_the_others(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    CA.cert_pem.write_to_path(str(ca))

    async def hang(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    good = Registry(says("200 OK", INDEX, content_type=INDEX_TYPES[0]))
    async with Registry(hang).running() as slow, good.running() as quick:
        config = Config(hosts=(slow, quick), ca_file=str(ca))
        async with alone(DigestsModule(config), world=World()) as peers:
            first = asyncio.create_task(
                peers.ask(LookUpDigests(host=slow, token="", image="a/b", version="v1.0.0"), 20)
            )
            found = await peers.ask(LookUpDigests(host=quick, token="", image="a/b", version="v1.0.0"), 3)
            assert isinstance(found, Digests)
            assert not first.done()
            first.cancel()


# ---- pure --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("image", "whole"), vector("rule_v1alpha1_image_repo").items())
def test_repositories_are_read_as_docker_reads_them(image: str, whole: str) -> None:
    """KubeEdge's own look-up loses the registry (spec/kubeedge.md 4.7); ours asks the one that the job names."""
    assert repository(image) == whole.partition("/")[2]


def test_the_tag_is_made_from_the_version() -> None:
    assert path("r.io:5000/a/b/c:v9@sha256:0", "1.12.1") == "/v2/a/b/c/manifests/v1.12.1"


@pytest.mark.parametrize(
    ("listed", "asked", "allowed"),
    [
        ("r.io", "R.IO", True),
        ("r.io", "r.io:443", True),
        ("r.io:443", "r.io", True),
        ("r.io", "r.io:5000", False),
        ("r.io", "r.io.evil.example", False),
        ("r.io", "evil.r.io", False),
        ("[::1]:5000", "[::1]:5000", True),
    ],
)
def test_hosts_are_compared_exactly(listed: str, asked: str, allowed: bool) -> None:
    assert Config(hosts=(listed,)).allows(asked) is allowed
    assert address(address(asked)) == address(asked)


@pytest.mark.parametrize("host", ["https://r.io", "r.io/path", "*.r.io", "", "u:p@r.io"])
def test_what_is_no_host_is_refused_at_the_start(host: str) -> None:
    with pytest.raises(ConfigError, match="hosts"):
        DigestsModule(Config(hosts=(host,)))
