"""The embedded API server spoils requests when a test asks for it."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from modules.demo.apiserver.server import Config
from tests.contracts.api import CONFIGMAPS, configmap, fresh
from tests.contracts.rollout import CRD
from tests.modules.demo.embedded import embedded


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """A client of a server with faults."""
    with (
        embedded(Config(crds=[CRD], faults=True)) as running,
        httpx.Client(base_url=running.server.address, timeout=10) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def _cleared(client: httpx.Client) -> None:
    client.delete("/faults")


def _add(client: httpx.Client, **fault: Any) -> None:
    assert client.post("/faults", json=fault).status_code == 200


@pytest.mark.parametrize(
    ("code", "reason"), [(409, "Conflict"), (410, "Expired"), (429, "TooManyRequests"), (500, "InternalError")]
)
def test_refuses_so_often(client: httpx.Client, code: int, reason: str) -> None:
    name = fresh()
    _add(client, method="POST", path="configmaps", status=code, skip=1, times=2)
    codes = [client.post(CONFIGMAPS, json=configmap(f"{name}-{i}")) for i in range(4)]
    assert [one.status_code for one in codes] == [201, code, code, 201]
    assert codes[1].json()["reason"] == reason
    assert (codes[1].headers.get("Retry-After") == "1") is (code == 429)
    assert [client.get(f"{CONFIGMAPS}/{name}-{i}").status_code for i in range(4)] == [200, 404, 404, 200]


def test_other_requests_are_left_alone(client: httpx.Client) -> None:
    _add(client, method="PATCH", path="secrets", status=500)
    assert client.post(CONFIGMAPS, json=configmap(fresh())).status_code == 201
    assert len(client.get("/faults").json()) == 1


def test_a_lost_request_has_no_effect_and_a_lost_answer_has(client: httpx.Client) -> None:
    for drop, found in (("request", 404), ("answer", 200)):
        name = fresh()
        _add(client, method="POST", drop=drop)
        with pytest.raises(httpx.TransportError):
            client.post(CONFIGMAPS, json=configmap(name))
        assert client.get(f"{CONFIGMAPS}/{name}").status_code == found


def test_slow(client: httpx.Client) -> None:
    _add(client, delay=0.3)
    began = time.monotonic()
    assert client.get(CONFIGMAPS).status_code == 200
    assert time.monotonic() - began >= 0.3


def test_a_watch_is_cut_in_the_middle_of_a_line(client: httpx.Client) -> None:
    client.post(CONFIGMAPS, json=configmap(fresh()))
    _add(client, path="watch=true", cut_after=50)
    received: list[bytes] = []
    with client.stream("GET", CONFIGMAPS, params={"watch": "true"}) as answer, pytest.raises(httpx.TransportError):
        received.extend(answer.iter_raw(1))
    assert b"".join(received).startswith(b'{"type":"ADDED"')
    assert len(received) == 50


def test_a_fault_that_makes_no_sense(client: httpx.Client) -> None:
    assert client.post("/faults", json={"times": 0}).status_code == 400
    assert client.post("/faults", json={"colour": "red"}).status_code == 400


def test_there_are_none_unless_asked_for() -> None:
    with embedded(Config(crds=[CRD])) as running:
        assert httpx.post(f"{running.server.address}/faults", json={}).status_code == 404
