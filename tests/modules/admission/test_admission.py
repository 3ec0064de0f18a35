"""The webhook on a real bus and over real TLS on loopback; the API server's Secrets are in memory."""

import asyncio
import json
import ssl
from typing import Any

import pytest

from beehive.api.convert import V1ALPHA1
from beehive.api.meta import ObjectMeta
from beehive.api.node import Node
from beehive.messages.objects import ListNodes, Nodes
from modules.admission import conversion, review
from modules.admission.envelope import MOST_BYTES
from modules.admission.module import Admission
from tests.fakes.alone import alone
from tests.modules.admission.serving import JSON, WORLD, Secrets, answering, client, config, listens, serving, until
from tests.rules.test_review import UID, job, request
from tests.rules.test_review import review as asked


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


Asked = tuple[str, str, bytes | None, dict[str, str], int]
BAD: tuple[Asked, ...] = (
    ("POST", "/validate", b"{", JSON, 400),
    ("POST", "/validate", b"{}", {"content-type": "text/plain"}, 415),
    ("POST", "/validate", b"{}", {}, 415),
    ("POST", "/validate", b"x" * (MOST_BYTES + 1), JSON, 413),
    ("POST", "/validate", b"", JSON, 400),
    ("GET", "/validate", None, {}, 405),
    ("POST", "/../etc/passwd", b"{}", JSON, 404),
    ("POST", "/convert", b"{", JSON, 400),
    ("POST", "/convert", b"[" * 100_000, JSON, 400),
    ("POST", "/convert", b"{}", {"content-type": "text/plain"}, 415),
    ("POST", "/mutate", b"[]", JSON, 400),
    ("POST", "/mutating/nodeupgradejobs", b"", JSON, 400),
)


async def test_a_bad_request_gets_a_sentence_and_the_next_is_served() -> None:
    module = Admission(config(), WORLD)
    async with serving(module, Secrets()), client(module) as http:
        for method, path, body, headers, status in BAD:
            answer = await http.request(method, path, content=body, headers=headers)
            assert answer.status_code == status, (path, answer.text)
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


async def test_many_reviews_at_once_do_not_hold_the_loop() -> None:
    module = Admission(config(), WORLD)
    body = asked(request(new=job(nodeNames=[f"edge-{i}" for i in range(100)])))
    async with serving(module, Secrets()), client(module) as http:
        answers = await asyncio.gather(*(http.post("/validate", content=body, headers=JSON) for _ in range(30)))
        assert {one.status_code for one in answers} == {200}
        assert len(answers[0].json()["response"]["warnings"]) == 1, "there is no Node edge-0 …"


# ---- what the API server knows ---------------------------------------------------------------------------------------


async def test_warnings_come_from_what_the_informer_knows_and_a_burst_asks_once() -> None:
    module = Admission(config(), WORLD)
    body = asked(request(new=job(nodeNames=["edge-a", "edge-b"])))
    async with alone(module, name="admission", world=WORLD) as peers:
        answering(peers, Secrets(), nodes=Nodes((Node(metadata=ObjectMeta(name="edge-a")),)))
        await until(lambda: module.ca and not peers.module.waits_for and listens(module.port))
        async with client(module) as http:
            answers = await asyncio.gather(*(http.post("/validate", content=body, headers=JSON) for _ in range(5)))
            change = asked(request("UPDATE", job(suspend=True), job()))
            assert (await http.post("/validate", content=change, headers=JSON)).json()["response"]["allowed"]
        assert len(peers.all_of(ListNodes)) == 1
    for answer in answers:
        assert answer.json()["response"]["warnings"] == [
            "spec.nodeNames: there is no Node edge-b; the job will count them as failed"
        ]


async def test_an_informer_that_is_silent_costs_the_warnings_and_nothing_else() -> None:
    module = Admission(config(), WORLD)
    async with alone(module, name="admission", world=WORLD) as peers:
        answering(peers, Secrets())

        over = asyncio.Event()

        async def silent(_: ListNodes) -> Nodes:
            await over.wait()
            return Nodes(())

        peers.answer(ListNodes, silent)
        await until(lambda: module.ca and not peers.module.waits_for and listens(module.port))
        async with client(module) as http:
            good = await http.post("/validate", content=asked(request(new=job())), headers=JSON)
            assert good.json()["response"] == {"uid": UID, "allowed": True}
        over.set()


# ---- the other questions ---------------------------------------------------------------------------------------------


async def test_it_adds_defaults_at_its_own_path_and_at_kubeedges() -> None:
    module = Admission(config(), WORLD)
    async with serving(module, Secrets()), client(module) as http:
        for path in ("/mutate", "/mutating/nodeupgradejobs"):
            answer = await http.post(path, content=asked(request(new=job())), headers=JSON)
            assert answer.json()["response"]["patchType"] == "JSONPatch"


def conversion_of(*objects: Any, wanted: str = "operations.kubeedge.io/v1alpha1") -> bytes:
    request_ = {"uid": UID, "desiredAPIVersion": wanted, "objects": objects}
    return json.dumps(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request_}
    ).encode()


async def test_it_converts_and_one_object_that_cannot_be_fails_its_review_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    module = Admission(config(), WORLD)
    item = job(abort=True) | {"apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "NodeUpgradeJob"}
    async with serving(module, Secrets()), client(module) as http:
        good = (await http.post("/convert", content=conversion_of(item, item), headers=JSON)).json()
        assert good["response"]["result"] == {"status": "Success"}
        assert [one["apiVersion"] for one in good["response"]["convertedObjects"]] == [V1ALPHA1] * 2
        bad = (await http.post("/convert", content=conversion_of(item, {"kind": "Pod"}), headers=JSON)).json()
        assert bad["response"] == {
            "uid": UID,
            "convertedObjects": [],
            "result": {
                "status": "Failed",
                "message": "an object without a name: only NodeUpgradeJob can be converted, not Pod",
            },
        }
        assert "was not converted" in caplog.text
        nothing = (await http.post("/convert", content=conversion_of(), headers=JSON)).json()
        assert nothing["response"]["convertedObjects"] == []


async def test_a_bug_in_the_conversion_spoils_one_review(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def trips(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    module = Admission(config(), WORLD)
    async with serving(module, Secrets()), client(module) as http:
        with monkeypatch.context() as patched:
            patched.setattr(conversion, "converted", trips)
            answer = await http.post("/convert", content=conversion_of(job()), headers=JSON)
        assert answer.status_code == 500
        assert answer.text.split()[2].rstrip(";") in caplog.text
        again = await http.post("/convert", content=conversion_of(), headers=JSON)
        assert again.status_code == 200


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
