"""The tool tells its verdict by POST: to the real hub over HTTPS with the node's certificate, and to none at all."""

import asyncio
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beehive.api.nodeupgradejob import IN_PROGRESS, NodeEntry
from beehive.config import Duration
from beehive.messages import wire
from beehive.messages.fleet import Answer, Heard
from beehive.messages.host import Verdict
from beehive.messages.tasks import TaskReport
from modules.taskmanager.fold import fold
from modules.upgrader.config import Cloud
from modules.upgrader.host.host import Host
from modules.upgrader.host.names import attempt_key, unit_key
from modules.upgrader.tool import main
from modules.upgrader.tool.record import Order, load_record
from modules.upgrader.tool.request import Request, settings_of, write_request
from modules.upgrader.tool.telling import is_final, load_identity, tell, word_of
from tests.fakes.edge_host import NEW, OLD, EdgeHost, program
from tests.fakes.memory_host import MemoryHost
from tests.modules.cloudhub.ends import UID, Hub, hub
from tests.vectors import KUBEEDGE

Make = Callable[..., EdgeHost]
ORDER = Order(
    job="north", uid=UID, attempt=2, from_version=OLD, to_version=NEW, old_digest="", new_digest="", backup=OLD
)
BACK = msgspec.structs.replace(ORDER, event="Rollback", from_version=NEW, to_version=OLD)
GOOD = Verdict("Upgrade", True, "", "", OLD, NEW)
TAKEN_BACK = Verdict("RollBack", True, "RolledBack", "v1.23.0 exited with code 1", OLD, OLD)
LOST = Verdict("RollBack", False, "RollbackFailed", "rollback failed", OLD, "")


def host_of(root: Path, patience: float = 20.0, **cloud: Any) -> Host:
    """A host without more than its configuration."""
    made = MemoryHost(root)
    made.config = msgspec.structs.replace(made.config, cloud=Cloud(patience=Duration(patience), **cloud))
    return made


async def joined(cloud: Hub, host: Host, node: str = "edge-a") -> None:
    host.layout.identity.mkdir(parents=True)
    await cloud.join(node, host.layout.identity)


@pytest.mark.parametrize(
    ("order", "verdict", "vector", "versions"),
    [
        (ORDER, GOOD, "1_upgrade_success", (OLD, NEW)),
        (ORDER, TAKEN_BACK, "2_upgrade_failed_rollback_success", (OLD, NEW)),
        (ORDER, LOST, "3_upgrade_failed_rollback_failed", (OLD, NEW)),
        (BACK, TAKEN_BACK, "2_upgrade_failed_rollback_success", (OLD, NEW)),
    ],
)
def test_the_body_has_kubeedges_keys_and_words(
    order: Order, verdict: Verdict, vector: str, versions: tuple[str, str]
) -> None:
    recorded = json.loads((KUBEEDGE / f"http_post_nodeupgrade_{vector}.json").read_bytes())["request"]["body"]
    body = json.loads(msgspec.json.encode(word_of("edge-a", order, verdict)))
    assert body.keys() == recorded.keys()
    assert body["Status"] == recorded["Status"]
    assert (body["UpgradeID"], body["HistoryID"], body["NodeName"]) == ("north", f"{UID}.2", "edge-a")
    assert (body["FromVersion"], body["ToVersion"], body["Reason"]) == (*versions, verdict.reason)


@pytest.mark.parametrize("verdict", [GOOD, TAKEN_BACK, LOST])
@pytest.mark.parametrize("tool_first", [True, False])
def test_what_tool_and_agent_say_counts_once(verdict: Verdict, tool_first: bool) -> None:
    """Whichever comes first, and however often: the entry is the agent's, which tells more."""
    entry = NodeEntry(node_name="edge-a", phase=IN_PROGRESS, attempt=2, revision=3)
    said = wire.verdict(msgspec.json.encode(word_of("edge-a", ORDER, verdict)), 1_767_225_605.0).report
    agent = TaskReport(
        job="north", uid=UID, attempt=2, revision=7, action=verdict.step, final=True, code=verdict.code,
        reason=verdict.reason, from_version=OLD, to_version=verdict.to_version,
    )  # fmt: skip
    alone = fold(entry, agent, NEW)
    after_tool = fold(entry, said, NEW)
    assert (after_tool.phase, after_tool.reason_code) == (alone.phase, alone.reason_code)
    assert after_tool.phase != IN_PROGRESS
    for report in (said, agent, said) if tool_first else (agent, said, agent, said):
        entry = fold(entry, report, NEW)
    assert entry == alone


async def test_it_is_repeated_until_the_cloud_has_it(tmp_path: Path) -> None:
    host = host_of(tmp_path / "host")
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await joined(cloud, host)
        cloud.grant(0)  # a standby turns everybody away
        telling = asyncio.create_task(asyncio.to_thread(tell, host, ORDER, TAKEN_BACK))
        await cloud.lead()
        for outcome in ("not-yet", "seen"):
            heard = await cloud.peers.heard(Heard, 15)
            report = heard.body
            assert isinstance(report, TaskReport)
            assert (heard.node, report.job, report.uid, report.attempt) == ("edge-a", "north", UID, 2)
            assert (report.final, report.code, report.to_version) == (True, "RolledBack", OLD)
            assert report.reason == TAKEN_BACK.reason
            assert not telling.done()
            await cloud.peers.send(Answer(ticket=heard.ticket, outcome=outcome))
        assert await telling


@pytest.mark.parametrize(("node", "outcome"), [("edge-a", "unknown"), ("edge-b", "")])
async def test_a_refusal_is_not_repeated(tmp_path: Path, node: str, outcome: str) -> None:
    """A job that is gone; a name that is not the certificate's."""
    host = host_of(tmp_path / "host")
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await joined(cloud, host)
        if not outcome:
            about = host.layout.identity / "identity.json"
            about.write_text(about.read_text().replace("edge-a", node))
        telling = asyncio.create_task(asyncio.to_thread(tell, host, ORDER, GOOD))
        if outcome:
            heard = await cloud.peers.heard(Heard, 15)
            await cloud.peers.send(Answer(ticket=heard.ticket, outcome=outcome))
        assert await asyncio.wait_for(telling, 5) is False


async def test_a_cloud_that_is_not_ours_is_told_nothing(tmp_path: Path) -> None:
    host = host_of(tmp_path / "host", patience=1.0)
    async with hub(tmp_path / "ours") as ours, hub(tmp_path / "other") as other:
        await ours.lead()
        await other.lead()
        await joined(ours, host)
        host.config = msgspec.structs.replace(host.config, cloud=Cloud(patience=Duration(1), url=other.url))
        assert await asyncio.to_thread(tell, host, ORDER, GOOD) is False
        with pytest.raises(AssertionError, match="no Heard within"):
            await other.peers.heard(Heard, 0.2)


async def test_a_clock_that_stands_in_1970_is_no_hindrance(tmp_path: Path) -> None:
    host = host_of(tmp_path / "host")
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await joined(cloud, host)
        assert load_identity(host.layout.identity, host.config.cloud, 0.0).context.verify_flags & 0x200000
        assert not load_identity(host.layout.identity, host.config.cloud, time.time()).context.verify_flags & 0x200000


def absent(host: Host) -> None:
    """An identity of a cloud whose port nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    host.config = msgspec.structs.replace(
        host.config, cloud=msgspec.structs.replace(host.config.cloud, url=f"https://127.0.0.1:{port}")
    )


async def test_patience_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    host = host_of(tmp_path / "host", patience=1.2)
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await joined(cloud, host)
    absent(host)
    began = time.monotonic()
    assert await asyncio.to_thread(tell, host, ORDER, GOOD) is False
    assert 0.4 < time.monotonic() - began < 4
    assert "does not answer" in caplog.text
    assert "the agent's own report will" in caplog.text


def test_a_host_that_has_not_joined_tells_nobody_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="beehive.tool")
    assert tell(host_of(tmp_path), ORDER, GOOD) is False
    assert "this host has no identity in" in caplog.text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "cannot be used"),
        ('{"node": "a"}', "names no cloud"),
        ('{"node":"a","cloud":"http://x"}', "names no cloud"),
    ],
)
async def test_an_identity_that_cannot_be_used(
    tmp_path: Path, text: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="beehive.tool")
    host = host_of(tmp_path / "host")
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await joined(cloud, host)
    (host.layout.identity / "identity.json").write_text(text)
    assert tell(host, ORDER, GOOD) is False
    assert problem in caplog.text


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 413, 302])
def test_what_is_said_once(status: int) -> None:
    assert is_final(status)


@pytest.mark.parametrize("status", [0, 408, 429, 500, 502, 503, 504])
def test_what_is_said_again(status: int) -> None:
    assert not is_final(status)


def asked(host: EdgeHost, **cloud: Any) -> str:
    """The agent's request to the tool; the new program lies in the upgrade's folder."""
    config = msgspec.structs.replace(host.config, cloud=Cloud(**cloud))
    artefact = host.layout.artefact(NEW)
    artefact.parent.mkdir(parents=True)
    artefact.write_bytes(program(NEW))
    artefact.chmod(0o755)
    request = Request(
        job="north", uid=UID, attempt=2, from_version=OLD, to_version=NEW,
        digest=host.host.program.digest_of(artefact), settings=settings_of(config),
    )  # fmt: skip
    write_request(host.host.files, host.layout, request)
    return str(host.layout.request(unit_key(UID, 2)))


async def test_the_verdict_stands_and_the_host_is_free_before_the_cloud_is_told(edge: Make, tmp_path: Path) -> None:
    """A cloud that does not answer delays nobody: verdict, report file and lock are as if it were not there."""
    host = edge()
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await joined(cloud, host.host)
        request = asked(host, patience=Duration(30))
        tool = asyncio.create_task(asyncio.to_thread(main, ["upgrade", "edge", "--force", "--request", request]))
        heard = await cloud.peers.heard(Heard, 30)
        record = load_record(host.layout, attempt_key(UID, 2))
        assert record
        assert (record.verdict, record.told) == (GOOD, True)
        assert host.report()["success"]
        assert host.runs() == NEW
        assert not host.layout.lock.exists()
        assert not tool.done()
        assert isinstance(heard.body, TaskReport)
        assert (heard.body.final, heard.body.code, heard.body.to_version) == (True, "", NEW)
        await cloud.peers.send(Answer(ticket=heard.ticket, outcome="seen"))
        assert await asyncio.wait_for(tool, 10) == 0
