"""The API server dies, hangs, refuses writes or is slow in the middle of a job, for longer than a Lease is good.

Nodes in flight finish, their last words wait unacknowledged at the edge and none is lost, readiness or a warning says
why, nothing runs twice, and within seconds afterwards the job goes on. The Lease lasts 3 s here and the outage 9 s, as
15 s and 45 s would be; five minutes pass in virtual time in `tests/modules/taskmanager/test_cloud_restart.py`.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from modules.demo.cloud import Cloud
from tests.contracts.faults import Act, Proxy, answers
from tests.fakes.edges import Records, names
from tests.real.running.apiserver import ApiServer
from tests.real.waving import Field

NODES = names(12)
_OUTAGE = 9.0
_BACK = 15.0
"""Seconds until all that waited stands: a look, a Lease of 3 s, a backoff of at most 5 s, and a loaded machine."""
_QUICK = {"cloud": {"retryFirst": "500ms", "retryCap": "3s", "askTimeout": "5s", "offlineAfter": "60s"}}


@pytest.fixture(scope="module")
def place(_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    server = ApiServer.started(tmp_path_factory.mktemp("away-apiserver"))
    try:
        yield Field(server, tmp_path_factory.mktemp("away"), NODES)
    finally:
        server.remove()


@pytest.fixture
def field(place: Field, tmp_path: Path) -> Iterator[Field]:
    place.begin(tmp_path)
    try:
        yield place
        place.delete_jobs()
    finally:
        place.end()


def begun(field: Field, url: str = "") -> Cloud:
    """A cloud that leads."""
    cloud = field.add_cloud(url, taskmanager=_QUICK)
    cloud.start()
    cloud.wait_until_ready()
    field.wait_for_leader()
    return cloud


def wait_for_middle(field: Field) -> None:
    """Some are done, and others are at work: their marks and their cordons stand."""

    def some_fly() -> bool:
        status = field.status("north")
        flying = {one["nodeName"] for one in status.get("nodeStatus", ()) if one["phase"] == "InProgress"}
        return 2 <= status.get("successful", 0) <= 8 and len(flying) >= 3 and flying <= set(field.held_nodes())

    field.wait(some_fly, "the job is in the middle")


def must_be_right(status: Any, saw: Records, began: float, ended: float) -> None:
    """One run on each host; words that came in the outage stood after it, and were not acknowledged before."""
    assert (status["phase"], status["successful"]) == ("Completed", len(NODES)), status
    assert saw.ran() == dict.fromkeys(NODES, 1)
    assert saw.unseen == 0
    waited = {node for node, at in saw.ended.items() if began < at < ended}
    assert waited, "somebody ended in the outage"
    early = {node: saw.acknowledged[node] - began for node in waited if saw.acknowledged[node] < ended}
    assert early == {}, "acknowledged while nothing could be stored"
    late = {node: saw.acknowledged[node] - ended for node in waited}
    assert max(late.values()) <= _BACK, late


@pytest.mark.parametrize("how", ["dies", "hangs"])
def test_away(field: Field, how: str) -> None:
    cloud = begun(field)
    server = field.server.process
    with field.edges(work=2.0) as edges:
        field.apply_job("north", concurrency=4)
        wait_for_middle(field)
        began = time.monotonic()
        if how == "dies":
            server.kill()
        else:
            server.pause()
        field.wait(lambda: "API server" in cloud.readyz() or "Lease" in cloud.readyz(), "readiness says why", _OUTAGE)
        time.sleep(max(0.0, began + _OUTAGE - time.monotonic()))
        assert cloud.process
        cloud.process.must_run()
        ended = time.monotonic()
        if how == "dies":
            field.server.start()
        else:
            server.resume()
        status = field.wait_for_end("north", 60)
        must_be_right(status, edges.saw(), began, ended)


def slowly(proxy: Proxy) -> Act:
    async def act(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(1.0)
        return await proxy.forward(request)

    return act


def is_write(request: web.Request) -> bool:
    """But for the Lease: who leads goes on leading, and cannot store anything."""
    return request.method != "GET" and "/leases" not in request.path


STATUS = '{"kind":"Status","apiVersion":"v1","status":"Failure","message":"%s","code":%d}'
REFUSALS = {
    "500": answers(500, STATUS % ("etcdserver: request timed out", 500)),
    "429": answers(429, STATUS % ("too many requests", 429), **{"Retry-After": "1"}),
    "403": answers(403, STATUS % ("beehive cannot patch resource nodeupgradejobs/status", 403)),
}


@pytest.mark.parametrize("how", sorted(REFUSALS))
async def test_every_write_is_refused(field: Field, how: str) -> None:
    async with Proxy(field.server.url, field.server.tls()) as proxy:
        await asyncio.to_thread(_refused, field, proxy, how)


def _refused(field: Field, proxy: Proxy, how: str) -> None:
    cloud = begun(field, proxy.address)
    with field.edges(work=2.0) as edges:
        field.apply_job("north", concurrency=4)
        wait_for_middle(field)
        proxy.fail(is_write, REFUSALS[how])
        began = time.monotonic()
        if how != "429":  # which is waited for inside the call
            field.wait(lambda: "job north cannot be written" in cloud.readyz(), "it is said on /readyz", _OUTAGE)
        time.sleep(max(0.0, began + _OUTAGE - time.monotonic()))
        proxy.heal()
        ended = time.monotonic()
        status = field.wait_for_end("north", 60)
        assert "cannot be written" not in cloud.readyz()
        must_be_right(status, edges.saw(), began, ended)
    field.delete_jobs()


async def test_every_write_takes_a_second(field: Field) -> None:
    """A job then keeps the server busy for a tenth of the time at most, and nothing is doubled."""
    async with Proxy(field.server.url, field.server.tls()) as proxy:
        await asyncio.to_thread(_slow, field, proxy)


def _slow(field: Field, proxy: Proxy) -> None:
    begun(field, proxy.address)
    proxy.fail(is_write, slowly(proxy))
    with field.edges(work=0.5) as edges:
        field.apply_job("north", concurrency=len(NODES))
        began = time.monotonic()
        status = field.wait_for_end("north", 90)
        took = time.monotonic() - began
        saw = edges.saw()
    assert (status["phase"], status["successful"]) == ("Completed", len(NODES))
    assert (saw.ran(), saw.unseen) == (dict.fromkeys(NODES, 1), 0)
    writes = proxy.count("PATCH /apis/operations.kubeedge.io/v1alpha2/nodeupgradejobs/north/status")
    assert writes <= 3 + took / 5
    field.delete_jobs()
