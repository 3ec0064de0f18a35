"""The image client against Debian's docker-registry, its images pushed by skopeo."""

import base64
import contextlib
import hashlib
import json
import random
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from beehive.errors import Refused, Unavailable
from modules.upgrader.images import (
    Access,
    ArchiveSource,
    Credentials,
    Fetched,
    ImageRequest,
    LayoutSource,
    RegistrySource,
    Source,
    WantedFile,
    fetch,
    resolve,
)
from tests.real.running.images import OciLayout, installation_package
from tests.real.running.registry import PASSWORD, USER, Registry
from tests.real.running.standins import standin

VERSION = "v1.23.0"
REPOSITORY = "kubeedge/installation-package"
EDGECORE = "/usr/local/bin/edgecore"
ARM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00" + b"a program for arm64"
BIG = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\x3e\x00" + random.Random(7).randbytes(8_000_000)


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> OciLayout:
    """An index with amd64 (the real program of the tests) and arm64."""
    made = OciLayout(tmp_path_factory.mktemp("images") / "layout")
    images = {"amd64": installation_package(standin(VERSION)), "arm64": installation_package(ARM)}
    made.add_index(VERSION, images)
    made.add("v1.30.4-k3s1", installation_package(BIG))
    return made


def digest_of(layout: OciLayout, tag: str = VERSION) -> str:
    entries = json.loads((layout.folder / "index.json").read_text())["manifests"]
    return next(
        str(entry["digest"]) for entry in entries if entry["annotations"]["org.opencontainers.image.ref.name"] == tag
    )


def asked(version: str = VERSION, architecture: str = "amd64", pin: str = "", image: str = "") -> ImageRequest:
    return ImageRequest(image=image or REPOSITORY, version=version, architecture=architecture, pin=pin)


def plain(registry: Registry) -> Access:
    return Access(plain_http=(registry.address,), pause=0.01)


async def take(tmp_path: Path, request: ImageRequest, access: Access, *sources: Source) -> Fetched:
    files = [WantedFile(path=EDGECORE, to=tmp_path / "host" / "edgecore")]
    return await fetch(request, files, sources, tmp_path / "work", access=access)


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
async def test_each_architecture_gets_its_own_program(
    registry: Registry, layout: OciLayout, tmp_path: Path, architecture: str
) -> None:
    registry.push_layout(layout, REPOSITORY, VERSION)
    image = f"{registry.address}/{REPOSITORY}:ignored"
    done = await take(tmp_path, asked(architecture=architecture, image=image), plain(registry), RegistrySource())
    expected = standin(VERSION).read_bytes() if architecture == "amd64" else ARM
    assert (tmp_path / "host" / "edgecore").read_bytes() == expected
    assert done.files[0].sha256 == f"sha256:{hashlib.sha256(expected).hexdigest()}"
    assert done.image.index_digest == digest_of(layout)
    assert done.received == done.image.size
    assert done.image.reference == f"{registry.address}/{REPOSITORY}:{VERSION}"


async def test_skopeo_and_we_mean_the_same_by_index_and_manifest(registry: Registry, layout: OciLayout) -> None:
    registry.push_layout(layout, REPOSITORY, VERSION)
    place = f"docker://{registry.address}/{REPOSITORY}:{VERSION}"
    raw = json.loads(registry.skopeo("inspect", "--tls-verify=false", "--raw", place))
    for entry in raw["manifests"]:
        architecture = str(entry["platform"]["architecture"])
        found = await resolve(
            asked(architecture=architecture), [RegistrySource(host=registry.address)], access=plain(registry)
        )
        assert found.manifest_digest == entry["digest"]
        for pin in (found.index_digest, found.manifest_digest):
            pinned = asked(architecture=architecture, pin=str(pin))
            again = await resolve(pinned, [RegistrySource(host=registry.address)], access=plain(registry))
            assert (again.manifest_digest, again.size) == (found.manifest_digest, found.size)


async def test_what_is_not_there_is_refused(registry: Registry, layout: OciLayout, tmp_path: Path) -> None:
    registry.push_layout(layout, REPOSITORY, VERSION)
    source = RegistrySource(host=registry.address)
    wrong = [
        (asked("v9.9.9"), "has no such image"),
        (asked(image="no/such"), "has no such image"),
        (asked(architecture="riscv64"), "not built for riscv64, only for amd64/v1, arm64/v8"),
        (asked(pin="sha256:" + "1" * 64), f"its tag {VERSION} is {digest_of(layout)}"),
    ]
    for request, reason in wrong:
        with pytest.raises(Refused, match=reason):
            await take(tmp_path, request, plain(registry), source)
    assert list(tmp_path.iterdir()) == []


async def test_tls_own_authority_and_basic_authentication(
    secure_registry: Registry, layout: OciLayout, tmp_path: Path
) -> None:
    secure_registry.push_layout(layout, REPOSITORY, VERSION)
    source = RegistrySource(host=secure_registry.address)
    me = {secure_registry.address: Credentials(username=USER, password=PASSWORD)}
    stranger = {secure_registry.address: Credentials(username=USER, password="wrong")}
    ca_file = secure_registry.ca_file
    for access, reason in (
        (Access(credentials=me), "certificate of registry .* is not trusted"),
        (Access(ca_file=ca_file), "give credentials for it"),
        (Access(ca_file=ca_file, credentials=stranger), r"does not let us pull \(HTTP 401\)"),
    ):
        with pytest.raises(Refused, match=reason):
            await take(tmp_path, asked(), access, source)
    assert list(tmp_path.iterdir()) == []
    await take(tmp_path, asked(), Access(ca_file=ca_file, credentials=me), source)
    assert (tmp_path / "host" / "edgecore").read_bytes() == standin(VERSION).read_bytes()


async def test_zstd_layers(registry: Registry, layout: OciLayout, tmp_path: Path) -> None:
    packed, loose = tmp_path / "packed", tmp_path / "loose"
    registry.skopeo("copy", "--dest-decompress", f"oci:{layout.folder}:v1.30.4-k3s1", f"dir:{loose}")
    registry.skopeo("copy", "--dest-compress-format=zstd", f"dir:{loose}", f"oci:{packed}:v1.30.4-k3s1")
    blobs = [path.read_bytes() for path in (packed / "blobs" / "sha256").iterdir()]
    assert sum(blob.startswith(b"\x28\xb5\x2f\xfd") for blob in blobs) == 2
    registry.copy(f"oci:{packed}:v1.30.4-k3s1", "rancher/k3s", "v1.30.4-k3s1")
    request = asked("v1.30.4+k3s1", image="rancher/k3s")
    await take(tmp_path, request, plain(registry), RegistrySource(host=registry.address))
    assert (tmp_path / "host" / "edgecore").read_bytes() == BIG


@pytest.mark.parametrize("kind", ["oci", "oci-archive", "docker-archive"])
async def test_local_sources_that_skopeo_wrote(
    registry: Registry, layout: OciLayout, tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "place"
    registry.skopeo("copy", f"oci:{layout.folder}:v1.30.4-k3s1", f"{kind}:{place}:{REPOSITORY}:{VERSION}")
    source = LayoutSource(directory=place) if kind == "oci" else ArchiveSource(file=place)
    done = await take(tmp_path, asked(), Access(), source)
    assert (tmp_path / "host" / "edgecore").read_bytes() == BIG
    digest = digest_of(layout, "v1.30.4-k3s1")
    if kind == "docker-archive":
        assert done.image.manifest_digest is None
        with pytest.raises(Refused, match="keeps no digest; use an OCI archive"):
            await take(tmp_path, asked(pin=digest), Access(), source)
    else:
        assert done.image.manifest_digest == digest
        await take(tmp_path, asked(pin=digest), Access(), source)


class CuttingProxy:
    """A TCP proxy that tears connections down after a number of bytes from the server."""

    def __init__(self, target: str, cuts: list[int]) -> None:
        host, _, port = target.partition(":")
        self._target = (host, int(port))
        self._cuts = iter(cuts)
        self.connections = 0
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            accepting = threading.Thread(target=self._accept, args=(server,))
            accepting.start()
            yield f"127.0.0.1:{server.getsockname()[1]}"
            server.shutdown(socket.SHUT_RDWR)
            for thread in [accepting, *self._threads]:
                thread.join(10)
                assert not thread.is_alive()
            for end in self._sockets:
                end.close()

    def _accept(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                self.connections += 1
                remote = socket.create_connection(self._target)
                self._sockets += [client, remote]
                pair = [(client, remote, None), (remote, client, next(self._cuts, None))]
                self._threads += [threading.Thread(target=self._pass_on, args=way) for way in pair]
                for thread in self._threads[-2:]:
                    thread.start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, cut: int | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if cut is not None and len(data) >= cut:
                    sink.sendall(data[:cut])
                    break
                cut = cut - len(data) if cut is not None else None
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


async def test_a_download_that_is_cut_again_and_again_is_resumed(
    registry: Registry, layout: OciLayout, tmp_path: Path
) -> None:
    registry.push_layout(layout, REPOSITORY, "v1.30.4-k3s1")
    proxy = CuttingProxy(registry.address, [3_000_000, 1_500_000, 2_000_000, 100])
    with proxy.running() as address:
        access = Access(plain_http=(address,), pause=0.01)
        done = await take(tmp_path, asked("v1.30.4+k3s1"), access, RegistrySource(host=address))
    assert (tmp_path / "host" / "edgecore").read_bytes() == BIG
    assert proxy.connections >= 5
    assert done.image.size <= done.received <= 1.3 * done.image.size


async def test_a_registry_that_stops_in_the_middle_is_waited_for_by_the_next_call(
    layout: OciLayout, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    registry = Registry.started(tmp_path_factory.mktemp("own-registry"))
    registry.push_layout(layout, REPOSITORY, "v1.30.4-k3s1")
    proxy = CuttingProxy(registry.address, [5_000_000, *[0] * 50])
    try:
        with proxy.running() as address:
            access = Access(plain_http=(address,), pause=0.01)
            with pytest.raises(Unavailable, match="cannot be reached"):
                await take(tmp_path, asked("v1.30.4+k3s1"), access, RegistrySource(host=address))
        kept = sum(file.stat().st_size for file in (tmp_path / "work").iterdir())
        assert kept > 4_900_000
        assert not (tmp_path / "host").exists()
        registry.process.stop()
        with pytest.raises(Unavailable, match="cannot be reached"):
            await take(tmp_path, asked("v1.30.4+k3s1"), plain(registry), RegistrySource(host=registry.address))
        registry.start()
        done = await take(tmp_path, asked("v1.30.4+k3s1"), plain(registry), RegistrySource(host=registry.address))
    finally:
        registry.remove()
    assert kept + done.received <= 1.3 * done.image.size
    assert (tmp_path / "host" / "edgecore").read_bytes() == BIG
    assert not (tmp_path / "work").exists()


async def test_a_mirror_that_is_down_is_passed_over(registry: Registry, layout: OciLayout, tmp_path: Path) -> None:
    registry.push_layout(layout, f"mirror/{REPOSITORY}", VERSION)
    sources = [RegistrySource(host="127.0.0.1:9"), RegistrySource(host=registry.address, prefix="mirror/")]
    done = await take(tmp_path, asked(pin=digest_of(layout)), plain(registry), *sources)
    assert done.image.source == f"Registry {registry.address}"


async def test_a_blob_damaged_in_the_registry_is_refused(
    layout: OciLayout, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damaged-registry")
    registry = Registry.started(folder)
    try:
        registry.push_layout(layout, REPOSITORY, VERSION)
        largest = max(folder.glob("images/**/data"), key=lambda path: path.stat().st_size)
        content = bytearray(largest.read_bytes())
        content[len(content) // 2] ^= 1
        largest.write_bytes(content)
        with pytest.raises(Refused, match="does not have its digest"):
            await take(tmp_path, asked(), plain(registry), RegistrySource(host=registry.address))
    finally:
        registry.remove()
    assert list(tmp_path.iterdir()) == []


class TokenServer:
    """Signs tokens as docker-registry wants them (JWT with the certificate in its header)."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tokens")])
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(name, name, self._key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.bundle = folder / "tokens.pem"
        self.bundle.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        self.asked: list[tuple[str, str | None]] = []

    def token(self, scope: str) -> str:
        _, name, actions = scope.split(":")
        now = datetime.now(UTC)
        access = [{"type": "repository", "name": name, "actions": actions.split(",")}]
        claims = {"iss": "tokens", "sub": "", "aud": "test", "exp": now + timedelta(minutes=5), "nbf": now, "iat": now}
        der = base64.b64encode(self._certificate.public_bytes(serialization.Encoding.DER)).decode()
        more = {"jti": "1", "access": access}
        return jwt.encode(claims | more, self._key, algorithm="ES256", headers={"x5c": [der]})

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = dict(parse_qsl(urlsplit(self.path).query))
                owner.asked.append((query["scope"], self.headers.get("Authorization")))
                body = json.dumps({"token": owner.token(query["scope"])}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' name
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            yield f"127.0.0.1:{server.server_address[1]}"
            server.shutdown()
            thread.join()


async def test_bearer_tokens_of_a_real_registry(
    layout: OciLayout, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("token-registry")
    registry, tokens = Registry.started(folder), TokenServer(folder)
    try:
        registry.push_layout(layout, REPOSITORY, VERSION)
        registry.process.stop()
        with tokens.running() as address:
            more = f"realm: 'http://{address}/token', service: test, issuer: tokens, rootcertbundle: {tokens.bundle}"
            with (folder / "config.yml").open("a") as config:
                config.write(f"auth: {{token: {{{more}}}}}\n")
            registry.start()
            source = RegistrySource(host=registry.address)
            with pytest.raises(Refused, match=f"wants to speak to {address} without TLS"):
                await take(tmp_path, asked(), plain(registry), source)
            access = Access(plain_http=(registry.address, address), pause=0.01)
            await take(tmp_path, asked(), access, source)
    finally:
        registry.remove()
    assert (tmp_path / "host" / "edgecore").read_bytes() == standin(VERSION).read_bytes()
    assert tokens.asked == [(f"repository:{REPOSITORY}:pull", None)]
