"""Reports of a host's tool by POST: who may, and what is answered when."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from beehive.messages import wire
from beehive.messages.fleet import Answer, Heard
from beehive.messages.objects import ListNodes, Nodes
from modules.cloudhub import tickets
from modules.edgehub import identity
from tests.fakes.jobs import a_node
from tests.modules.cloudhub.ends import UID, hub, until
from tests.modules.cloudhub.test_ports import client
from tests.vectors import KUBEEDGE

VERDICT = {
    "UpgradeID": "job-1", "HistoryID": f"{UID}.1", "NodeName": "edge-a", "FromVersion": "v1.22.1",
    "ToVersion": "v1.23.1", "Status": "upgrade_success", "Reason": "",
}  # fmt: skip


async def test_the_answer_says_what_became_of_the_report(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        async with client(cloud, tmp_path / "a") as http:
            for outcome, status, text in (
                ("seen", 200, "ok"),
                ("unknown", 404, "there is no job 'job-1' that has the node 'edge-a'"),
                ("not-yet", 503, "send it again"),
            ):
                asked = asyncio.create_task(http.post("/nodeupgrade", json=VERDICT))
                heard = await cloud.peers.heard(Heard)
                assert (heard.node, heard.body.uid, heard.body.attempt) == ("edge-a", UID, 1)
                await cloud.peers.send(Answer(ticket=heard.ticket, outcome=outcome))
                answer = await asked
                assert answer.status_code == status
                assert text in answer.text
                assert answer.headers.get("Retry-After") == ("5" if status == 503 else None)


async def test_kubeedges_recorded_requests(tmp_path: Path) -> None:
    """Theirs are answered with 200 whatever becomes of them; ours when the API server has it."""
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        async with client(cloud, tmp_path / "a") as http:
            for path in sorted(KUBEEDGE.glob("http_post_*.json")):
                recorded = json.loads(path.read_bytes())
                if "request" not in recorded:
                    continue
                request = recorded["request"]
                asked = asyncio.create_task(http.request(request["method"], request["path"], json=request["body"]))
                if path.stem.endswith("anything-else"):
                    assert (await asked).status_code == 400
                    continue
                heard = await cloud.peers.heard(Heard)
                assert (heard.body.job, heard.node) == ("job-1", "edge-a")
                await cloud.peers.send(Answer(ticket=heard.ticket, outcome="seen"))
                answer = await asked
                theirs = recorded["response"]
                assert (answer.status_code, answer.text) == (theirs["status"], theirs["body"])
                assert answer.headers["content-type"] == theirs["content_type"]


@pytest.mark.parametrize("path", ["/nodeupgrade", "/task/upgrade/name/job-1/node/edge-a/status"])
async def test_whoever_may_not_report_is_refused_and_nothing_is_heard(tmp_path: Path, path: str) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-b", tmp_path / "b")
        task = {"NodeName": "edge-a", "Event": "Upgrade", "Action": "Success"}
        body: dict[str, Any] = VERDICT if path == "/nodeupgrade" else task
        async with client(cloud) as http:
            assert (await http.post(path, json=body)).status_code == 401
        async with client(cloud, tmp_path / "b") as http:
            answer = await http.post(path, json=body)
            assert (answer.status_code, answer.text) == (403, "edge-b may not report for 'edge-a'\n")
            assert (await http.post(path, content=b"{")).status_code == 400
            assert (await http.post(path, content=b"x" * (2 << 20))).status_code == 413
            assert (await http.get(path)).status_code == 405
            await cloud.revoke("edge-b")
            answer = await http.post(path, json=body)
            assert (answer.status_code, answer.text) == (403, "its certificate was revoked\n")
        assert cloud.peers.all_of(Heard) == []


async def test_what_says_that_it_is_too_large_is_refused_before_it_was_sent(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        _, context = identity.load(await cloud.join("edge-a", tmp_path / "a"))
        host, _, port = cloud.url.removeprefix("https://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        writer.write(b"POST /nodeupgrade HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n")
        answer = await reader.read()  # until it is closed, for nobody reads what would follow
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert answer.endswith(wire.TOO_LARGE.encode())
        writer.close()


async def test_what_does_not_say_how_large_it_is_is_read_to_one_mebibyte(tmp_path: Path) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 64 << 20:
            sent += 1 << 18
            yield b"x" * (1 << 18)

    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        async with client(cloud, tmp_path / "a") as http:
            try:
                status = (await http.post("/nodeupgrade", content=endless())).status_code
            except (httpx.WriteError, httpx.ReadError):  # the hub closed while the client was still writing
                status = 413
        assert status == 413
        assert sent < 32 << 20


async def test_posts_that_nobody_answers_end_and_hold_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KubeEdge's cloud is dead after 65 of them (spec/kubeedge.md S2)."""
    monkeypatch.setattr(tickets, "PATIENCE", 0.3)
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        async with client(cloud, tmp_path / "a") as http:
            answers = await asyncio.gather(*(http.post("/nodeupgrade", json=VERDICT) for _ in range(66)))
            assert {answer.status_code for answer in answers} == {503}
            last = [heard.ticket for heard in cloud.peers.all_of(Heard)][-1]
            await cloud.peers.send(Answer(ticket=last, outcome="seen"))
            await until(lambda: cloud.counted("answers_too_late") == 1, "an answer to nobody is counted")
            asked = asyncio.create_task(http.post("/nodeupgrade", json=VERDICT))
            await until(lambda: len(cloud.peers.all_of(Heard)) == 67, "the next one is heard")
            await cloud.peers.send(Answer(ticket=cloud.peers.all_of(Heard)[-1].ticket, outcome="seen"))
            assert (await asked).status_code == 200
        assert cloud.counted("posts_unanswered") == 66


async def test_a_report_under_way_when_the_leadership_ends_is_to_be_sent_again(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        async with client(cloud, tmp_path / "a") as http:
            asked = asyncio.create_task(http.post("/nodeupgrade", json=VERDICT))
            await cloud.peers.heard(Heard)
            cloud.grant(0)
            assert (await asked).status_code == 503


async def test_is_there_such_a_node(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        cloud.peers.answer(ListNodes, lambda _: Nodes((a_node("edge-a"),)))
        async with client(cloud) as http:
            for path, status, text in (
                ("/node/edge-a", 200, "Node found"),
                ("/node/edge-b", 404, "Node not found"),
                ("/node/", 404, "Not Found"),
            ):
                answer = await http.get(path)
                assert (answer.status_code, answer.text) == (status, text)
