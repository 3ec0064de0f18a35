"""Where the webhook's certificate comes from, and how the API server learns of it."""

import asyncio
import base64
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from beehive.api.crd import crd
from beehive.config import Duration
from beehive.errors import RuntimeFailed
from beehive.messages.objects import (
    Away,
    Denied,
    Missing,
    Patched,
    PatchObject,
)
from modules.admission.certificates import Pair, is_good, make_ca, make_server
from modules.admission.config import Config, Files, Register
from modules.admission.module import Admission
from modules.admission.registration import patches, shipped
from tests.fakes.alone import alone
from tests.modules.admission.serving import JSON, WORLD, Secrets, answering, client, config, listens, serving, until
from tests.rules.test_review import job, request
from tests.rules.test_review import review as asked

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
        answering(peers, secrets)
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


async def test_a_new_ca_is_trusted_beside_the_old_one_before_it_is_shown() -> None:
    """Whoever asks at any moment meets a certificate that the registration trusts: no window in which calls fail."""
    secrets = Secrets()
    module = Admission(config(look=Duration(0.05), register=Register(url="https://127.0.0.1:9443")), WORLD)
    bundles: list[tuple[bytes, bytes]] = []
    async with alone(module, name="admission", world=WORLD) as peers:
        answering(peers, secrets)

        async def patched(request: PatchObject) -> Patched:
            if request.path.endswith("validatingwebhookconfigurations/beehive"):
                bundle = base64.b64decode(request.patch["webhooks"][0]["clientConfig"]["caBundle"])
                bundles.append((bundle, await _issuer(module)))
            return Patched()

        peers.answer(PatchObject, patched)
        await until(lambda: len(bundles) > 1)
        old, new = module.ca, make_ca(WORLD.now())
        secrets.data |= {"ca.crt": new.certificate, "ca.key": new.key}
        await until(lambda: module.ca == new.certificate and bundles[-1][0] == new.certificate)
    assert (old + new.certificate in {one for one, _ in bundles}) or (
        new.certificate + old in {one for one, _ in bundles}
    )
    for bundle, issuer in bundles:
        assert issuer in bundle


async def _issuer(module: Admission) -> bytes:
    """PEM of the CA under which the certificate that is shown now verifies: the module's own, or the old one."""
    for ca in CAS | {module.ca}:
        CAS.add(ca)
        try:
            trust = ssl.create_default_context(cadata=ca.decode())
            _, writer = await asyncio.open_connection("127.0.0.1", module.port, ssl=trust)
        except ssl.SSLError:
            continue
        writer.transport.abort()
        return ca
    raise AssertionError("nobody trusts what is shown")


CAS: set[bytes] = set()


# ---- registration ------------------------------------------------------------------------------------------------

_HOOKS = "/apis/admissionregistration.k8s.io/v1"
VALIDATING, MUTATING = (
    f"{_HOOKS}/validatingwebhookconfigurations/beehive",
    f"{_HOOKS}/mutatingwebhookconfigurations/beehive",
)
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeupgradejobs.operations.kubeedge.io"


async def test_all_registrations_are_kept_right_and_the_service_is_in_the_certificate() -> None:
    register = Register(service="beehive-admission", namespace="edge-system", service_port=9443)
    module = Admission(config(register=register, names=()), WORLD)
    secrets = Secrets()
    async with alone(module, name="admission", world=WORLD) as peers:
        answering(peers, secrets)
        answers = [Away("the API server is away"), Patched(), Patched(), Patched()]
        peers.answer(PatchObject, lambda _: answers.pop(0))
        kept: dict[str, Any] = {}
        while len(kept) < 3:
            patch = await peers.heard(PatchObject)
            kept[patch.path] = patch.patch
        assert list(kept) == [VALIDATING, MUTATING, CRD]
    clients = {
        "/validate": kept[VALIDATING]["webhooks"][0]["clientConfig"],
        "/mutate": kept[MUTATING]["webhooks"][0]["clientConfig"],
        "/convert": kept[CRD]["spec"]["conversion"]["webhook"]["clientConfig"],
    }
    for path, client_config in clients.items():
        assert client_config["service"] == {
            "name": "beehive-admission", "namespace": "edge-system", "port": 9443, "path": path
        }  # fmt: skip
        assert base64.b64decode(client_config["caBundle"]) == module.ca
    assert clients["/convert"]["url"] is None, "a merge patch must take the other way to the webhook away"
    assert "strategy" not in kept[CRD]["spec"]["conversion"], "that is the choice of who installed the CRD"
    assert {kept[path]["webhooks"][0]["failurePolicy"] for path in (VALIDATING, MUTATING)} == {"Ignore"}
    ca, server = Pair(secrets.data["ca.crt"]), Pair(secrets.data["tls.crt"], secrets.data["tls.key"])
    assert is_good(
        Pair(ca.certificate, secrets.data["ca.key"]), server, ("beehive-admission.edge-system.svc",), WORLD.now()
    )
    json.dumps(kept)


@pytest.mark.parametrize(
    ("answer", "told"),
    [(Missing(), f"there is no {CRD}: the API server does not ask"), (Denied("forbidden"), "kept right: forbidden")],
)
async def test_a_registration_that_cannot_be_kept_is_told_once(
    answer: object, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    module = Admission(config(register=Register(url="https://127.0.0.1:9443/"), look=Duration(0.01)), WORLD)
    async with alone(module, name="admission", world=WORLD) as peers:
        answering(peers, Secrets())
        peers.answer(PatchObject, lambda _: answer)
        patch = await peers.heard(PatchObject)
        assert patch.patch["webhooks"][0]["clientConfig"]["url"] == "https://127.0.0.1:9443/validate"
        await until(lambda: len(peers.all_of(PatchObject)) > 9)
    assert told in caplog.text
    assert len([one for one in caplog.records if one.levelname == "WARNING"]) == 3


def test_what_is_shipped_is_what_is_kept_right() -> None:
    """`configs/webhooks.yaml` differs from what the process writes in the caBundle alone."""
    path = Path(__file__).parents[3] / "configs/webhooks.yaml"
    assert path.read_text() == shipped(), "registration.py changed; write registration.shipped() to it again"
    service, validating, mutating = yaml.safe_load_all(path.read_text())
    register = Register(service=service["metadata"]["name"], namespace=service["metadata"]["namespace"])
    kept = {one.path: one.patch for one in patches(register, (b"PEM",))}
    for shipped_one, address in ((validating, VALIDATING), (mutating, MUTATING)):
        (hook,) = kept[address]["webhooks"]
        del hook["clientConfig"]["caBundle"]
        assert shipped_one["webhooks"] == [hook]
    place = kept[CRD]["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
    assert crd()["spec"]["conversion"]["webhook"]["clientConfig"]["service"] == place  # type: ignore[index]


def test_whoever_configures_nothing_registers_nothing() -> None:
    assert patches(Register(), (b"PEM",)) == ()


async def test_the_port_is_free_again_when_the_messages_end() -> None:
    module = Admission(config(), WORLD)
    async with serving(module, Secrets()):
        assert listens(module.port)
    with socket.socket() as again:
        again.bind(("127.0.0.1", module.port))
