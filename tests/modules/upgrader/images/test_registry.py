"""Registries: authentication, redirects, TLS, cuts, lies. Each test has a real HTTP server on loopback."""

import asyncio
import base64
import json
import random
import re
import ssl
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import pytest
import trustme

from beehive.errors import Refused, Unavailable
from modules.upgrader.images import (
    Access,
    Credentials,
    Fetched,
    LayoutSource,
    RegistrySource,
    Resolved,
    Source,
    fetch,
    resolve,
)
from tests.modules.upgrader.images.building import KEADM, Layout, file, program, request, tar, tree, wanted
from tests.modules.upgrader.images.fake_registry import Answer, Asked, Change, FakeRegistry

PROGRAM = program(text=random.Random(1).randbytes(3_000_000))
Case = tuple[Layout, FakeRegistry, Path]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "layout")
    plain = tar(file(KEADM.lstrip("/"), PROGRAM))
    other = tar(file(KEADM.lstrip("/"), program("arm64")))
    made.name(made.index(made.manifest([plain], how=""), made.manifest([other], "arm64")))
    return made


def access(*registries: FakeRegistry, **changes: object) -> Access:
    plain = tuple(registry.address for registry in registries)
    return msgspec.structs.replace(Access(plain_http=plain, attempts=4, pause=0.001, read_timeout=5), **changes)


async def take(tmp_path: Path, how: Access, *sources: Source, **changes: str) -> Fetched:
    return await fetch(request(**changes), [wanted(tmp_path / "out" / "keadm")], sources, tmp_path / "work", access=how)


async def pull(tmp_path: Path, registry: FakeRegistry, how: Access | None = None, **changes: str) -> Fetched:
    return await take(tmp_path, how or access(registry), RegistrySource(host=registry.address), **changes)


async def refusal(tmp_path: Path, registry: FakeRegistry, how: Access | None = None, **changes: str) -> str:
    """Why it is refused; fails unless nothing was left."""
    before = tree(tmp_path)
    with pytest.raises(Refused) as caught:
        await pull(tmp_path, registry, how, **changes)
    assert tree(tmp_path) == before
    assert "\n" not in caught.value.reason
    return caught.value.reason


def blobs_only(change: Change) -> Change:
    return lambda asked, answer: change(asked, answer) if _is_layer(asked, answer) else answer


def _is_layer(asked: Asked, answer: Answer) -> bool:
    return "/blobs/" in asked.path and not answer.body.startswith(b"{")


def bearer(token: str, realm: str) -> Change:
    """Asks for a bearer token and hands it out at `realm`'s path `/token/`."""

    def change(asked: Asked, answer: Answer) -> Answer:
        if asked.path.startswith("/token/"):
            return Answer(200, {}, json.dumps({"token": token}).encode())
        if asked.headers.get("authorization") == f"Bearer {token}":
            return answer
        challenge = f'Bearer realm="{realm}/token/",service="registry.test",scope="repository:x:pull"'
        return Answer(401, {"WWW-Authenticate": challenge})

    return change


async def test_an_image_is_found_and_its_file_placed(layout: Layout, tmp_path: Path) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        done = await pull(tmp_path, registry)
    assert (tmp_path / "out" / "keadm").read_bytes() == PROGRAM
    assert done.received == done.image.size == registry.sent - _config_size(layout, done.image)
    assert done.image.source == f"Registry {registry.address}"
    assert not (tmp_path / "work").exists()


def _config_size(layout: Layout, image: Resolved) -> int:
    manifest = json.loads(layout.path(str(image.manifest_digest)).read_bytes())
    return int(manifest["config"]["size"])


async def test_looking_downloads_no_layer_and_writes_nothing(layout: Layout, tmp_path: Path) -> None:
    before = tree(tmp_path)
    async with FakeRegistry(layout.directory).running() as registry:
        found = await resolve(request(), [RegistrySource(host=registry.address)], access=access(registry))
    assert found.layers == 1
    assert found.size > len(PROGRAM)
    assert registry.sent < 1000
    assert tree(tmp_path) == before


@pytest.mark.parametrize("which", ["index", "manifest"])
async def test_a_pin_may_name_index_or_manifest(layout: Layout, tmp_path: Path, which: str) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        source = RegistrySource(host=registry.address)
        free = await resolve(request(), [source], access=access(registry))
        pin = {"index": free.index_digest, "manifest": free.manifest_digest}[which]
        done = await pull(tmp_path, registry, pin=str(pin))
    assert done.image.manifest_digest == free.manifest_digest
    assert f"/manifests/{pin}" in registry.requests("manifests")[-2 if which == "index" else -1].path


async def test_a_tag_that_moves_between_check_and_use_has_no_effect(layout: Layout, tmp_path: Path) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        checked = await resolve(request(), [RegistrySource(host=registry.address)], access=access(registry))
        layout._entries.clear()
        layout.add(tar(file(KEADM.lstrip("/"), program(text=b"evil"))))
        done = await pull(tmp_path, registry, pin=str(checked.manifest_digest))
    assert (tmp_path / "out" / "keadm").read_bytes() == PROGRAM
    assert done.image.manifest_digest == checked.manifest_digest


async def test_a_wrong_pin_is_refused_and_both_digests_said(layout: Layout, tmp_path: Path) -> None:
    pin = "sha256:" + "5" * 64
    async with FakeRegistry(layout.directory).running() as registry:
        found = await resolve(request(), [RegistrySource(host=registry.address)], access=access(registry))
        reason = await refusal(tmp_path, registry, pin=pin)
    assert reason.endswith(f"nothing with the pinned digest {pin}; its tag v1.23.0 is {found.index_digest}.")


async def test_a_registry_that_hands_out_something_else_for_a_pin(layout: Layout, tmp_path: Path) -> None:
    pin = "sha256:" + "5" * 64
    other = layout.path(str(json.loads((layout.directory / "index.json").read_bytes())["manifests"][0]["digest"]))

    def lie(asked: Asked, answer: Answer) -> Answer:
        return Answer(200, {}, other.read_bytes()) if asked.path.endswith(pin) else answer

    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = lie
        assert f"where {pin} is pinned" in await refusal(tmp_path, registry, pin=pin)


async def test_a_missing_tag_is_refused(layout: Layout, tmp_path: Path) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        assert "has no such image" in await refusal(tmp_path, registry, version="v9.9.9")


@pytest.mark.parametrize("login", [None, Credentials(username="bee", password="hive:ö")])
async def test_bearer_tokens_are_fetched_and_sent(layout: Layout, tmp_path: Path, login: Credentials | None) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = bearer("t0ken", f"http://{registry.address}")
        credentials = {registry.address: login} if login else {}
        await pull(tmp_path, registry, access(registry, credentials=credentials))
    token_request = registry.requests("token")[0]
    assert len(registry.requests("token")) == 1, "one token serves all requests"
    assert token_request.path == "/token/?service=registry.test&scope=repository%3Ax%3Apull"
    expected = f"Basic {base64.b64encode('bee:hive:ö'.encode()).decode()}" if login else None
    assert token_request.headers.get("authorization") == expected


async def test_a_token_that_expires_is_replaced(layout: Layout, tmp_path: Path) -> None:
    tokens = iter(["first", "second"])

    async with FakeRegistry(layout.directory).running() as registry:
        realm = f"http://{registry.address}"
        valid = bearer(next(tokens), realm)

        def change(asked: Asked, answer: Answer) -> Answer:
            nonlocal valid
            if "/blobs/" in asked.path and not registry.requests("blobs")[1:]:
                valid = bearer(next(tokens, "second"), realm)
            return valid(asked, answer)

        registry.change = change
        await pull(tmp_path, registry)
    assert len(registry.requests("token")) == 2


async def test_basic_authentication(layout: Layout, tmp_path: Path) -> None:
    expected = f"Basic {base64.b64encode(b'bee:hive').decode()}"

    def change(asked: Asked, answer: Answer) -> Answer:
        right = asked.headers.get("authorization") == expected
        return answer if right else Answer(401, {"WWW-Authenticate": 'Basic realm="test"'})

    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = change
        assert "give credentials for it" in await refusal(tmp_path, registry)
        elsewhere = access(registry, credentials={"other.example": Credentials(username="bee", password="hive")})
        assert "give credentials for it" in await refusal(tmp_path, registry, elsewhere)
        assert not any("authorization" in asked.headers for asked in registry.asked)
        wrong = access(registry, credentials={registry.address: Credentials(username="bee", password="no")})
        assert "does not let us pull (HTTP 401)" in await refusal(tmp_path, registry, wrong)
        right = access(registry, credentials={registry.address: Credentials(username="bee", password="hive")})
        await pull(tmp_path, registry, right)
    assert (tmp_path / "out" / "keadm").exists()


def test_a_password_is_never_printed() -> None:
    assert "hive" not in repr(access(credentials={"h": Credentials(username="bee", password="hive")}))


CHALLENGES = [
    ("", "give credentials"),
    ("Negotiate", "give credentials"),
    ("Bearer", "does not say where to get one"),
    ('Bearer realm="ftp://h/x"', "does not say where to get one"),
    ('Bearer realm="http://user@h/x"', "does not say where to get one"),
    ('Bearer realm="file:///etc/passwd"', "does not say where to get one"),
    ('Bearer realm="http://token.example/x"', "wants to speak to token.example without TLS"),
]


@pytest.mark.parametrize(("challenge", "reason"), CHALLENGES)
async def test_challenges_that_lead_nowhere(layout: Layout, tmp_path: Path, challenge: str, reason: str) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = lambda *_: Answer(401, {"WWW-Authenticate": challenge} if challenge else {})
        assert reason in await refusal(tmp_path, registry)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"token": ""}', b'{"token": "a\\r\\nX: y"}', b'{"x":' + b"[" * 9999])
async def test_token_servers_that_hand_out_no_token(layout: Layout, tmp_path: Path, body: bytes) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        realm = f'Bearer realm="http://{registry.address}/token/"'
        registry.change = lambda asked, _: (
            Answer(200, {}, body) if "/token/" in asked.path else Answer(401, {"WWW-Authenticate": realm})
        )
        assert "something that is no token" in await refusal(tmp_path, registry)


async def test_an_authorisation_stays_with_its_registry(layout: Layout, tmp_path: Path) -> None:
    """Blobs are often stored elsewhere: the storage must not see the token."""
    async with (
        FakeRegistry(layout.directory).running() as registry,
        FakeRegistry(layout.directory).running() as storage,
    ):
        ask = bearer("t0ken", f"http://{registry.address}")

        def change(asked: Asked, answer: Answer) -> Answer:
            answer = ask(asked, answer)
            if "/blobs/" in asked.path and answer.status == 200:
                return Answer(307, {"Location": f"http://{storage.address}{asked.path}"})
            return answer

        registry.change = change
        await pull(tmp_path, registry, access(registry, storage))
    assert storage.requests("blobs")
    assert not any("authorization" in asked.headers for asked in storage.asked)
    assert all(asked.headers["authorization"] == "Bearer t0ken" for asked in registry.requests("blobs"))


async def test_a_storage_that_asks_for_credentials_gets_none(layout: Layout, tmp_path: Path) -> None:
    async with (
        FakeRegistry(layout.directory).running() as registry,
        FakeRegistry(layout.directory).running() as storage,
    ):
        registry.change = lambda asked, _: Answer(307, {"Location": f"http://{storage.address}{asked.path}"})
        storage.change = lambda *_: Answer(401, {"WWW-Authenticate": 'Basic realm="x"'})
        login = {registry.address: Credentials(username="bee", password="hive")}
        assert "HTTP 401" in await refusal(tmp_path, registry, access(registry, storage, credentials=login))
    assert not any("authorization" in asked.headers for asked in storage.asked)


async def test_a_storage_cannot_send_our_password_to_a_token_server_of_its_own(layout: Layout, tmp_path: Path) -> None:
    async with (
        FakeRegistry(layout.directory).running() as registry,
        FakeRegistry(layout.directory).running() as storage,
    ):
        registry.change = lambda asked, _: Answer(307, {"Location": f"http://{storage.address}{asked.path}"})
        storage.change = bearer("t0ken", f"http://{storage.address}")
        login = {registry.address: Credentials(username="bee", password="hive")}
        assert "HTTP 401" in await refusal(tmp_path, registry, access(registry, storage, credentials=login))
    assert not storage.requests("token")


REDIRECTS = [
    ("http://other.example/x", "wants to speak to other.example without TLS"),
    ("http://127.0.0.1:1/x", "wants to speak to 127.0.0.1:1 without TLS"),
    ("file:///etc/passwd", "address that cannot be used"),
    ("https://user:secret@other.example/x", "address that cannot be used"),
    ("", "without end"),
    ("/v2/again", "without end"),
    ("https://other.example:99999/x", "address that cannot be used"),
]


@pytest.mark.parametrize(("location", "reason"), REDIRECTS)
async def test_redirects_that_are_not_followed(layout: Layout, tmp_path: Path, location: str, reason: str) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = lambda *_: Answer(302, {"Location": location})
        assert reason in await refusal(tmp_path, registry)
    assert len(registry.asked) < 10


async def test_plain_http_is_never_spoken_to_a_registry_that_is_not_listed(layout: Layout, tmp_path: Path) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        with pytest.raises(Unavailable, match="cannot be reached"):
            await pull(tmp_path, registry, access(connect_timeout=0.2))
    assert registry.asked == [], "a TLS handshake is all that it saw"


def tls(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


async def test_an_own_authority_is_trusted_and_no_other(layout: Layout, tmp_path: Path) -> None:
    authority, ca_file = trustme.CA(), tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(str(ca_file))
    async with FakeRegistry(layout.directory).running(tls(authority, "127.0.0.1")) as registry:
        reason = await refusal(tmp_path, registry, access())
        assert "certificate of registry" in reason
        assert "is not trusted" in reason
        await pull(tmp_path, registry, access(ca_file=ca_file))
    async with FakeRegistry(layout.directory).running(tls(authority, "registry.example")) as registry:
        assert "is not trusted" in await refusal(tmp_path, registry, access(ca_file=ca_file))
    assert registry.asked == []


async def test_a_broken_ca_file_is_named(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("nonsense")
    async with FakeRegistry(layout.directory).running() as registry:
        for ca_file in (tmp_path / "ca.crt", tmp_path / "none.crt"):
            assert f"{ca_file} cannot be read" in await refusal(tmp_path, registry, access(ca_file=ca_file))


async def test_https_does_not_lead_to_http(layout: Layout, tmp_path: Path) -> None:
    authority, ca_file = trustme.CA(), tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(str(ca_file))
    async with FakeRegistry(layout.directory).running(tls(authority, "127.0.0.1")) as registry:
        registry.change = lambda asked, _: Answer(302, {"Location": f"http://127.0.0.1:1{asked.path}"})
        assert "without TLS" in await refusal(tmp_path, registry, access(ca_file=ca_file))


async def test_a_cut_transfer_is_resumed_where_it_stopped(layout: Layout, tmp_path: Path) -> None:
    cuts = iter([1_000_000, 700_001, 1, 900_000])

    def change(_: Asked, answer: Answer) -> Answer:
        answer.cut_after = next(cuts, None)
        return answer

    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = blobs_only(change)
        done = await pull(tmp_path, registry)
    assert (tmp_path / "out" / "keadm").read_bytes() == PROGRAM
    ranges = [asked.headers.get("range") for asked in registry.requests("blobs")[1:]]
    assert ranges == [None, "bytes=1000000-", "bytes=1700001-", "bytes=1700002-", "bytes=2600002-"]
    assert done.received == done.image.size, "no byte came twice"


async def test_a_later_call_goes_on_where_an_earlier_one_gave_up(layout: Layout, tmp_path: Path) -> None:
    async with FakeRegistry(layout.directory).running() as registry:

        def dying(_: Asked, answer: Answer) -> Answer:
            answer.cut_after = 2_000_000 if answer.status == 200 else 0
            return answer

        registry.change = blobs_only(dying)
        with pytest.raises(Unavailable, match=r"cannot be reached|ended a layer"):
            await pull(tmp_path, registry)
        kept = list((tmp_path / "work").iterdir())
        assert [file.stat().st_size for file in kept] == [2_000_000]
        assert kept[0].stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "work").stat().st_mode & 0o777 == 0o700
        assert not (tmp_path / "out").exists()
        registry.change = lambda _, answer: answer
        before = registry.sent
        done = await pull(tmp_path, registry)
    assert registry.sent - before < done.image.size - 1_900_000
    assert registry.sent <= 1.3 * done.image.size
    assert not (tmp_path / "work").exists()


async def test_a_mirror_hands_over_to_the_registry_in_the_middle_of_a_layer(layout: Layout, tmp_path: Path) -> None:
    async with (
        FakeRegistry(layout.directory).running() as mirror,
        FakeRegistry(layout.directory).running() as registry,
    ):

        def dying(_: Asked, answer: Answer) -> Answer:
            answer.cut_after = 2_000_000 if answer.status == 200 else 0
            return answer

        mirror.change = blobs_only(dying)
        sources = [RegistrySource(host=mirror.address), RegistrySource(host=registry.address)]
        done = await take(tmp_path, access(mirror, registry), *sources)
    assert done.image.source == f"Registry {registry.address}"
    assert registry.requests("blobs")[-1].headers["range"] == "bytes=2000000-"
    assert (tmp_path / "out" / "keadm").read_bytes() == PROGRAM


async def test_damage_in_what_was_kept_is_noticed_and_mended(layout: Layout, tmp_path: Path) -> None:
    async with FakeRegistry(layout.directory).running() as registry:

        def dying(_: Asked, answer: Answer) -> Answer:
            answer.cut_after = 2_000_000 if answer.status == 200 else 0
            return answer

        registry.change = blobs_only(dying)
        with pytest.raises(Unavailable):
            await pull(tmp_path, registry)
        (kept,) = (tmp_path / "work").iterdir()
        kept.write_bytes(bytes(2_000_000))
        registry.change = lambda _, answer: answer
        await pull(tmp_path, registry)
    assert (tmp_path / "out" / "keadm").read_bytes() == PROGRAM


async def test_what_another_image_left_is_dropped(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / f"sha256-{'0' * 64}.part").write_bytes(b"x" * 1000)
    async with FakeRegistry(layout.directory).running() as registry:
        await pull(tmp_path, registry)
    assert not (tmp_path / "work").exists()


async def test_a_symlink_in_the_work_directory_is_not_followed(layout: Layout, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"x" * 10)
    documents = [path.read_bytes() for path in layout.directory.glob("blobs/sha256/*")]
    manifests = [json.loads(document) for document in documents if document.startswith(b"{")]
    digests = [str(manifest["layers"][0]["digest"]) for manifest in manifests if "layers" in manifest]
    (tmp_path / "work").mkdir()
    for digest in digests:
        (tmp_path / "work" / f"{digest.replace(':', '-')}.part").symlink_to(precious)
    async with FakeRegistry(layout.directory).running() as registry:
        with pytest.raises(Unavailable, match="cannot be used"):
            await pull(tmp_path, registry)
    assert precious.read_bytes() == b"x" * 10


async def test_a_server_that_knows_no_ranges_starts_over(layout: Layout, tmp_path: Path) -> None:
    cuts = iter([1_500_000])

    def change(asked: Asked, _: Answer) -> Answer:
        whole = layout.path(asked.path.rpartition("/")[2]).read_bytes()
        return Answer(200, {}, whole, cut_after=next(cuts, None))

    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = blobs_only(change)
        done = await pull(tmp_path, registry)
    assert (tmp_path / "out" / "keadm").read_bytes() == PROGRAM
    assert done.received == done.image.size + 1_500_000


async def test_a_server_that_answers_another_range_is_not_believed(layout: Layout, tmp_path: Path) -> None:
    cuts = iter([1_500_000])

    def change(asked: Asked, answer: Answer) -> Answer:
        answer.cut_after = next(cuts, None)
        if answer.status == 206:
            answer.headers["Content-Range"] = "bytes 0-9/10"
        return answer

    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = blobs_only(change)
        with pytest.raises(Unavailable, match="another part of a layer"):
            await pull(tmp_path, registry)


def flipped(_: Asked, answer: Answer) -> Answer:
    answer.body = answer.body[:-1] + bytes([answer.body[-1] ^ 1])
    return answer


def longer(_: Asked, answer: Answer) -> Answer:
    answer.body += b"x"
    return answer


def longer_unsaid(_: Asked, answer: Answer) -> Answer:
    answer.body += b"x"
    answer.length = -1
    return answer


def shorter(_: Asked, answer: Answer) -> Answer:
    answer.body = answer.body[:-1]
    return answer


LIES: list[tuple[Change, str]] = [
    (flipped, "does not have its digest sha256:"),
    (longer, "bytes where the manifest names"),
    (longer_unsaid, "more than the .* bytes that its manifest names"),
    (shorter, "bytes where the manifest names"),
]


@pytest.mark.parametrize(("lie", "reason"), LIES, ids=[lie.__name__ for lie, _ in LIES])
async def test_a_layer_that_is_not_what_its_manifest_names(
    layout: Layout, tmp_path: Path, lie: Change, reason: str
) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = blobs_only(lie)
        assert re.search(reason, await refusal(tmp_path, registry))
        assert registry.sent < 1.1 * len(PROGRAM), "a lie is not asked for again"


async def test_a_layer_that_ends_early_without_a_word_is_a_cut(layout: Layout, tmp_path: Path) -> None:
    def change(_: Asked, answer: Answer) -> Answer:
        answer.length, answer.cut_after = -1, 1_000_000
        return answer

    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = blobs_only(change)
        done = await pull(tmp_path, registry)
    assert done.received == done.image.size


def respaced(_: Asked, answer: Answer) -> Answer:
    """The same JSON in other bytes."""
    answer.body = answer.body.replace(b": ", b":\t", 1)
    answer.headers.pop("Docker-Content-Digest", None)
    return answer


def padded(_: Asked, answer: Answer) -> Answer:
    answer.body += b" "
    answer.headers.pop("Docker-Content-Digest", None)
    return answer


@pytest.mark.parametrize("lie", [flipped, shorter, respaced, padded])
async def test_manifests_and_configurations_are_verified(layout: Layout, tmp_path: Path, lie: Change) -> None:
    parts: list[Callable[[Asked, Answer], bool]] = [
        lambda asked, _: "/manifests/sha256" in asked.path,
        lambda asked, answer: "/blobs/" in asked.path and not _is_layer(asked, answer),
    ]
    async with FakeRegistry(layout.directory).running() as registry:
        for part in parts:
            registry.change = lambda asked, answer, part=part: lie(asked, answer) if part(asked, answer) else answer  # type: ignore[misc]
            await refusal(tmp_path, registry)


@pytest.mark.parametrize("lie", [flipped, shorter, padded])
async def test_a_tags_document_must_have_the_digest_that_it_is_announced_with(
    layout: Layout, tmp_path: Path, lie: Change
) -> None:
    def change(asked: Asked, answer: Answer) -> Answer:
        stated = dict(answer.headers)
        answer = lie(asked, answer) if "/manifests/v" in asked.path else answer
        answer.headers = stated
        return answer

    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = change
        assert "the digest it was announced with" in await refusal(tmp_path, registry)


async def test_a_manifest_without_end_is_cut_short(layout: Layout, tmp_path: Path) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = lambda *_: Answer(200, {}, b" " * (5 << 20), length=-1)
        assert "more than the 4,194,304 bytes" in await refusal(tmp_path, registry)


@pytest.mark.parametrize("status", [429, 500, 503, 504])
async def test_what_may_pass_is_tried_again_and_then_said(layout: Layout, tmp_path: Path, status: int) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = lambda *_: Answer(status, {"Retry-After": "0"})
        with pytest.raises(Unavailable, match=f"not able to answer now .HTTP {status}.") as caught:
            await pull(tmp_path, registry)
        assert caught.value.retry_after == 0
        assert len(registry.asked) == 3
        hiccups = iter([Answer(status), Answer(status)])
        registry.change = lambda _, answer: next(hiccups, answer)
        await pull(tmp_path, registry)
    assert (tmp_path / "out" / "keadm").exists()


@pytest.mark.parametrize("status", [400, 403, 405, 451, 501])
async def test_what_does_not_pass_is_asked_once(layout: Layout, tmp_path: Path, status: int) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = lambda *_: Answer(status)
        assert f"HTTP {status}" in await refusal(tmp_path, registry)
    assert len(registry.asked) == 1


async def test_no_registry_at_all_may_pass(layout: Layout, tmp_path: Path) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        pass
    with pytest.raises(Unavailable, match=f"Registry {registry.address} cannot be reached"):
        await pull(tmp_path, registry)


async def test_silence_is_a_cut(layout: Layout, tmp_path: Path) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        never = asyncio.Event()

        def change(_: Asked, answer: Answer) -> Answer:
            answer.wait_for = never if not registry.requests("blobs")[2:] else None
            return answer

        registry.change = blobs_only(change)
        await pull(tmp_path, registry, access(registry, read_timeout=0.2))
        never.set()
    assert (tmp_path / "out" / "keadm").exists()


async def test_cancelling_keeps_what_came_and_places_nothing(layout: Layout, tmp_path: Path) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        never, waiting = asyncio.Event(), asyncio.Event()
        cuts = iter([1_234_567])

        def change(_: Asked, answer: Answer) -> Answer:
            answer.cut_after = next(cuts, None)
            if answer.cut_after is None:
                answer.wait_for = never
                waiting.set()
            return answer

        registry.change = blobs_only(change)
        async with anyio.create_task_group() as group:
            group.start_soon(pull, tmp_path, registry)
            with anyio.fail_after(10):
                await waiting.wait()
            group.cancel_scope.cancel()
        never.set()
    assert not (tmp_path / "out").exists()
    assert [file.stat().st_size for file in (tmp_path / "work").iterdir()] == [1_234_567]


async def test_mirrors_come_first_and_all_failures_are_told(layout: Layout, tmp_path: Path) -> None:
    empty = Layout(tmp_path / "empty")
    empty.write_index()
    async with (
        FakeRegistry(layout.directory, "hub/kubeedge/installation-package").running() as mirror,
        FakeRegistry(empty.directory).running() as registry,
    ):
        sources: list[Source] = [
            LayoutSource(directory=tmp_path / "none"),
            RegistrySource(host="quay.example", mirrors="quay.io"),
            RegistrySource(host=mirror.address, prefix="hub/", mirrors="docker.io"),
            RegistrySource(host=registry.address),
        ]
        with pytest.raises(Refused) as caught:
            await take(tmp_path, access(mirror, registry), *sources)
        layout._entries.clear()
        layout.name(
            layout.index(layout.manifest([tar(file(KEADM, PROGRAM))])), "hub/kubeedge/installation-package:v1.23.0"
        )
        done = await take(tmp_path, access(mirror, registry), *sources)
    for part in (f"There is no {tmp_path}/none/index.json", mirror.address, registry.address):
        assert part in caught.value.reason
    assert "quay" not in caught.value.reason
    assert done.image.source == f"Registry {mirror.address}"
    assert done.image.reference == "docker.io/kubeedge/installation-package:v1.23.0"


async def test_one_source_that_may_recover_makes_the_failure_pass(layout: Layout, tmp_path: Path) -> None:
    async with FakeRegistry(layout.directory).running() as registry:
        registry.change = lambda *_: Answer(503)
        with pytest.raises(Unavailable, match=r"There is no .*HTTP 503"):
            await take(
                tmp_path,
                access(registry),
                LayoutSource(directory=tmp_path / "none"),
                RegistrySource(host=registry.address),
            )


async def test_the_loop_is_never_blocked(tmp_path: Path) -> None:
    """While 24 MB are verified and unpacked, another task is served all the time."""
    layout = Layout(tmp_path / "layout")
    layout.add(tar(file(KEADM.lstrip("/"), program(text=random.Random(2).randbytes(8_000_000) * 3))))
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        last = asyncio.get_running_loop().time()
        while True:
            await anyio.sleep(0.005)
            now = asyncio.get_running_loop().time()
            longest, last = max(longest, now - last), now

    async with FakeRegistry(layout.directory).running() as registry, anyio.create_task_group() as group:
        await pull(tmp_path, registry)  # httpx is imported, the server has read its file
        group.start_soon(watch)
        await take(tmp_path, access(), LayoutSource(directory=layout.directory))
        group.cancel_scope.cancel()
    assert longest < 0.5
