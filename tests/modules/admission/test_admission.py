"""The webhook on a real bus and over real TLS on loopback; the API server's Secrets are in memory."""

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from beehive.config import Duration
from beehive.errors import RuntimeFailed
from beehive.messages.objects import Away, Denied, GetSecret, Missing, Patched, PatchObject, PutSecret, Secret, Stale
from beehive.world import World
from modules.admission import review
from modules.admission.certificates import Pair, is_good, make_ca, make_server
from modules.admission.config import Config, Files, Register
from modules.admission.module import Admission
from tests.fakes.alone import Peers, alone
from tests.rules.test_review import job, request
from tests.rules.test_review import review as asked

WORLD = World()


class Secrets:
    """One Secret, by compare and swap."""

    def __init__(self, **data: bytes) -> None:
        self.data, self.version = dict(data), 1 if data else 0
        self.away = 0
        """How often the API server is away before it answers."""
        self.stale = 0
        """How many writes lose a race."""

    def get(self, _: GetSecret) -> Secret | Away:
        if self.away:
            self.away -= 1
            return Away("the API server at https://127.0.0.1:6443: connection refused")
        return Secret(dict(self.data), str(self.version) if self.version else "")

    def put(self, wanted: PutSecret) -> Patched | Stale:
        if self.stale:
            self.stale -= 1
            self.version += 1
            return Stale()
        assert wanted.resource_version == (str(self.version) if self.version else "")
        self.data, self.version = dict(wanted.data), self.version + 1
        return Patched()


def config(**more: Any) -> Config:
    return Config(address="127.0.0.1", port=0, retry_first=Duration(0.01), retry_cap=Duration(0.05), **more)


@asynccontextmanager
async def serving(module: Admission, secrets: Secrets) -> AsyncIterator[Peers]:
    """The module at work, its webhook answering."""
    async with alone(module, name="admission", world=WORLD) as peers:
        peers.answer(GetSecret, secrets.get)
        peers.answer(PutSecret, secrets.put)
        await until(lambda: module.ca and not peers.module.waits_for and _listens(module.port))
        yield peers


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def until(check: Any) -> None:
    """Wait until `check()` holds."""
    async with asyncio.timeout(20):
        while not check():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.01)


def client(module: Admission) -> httpx.AsyncClient:
    """Trusts the module's CA alone, as the API server does."""
    trust = ssl.create_default_context(cadata=module.ca.decode())
    return httpx.AsyncClient(verify=trust, base_url=f"https://127.0.0.1:{module.port}", trust_env=False)


JSON = {"content-type": "application/json"}


async def test_it_answers_at_its_own_path_and_at_kubeedges() -> None:
    module = Admission(config(), WORLD)
    async with serving(module, Secrets()), client(module) as http:
        for path in ("/validate", "/nodeupgradejobs"):
            good = await http.post(path, content=asked(request(new=job())), headers=JSON)
            assert (good.status_code, good.headers["content-type"]) == (200, "application/json")
            assert good.json()["response"]["allowed"] is True
            bad = await http.post(path, content=asked(request(new=job(version="latest"))), headers=JSON)
            assert bad.json()["response"]["status"]["message"] == "invalid version latest"
        assert module.counters == {200: 4}


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", "/validate", b"{", JSON, 400),
        ("POST", "/validate", b"{}", {"content-type": "text/plain"}, 415),
        ("POST", "/validate", b"{}", {}, 415),
        ("POST", "/validate", b"x" * (review.MOST_BYTES + 1), JSON, 413),
        ("POST", "/validate", b"", JSON, 400),
        ("GET", "/validate", None, {}, 405),
        ("POST", "/../etc/passwd", b"{}", JSON, 404),
    ],
    ids=str,
)
async def test_a_bad_request_gets_a_sentence_and_the_next_is_served(
    method: str, path: str, body: bytes | None, headers: dict[str, str], status: int
) -> None:
    module = Admission(config(), WORLD)
    async with serving(module, Secrets()), client(module) as http:
        answer = await http.request(method, path, content=body, headers=headers)
        assert answer.status_code == status
        assert "Traceback" not in answer.text
        good = await http.post("/validate", content=asked(request(new=job())), headers=JSON)
        assert good.status_code == 200


async def test_a_bug_in_a_rule_spoils_one_review_and_its_id_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def trips(_: object) -> None:
        raise ZeroDivisionError("a bug")

    module = Admission(config(), WORLD)
    async with serving(module, Secrets()), client(module) as http:
        with monkeypatch.context() as patched:
            patched.setattr(review, "judge", trips)
            answer = await http.post("/validate", content=asked(request(new=job())), headers=JSON)
        assert answer.status_code == 500
        assert answer.text.startswith("internal error ")
        assert "ZeroDivisionError" not in answer.text
        incident = answer.text.split()[2].rstrip(";")
        assert incident in caplog.text
        good = await http.post("/validate", content=asked(request(new=job())), headers=JSON)
        assert good.status_code == 200
        assert module.counters == {500: 1, 200: 1}


async def test_many_reviews_at_once() -> None:
    module = Admission(config(), WORLD)
    body = asked(request(new=job(nodeNames=[f"edge-{i}" for i in range(100)])))
    async with serving(module, Secrets()), client(module) as http:
        answers = await asyncio.gather(*(http.post("/validate", content=body, headers=JSON) for _ in range(100)))
    assert {one.status_code for one in answers} == {200}


async def test_a_body_that_never_ends_and_a_peer_that_speaks_no_tls_stop_nobody() -> None:
    module = Admission(config(), WORLD)
    async with serving(module, Secrets()), client(module) as http:
        _, plain = await asyncio.open_connection("127.0.0.1", module.port)
        plain.write(b"GET / HTTP/1.1\r\n\r\n")
        trust = ssl.create_default_context(cadata=module.ca.decode())
        _, slow = await asyncio.open_connection("127.0.0.1", module.port, ssl=trust)
        slow.write(
            b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"
        )
        await slow.drain()
        good = await http.post("/validate", content=asked(request(new=job())), headers=JSON)
        assert good.status_code == 200
        for writer in (plain, slow):
            writer.transport.abort()


# ---- certificates ------------------------------------------------------------------------------------------------


async def test_replicas_share_one_ca_and_a_lost_race_is_run_again() -> None:
    secrets = Secrets()
    secrets.stale = 3
    first, second = Admission(config(), WORLD), Admission(config(), WORLD)
    async with serving(first, secrets), serving(second, secrets):
        assert first.ca == second.ca == secrets.data["ca.crt"]


async def test_a_broken_secret_is_made_anew_and_other_keys_in_it_stay() -> None:
    secrets = Secrets(**{"ca.crt": b"no", "ca.key": b"no", "tls.crt": b"no", "tls.key": b"no", "mine": b"stays"})
    module = Admission(config(), WORLD)
    async with serving(module, secrets), client(module) as http:
        assert (await http.post("/validate", content=b"{}", headers=JSON)).status_code == 400
    assert secrets.data["mine"] == b"stays"


async def test_a_certificate_is_renewed_without_a_restart_and_calls_go_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    secrets = Secrets()
    module = Admission(config(look=Duration(0.05)), WORLD)
    async with serving(module, secrets), client(module) as http:
        before = await _shown(module)
        ca = Pair(secrets.data["ca.crt"], secrets.data["ca.key"])
        nearly_over = make_server(ca, ("127.0.0.1", "localhost"), WORLD.now() - 900, 1000)
        secrets.data |= {"tls.crt": nearly_over.certificate, "tls.key": nearly_over.key}
        await until(lambda: secrets.data["tls.crt"] != nearly_over.certificate)
        await until(lambda: "was renewed" in caplog.text)
        assert await _shown(module) not in (before, ssl.PEM_cert_to_DER_cert(nearly_over.certificate.decode()))
        answer = await http.post("/validate", content=asked(request(new=job())), headers=JSON)
        assert answer.status_code == 200
        assert module.ca == ca.certificate, "the CA stays: the API server goes on trusting"


async def _shown(module: Admission) -> bytes:
    trust = ssl.create_default_context(cadata=module.ca.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", module.port, ssl=trust)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(True)
    writer.transport.abort()
    return shown


async def test_it_is_ready_at_once_and_says_what_it_waits_for() -> None:
    secrets = Secrets()
    secrets.away = 10**9
    module = Admission(config(), WORLD)
    async with alone(module, name="admission", world=WORLD) as peers:
        peers.answer(GetSecret, secrets.get)
        peers.answer(PutSecret, secrets.put)
        waits = "its certificate: the API server at https://127.0.0.1:6443: connection refused"
        await until(lambda: peers.module.waits_for == waits)
        secrets.away = 0
        await until(lambda: peers.module.waits_for == "")
        async with client(module) as http:
            assert (await http.post("/validate", content=b"{}", headers=JSON)).status_code == 400


async def test_files_of_somebody_else_are_used_and_what_is_wrong_with_them_is_told(tmp_path: Path) -> None:
    ca = make_ca(WORLD.now())
    server = make_server(ca, ("127.0.0.1",), WORLD.now(), 3600)
    files = Files(certificate=str(tmp_path / "c"), key=str(tmp_path / "k"), ca=str(tmp_path / "a"))
    module = Admission(config(files=files), WORLD)
    async with alone(module, name="admission", world=WORLD) as peers:
        missing = (
            f"its certificate: the webhook's certificate cannot be read: {tmp_path / 'c'}: No such file or directory"
        )
        await until(lambda: peers.module.waits_for == missing)
        (tmp_path / "k").write_bytes(make_ca(WORLD.now()).key)
        (tmp_path / "a").write_bytes(ca.certificate)
        (tmp_path / "c").write_bytes(server.certificate)
        await until(lambda: "its key cannot be used" in peers.module.waits_for)
        (tmp_path / "k").write_bytes(server.key)
        await until(lambda: peers.module.waits_for == "")
        async with client(module) as http:
            assert (await http.post("/validate", content=b"{}", headers=JSON)).status_code == 400


def test_a_certificate_is_good_only_for_its_names_its_ca_and_two_thirds_of_its_life() -> None:
    ca, other = make_ca(0), make_ca(0)
    pair = make_server(ca, ("a.svc", "::1"), 1e9, 90_000)
    assert is_good(ca, pair, ("a.svc", "::1"), 1e9)
    assert not is_good(ca, pair, ("a.svc", "b.svc"), 1e9)
    assert not is_good(other, pair, ("a.svc",), 1e9)
    assert not is_good(ca, pair, ("a.svc",), 1e9 + 70_000)
    assert not is_good(ca, Pair(pair.certificate, other.key), ("a.svc",), 1e9)


async def test_a_taken_port_ends_it_at_once_with_the_port_in_the_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        module = Admission(Config(address="127.0.0.1", port=port), WORLD)
        with pytest.raises(
            RuntimeFailed, match=f"Port {port} on 127.0.0.1 cannot be used: Address already in use. Set"
        ):
            await module.run(None)  # type: ignore[arg-type]


# ---- registration ------------------------------------------------------------------------------------------------


async def test_the_registration_is_kept_right_and_the_service_is_in_the_certificate() -> None:
    register = Register(service="beehive-admission", namespace="edge-system", service_port=9443)
    module = Admission(config(register=register, names=()), WORLD)
    secrets = Secrets()
    async with alone(module, name="admission", world=WORLD) as peers:
        peers.answer(GetSecret, secrets.get)
        peers.answer(PutSecret, secrets.put)
        answers = [Away("not leading"), Patched()]
        peers.answer(PatchObject, lambda _: answers.pop(0))
        await peers.heard(PatchObject)
        patch = await peers.heard(PatchObject)
    assert patch.path == "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/beehive"
    (hook,) = patch.patch["webhooks"]
    assert hook["failurePolicy"] == "Ignore"
    assert hook["clientConfig"]["service"] == {
        "name": "beehive-admission", "namespace": "edge-system", "port": 9443, "path": "/validate"
    }  # fmt: skip
    assert base64.b64decode(hook["clientConfig"]["caBundle"]) == module.ca
    ca, server = Pair(secrets.data["ca.crt"]), Pair(secrets.data["tls.crt"], secrets.data["tls.key"])
    assert is_good(
        Pair(ca.certificate, secrets.data["ca.key"]), server, ("beehive-admission.edge-system.svc",), WORLD.now()
    )
    json.dumps(patch.patch)


@pytest.mark.parametrize(
    ("answer", "told"),
    [(Missing(), "this webhook is not asked"), (Denied("forbidden"), "cannot be kept right: forbidden")],
)
async def test_a_registration_that_cannot_be_kept_is_told_once(
    answer: object, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    module = Admission(config(register=Register(url="https://127.0.0.1:9443/")), WORLD)
    secrets = Secrets()
    async with alone(module, name="admission", world=WORLD) as peers:
        peers.answer(GetSecret, secrets.get)
        peers.answer(PutSecret, secrets.put)
        peers.answer(PatchObject, lambda _: answer)
        patch = await peers.heard(PatchObject)
        await until(lambda: told in caplog.text)
        assert patch.patch["webhooks"][0]["clientConfig"]["url"] == "https://127.0.0.1:9443/validate"


async def test_the_port_is_free_again_when_the_messages_end() -> None:
    module = Admission(config(), WORLD)
    async with serving(module, Secrets()):
        assert _listens(module.port)
    with socket.socket() as again:
        again.bind(("127.0.0.1", module.port))
