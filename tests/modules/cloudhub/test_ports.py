"""The two ports: bound once, and what the HTTPS one answers."""

import asyncio
import gc
import socket
import ssl
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from beehive.errors import RuntimeFailed
from beehive.journal import Journal
from beehive.world import World
from modules.cloudhub import pki
from modules.cloudhub.config import Config, Https, Websocket
from modules.cloudhub.gate import Gate
from modules.cloudhub.line import Room
from modules.cloudhub.module import CloudHub
from modules.edgehub import identity
from tests.fakes.alone import alone
from tests.modules.cloudhub.ends import Hub, hub, until
from tests.modules.cloudhub.test_pki import csr


def client(cloud: Hub, directory: Path | None = None) -> httpx.AsyncClient:
    """Trusts the cloud's CA; shows the certificate in `directory`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=pki.to_pem(cloud.secrets.stored["beehive-ca"][1]["cadata"]).decode())
    if directory:
        context.load_cert_chain(directory / identity.PAIR)
    return httpx.AsyncClient(verify=context, base_url=cloud.url, timeout=10)


async def certificate(http: httpx.AsyncClient, node: str, body: bytes, authorization: str = "") -> httpx.Response:
    headers = {"NodeName": node} | ({"Authorization": authorization} if authorization else {})
    return await http.request("GET", "/edge.crt", headers=headers, content=body)


async def test_a_taken_port_is_named_at_once(tmp_path: Path) -> None:
    taken = Gate("websocket", "127.0.0.1", 0)
    try:
        for which in ("websocket", "https"):
            ports = {"websocket": 0, "https": 0} | {which: taken.port}
            config = Config(
                websocket=Websocket(address="127.0.0.1", port=ports["websocket"]),
                https=Https(address="127.0.0.1", port=ports["https"]),
            )
            with pytest.raises(ExceptionGroup) as failure:
                async with alone(CloudHub(config, World(), Journal(tmp_path)), name="cloudhub"):
                    pass
            (error,) = failure.value.exceptions
            assert isinstance(error, RuntimeFailed)
            assert str(taken.port) in str(error)
            assert f"cloudhub.{which}.port" in str(error)
    finally:
        taken.close()


async def read_all(port: int) -> bytes:
    """What a connection to the port is told until it ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def greet(one: socket.socket, _address: str) -> None:
    await asyncio.get_running_loop().sock_sendall(one, b"hello")
    one.close()


async def test_a_gate_turns_away_receives_and_keeps_its_port() -> None:
    gate = Gate("websocket", "127.0.0.1", 0)
    gate.shut()
    assert await read_all(gate.port) == b""
    assert gate.turned_away == 1
    for _ in range(2):
        gate.open(Room(1, 1), greet)
        assert await read_all(gate.port) == b"hello"
        gate.shut()
    assert await read_all(gate.port) == b""
    assert gate.turned_away == 2
    gate.close()


async def test_a_gate_receives_a_few_at_a_time_and_lets_go_of_all_when_it_shuts() -> None:
    gate = Gate("websocket", "127.0.0.1", 0)
    received: list[socket.socket] = []

    async def hold(one: socket.socket, _address: str) -> None:
        received.append(one)
        await asyncio.Event().wait()

    gate.open(Room(2, 2, queue=3, queue_each=3), hold)
    connected = [asyncio.create_task(read_all(gate.port)) for _ in range(7)]
    await until(lambda: gate.turned_away == 2, "two too many are turned away")
    assert len(received) == 2
    gate.shut()
    await until(lambda: sum(one.done() for one in connected) == 5, "who waited, and who was too many, is let go")
    for one in received:
        one.close()
    assert await asyncio.gather(*connected) == [b""] * 7
    gate.close()


async def test_a_gate_that_shuts_at_once_closes_what_it_has_just_accepted(recwarn: pytest.WarningsRecorder) -> None:
    gate = Gate("websocket", "127.0.0.1", 0)
    received: list[socket.socket] = []

    async def hold(one: socket.socket, _address: str) -> None:
        received.append(one)

    gate.open(Room(1, 1), hold)
    with socket.create_connection(("127.0.0.1", gate.port), timeout=5) as connection:
        gate._accept()
        gate.shut()  # before the task that would receive it has run
        assert connection.recv(1) == b""
        await asyncio.sleep(0)
    gate.close()
    gc.collect()
    assert received == []
    assert [str(one.message) for one in recwarn if one.category is ResourceWarning] == []


async def test_the_ca_is_der(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        async with client(cloud) as http:
            answer = await http.get("/ca.crt")
        assert answer.content == cloud.secrets.stored["beehive-ca"][1]["cadata"]


@pytest.mark.parametrize(
    ("authorization", "text"),
    [
        ("", "token validation failure, token is empty"),
        ("Bearer", "token validation failure, token cannot be split"),
        ("Bearer x.y.z", "token validation failure, err: no token was ever made"),
    ],
)
async def test_kubeedges_refusals(tmp_path: Path, authorization: str, text: str) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        async with client(cloud) as http:
            answer = await certificate(http, "edge-a", csr(), authorization)
        assert (answer.status_code, answer.text) == (401, text)
        assert cloud.counted("enrolment_401") == 1


async def test_other_refusals(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        good = "Bearer " + cloud.secrets.token().partition(".")[2]
        bound = "Bearer " + cloud.secrets.token("edge-b", token_id="t2").partition(".")[2]
        async with client(cloud) as http:
            for node in ("", "Edge_A", "a" * 53, "../x"):
                assert (await certificate(http, node, csr(), good)).status_code == 400
            assert (await certificate(http, "edge-a", b"x", good)).status_code == 400
            assert (await certificate(http, "edge-a", b"", good)).status_code == 400
            assert (await certificate(http, "edge-a", csr(), bound)).status_code == 401
            assert (await certificate(http, "edge-a", b"x" * (2 << 20), good)).status_code == 413
            assert (await http.get("/nothing")).status_code == 404
            assert (await http.post("/ca.crt")).status_code == 405
            cloud.secrets.away = "connection refused"
            assert (await certificate(http, "edge-a", csr(), good)).status_code == 503
            cloud.secrets.away = ""
            assert (await certificate(http, "edge-a", csr(), good)).status_code == 200
        assert cloud.counted("certificates") == 1


async def test_a_node_renews_its_own_certificate_and_no_other(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        async with client(cloud, tmp_path / "a") as http:
            renewed = await certificate(http, "edge-a", csr())
            refused = await certificate(http, "edge-b", csr())
        made = x509.load_der_x509_certificate(renewed.content)
        assert made.subject.rfc4514_string() == "CN=system:node:edge-a,O=system:nodes"
        assert refused.status_code == 401
        assert "failed to verify the certificate for edgenode: edge-b" in refused.text


async def test_a_revoked_token_is_refused_at_once(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        good = "Bearer " + cloud.secrets.token().partition(".")[2]
        version, data = cloud.secrets.stored["beehive-tokens"]
        cloud.secrets.stored["beehive-tokens"] = (version + 1, {**data, "tokens": b"[]"})
        async with client(cloud) as http:
            answer = await certificate(http, "edge-a", csr(), good)
        assert (answer.status_code, answer.text) == (401, "token validation failure, err: the token was revoked")


async def test_fifty_nodes_that_join_at_once_are_counted_exactly(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        good = "Bearer " + cloud.secrets.token(uses=20).partition(".")[2]
        async with client(cloud) as http:
            tries = [certificate(http, f"edge-{number}", csr(), good) for number in range(50)]
            statuses = [answer.status_code for answer in await asyncio.gather(*tries)]
        assert sorted(statuses) == [200] * 20 + [401] * 30


async def test_a_request_that_trips_a_bug_spoils_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()

        def bug(*_: object) -> str:
            raise ZeroDivisionError

        good = "Bearer " + cloud.secrets.token().partition(".")[2]
        async with client(cloud) as http:
            with monkeypatch.context() as patched:
                patched.setattr(pki, "fingerprint", bug)
                answer = await certificate(http, "edge-a", csr(), good)
            assert answer.status_code == 500
            assert answer.text.startswith("internal error ")
            assert (await certificate(http, "edge-a", csr(), good)).status_code == 200


async def test_a_header_bomb_is_refused(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        async with client(cloud) as http:
            answer = await http.get("/ca.crt", headers={"X": "x" * 100_000})
        assert answer.status_code in (400, 431)  # by how it comes in pieces
