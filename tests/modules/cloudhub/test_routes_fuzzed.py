"""Any request to the HTTPS routes is answered, and never with 500. Straight into the application: no sockets."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.messages.tasks import TaskReport
from beehive.world import World
from modules.cloudhub.config import Config
from modules.cloudhub.enrolment import Enrolment
from modules.cloudhub.keyring import Keyring
from modules.cloudhub.routes import Services, application
from modules.cloudhub.vault import Vault
from tests.modules.cloudhub.ends import Secrets
from tests.modules.cloudhub.test_frames_fuzzed import FAULTS, spoiled
from tests.modules.cloudhub.test_pki import csr

TEXTS = st.text(max_size=20)
BYTES = st.binary(max_size=80) | st.sampled_from([b"", b"{", b"[" * 20_000, csr(), csr()[:-3]])
VERDICT = (
    b'{"UpgradeID":"job-1","HistoryID":"11111111-1111-4111-8111-111111111111.0","NodeName":"edge-a",'
    b'"FromVersion":"v1.22.0","ToVersion":"v1.23.0","Status":"upgrade_success","Reason":""}'
)
POSTED = st.tuples(st.sampled_from([VERDICT, b'{"NodeName":"edge-a","Event":"Upgrade","Action":"Success"}']), FAULTS)
BODIES = BYTES | POSTED.map(lambda both: spoiled(*both))
NAMES = st.sampled_from([b"authorization", b"nodename", b"content-length", b"transfer-encoding", b"x"])
VALUES = st.binary(max_size=30) | st.sampled_from([b"Bearer x.y.z", b"edge-a", b"-1", b"9" * 30, b"a" * 20_000])
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=5)
TASK = "/task/upgrade/name/j/node/edge-a/status"
PATHS = (
    st.sampled_from(["/ca.crt", "/edge.crt", "/node/edge-a", "/nodeupgrade", TASK, "/"])
    | st.text(max_size=60).map("/".__add__)
    | TEXTS.map(lambda text: f"/task/{text}/name/{text}/node/{text}/status")
)
REQUESTS = st.sampled_from([("GET", "/edge.crt"), ("POST", "/nodeupgrade"), ("POST", TASK)]) | st.tuples(
    st.sampled_from(["GET", "POST", "HEAD", "PUT", "BREW"]), PATHS
)
NAME = (("commonName", "system:node:edge-a"),)
CERTIFICATES: Any = st.sampled_from([
    None, {}, {"subject": ()},
    {"subject": (NAME, (("organizationName", "system:nodes"),)), "notBefore": "Jan  1 00:00:00 2026 GMT",
     "notAfter": "Jan  1 00:00:00 2036 GMT"},
])  # fmt: skip


class Nobody:
    """Stands for the tickets: taskmanager has seen everything."""

    def __init__(self) -> None:
        self.reports: list[TaskReport] = []

    async def ask(self, node: str, report: TaskReport) -> str:
        assert node == "edge-a"
        self.reports.append(report)
        return "seen"


@pytest.fixture(scope="module")
def app() -> Any:
    secrets, config, world = Secrets(), Config(), World()

    async def ask(request: Any) -> Any:
        return secrets.put(request) if hasattr(request, "data") else secrets.get(request)

    async def knows(_: str) -> bool:
        return True

    vault = Vault(ask, config.secrets)
    keyring = Keyring(vault, config, world)
    asyncio.run(keyring.load())
    enrolment = Enrolment(vault, keyring, world, 86400.0, Counter(), lambda _, __: None)
    return application(Services(enrolment, keyring, Nobody(), knows, world))  # type: ignore[arg-type]


async def answer(app: Any, scope: dict[str, Any], body: bytes) -> int:
    status: list[int] = []
    parts: list[dict[str, Any]] = [
        {"type": "http.request", "body": body[:10], "more_body": True},
        {"type": "http.request", "body": body[10:]},
    ]

    async def receive() -> dict[str, Any]:
        if not parts:
            return {"type": "http.disconnect"}
        return parts.pop(0)

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])

    await app(scope, receive, send)
    (one,) = status
    return one


@settings(max_examples=150)
@given(REQUESTS, HEADERS, BODIES, CERTIFICATES)
def test_no_request_is_answered_with_500(
    app: Any, request_line: tuple[str, str], headers: list[tuple[bytes, bytes]], body: bytes, certificate: Any
) -> None:
    method, path = request_line
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "https",
        "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers,
        "state": {"certificate": certificate},
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "root_path": "",
    }  # fmt: skip
    assert asyncio.run(answer(app, scope, body)) in (200, 307, 400, 401, 403, 404, 405, 413, 431)
