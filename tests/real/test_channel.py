"""Both ends over real TLS on loopback: join, connect, task, report, acknowledgement; sessions and leadership."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from beehive.config import Duration
from beehive.messages import wire
from beehive.messages.fleet import Heard, NodeOffline, NodeOnline, Tell
from beehive.messages.runtime import Draining
from beehive.messages.tasks import CancelTask, Hello, ReportSeen, SendSnapshot, StartTask, TaskReport
from beehive.messages.uplink import CloudLost, CloudReached, LinkState, Say
from tests.modules.cloudhub.ends import TASK, UID, Secrets, edge, hub, raw, report, until
from tests.real.channel import anyio_backend, closed, on_both_loops
from tests.vectors import KUBEEDGE

__all__ = ["anyio_backend"]


def seen(revision: int) -> ReportSeen:
    return ReportSeen(job="job-1", uid=UID, attempt=0, revision=revision, lease_seconds=60.0)


def frame_of(name: str) -> str:
    return (KUBEEDGE / f"{name}.json").read_text()


# ---- the path ----------------------------------------------------------------------------------------------------


@on_both_loops
async def test_join_connect_task_report_acknowledgement(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        async with edge(tmp_path / "a", cloud.server) as (uplink, host):
            came = await cloud.peers.heard(NodeOnline)
            assert (came.node, came.legacy) == ("edge-a", False)
            assert (await host.heard(CloudReached)).url == f"wss://{cloud.server}"

            await cloud.peers.send(Tell(node="edge-a", body=TASK))
            assert await host.heard(StartTask) == TASK

            await host.send(Say(body=report(1)))
            heard = await cloud.peers.heard(Heard)
            assert (heard.node, heard.epoch, heard.body) == ("edge-a", came.epoch, report(1))
            assert (await host.ask(LinkState())).waiting == 1

            await cloud.peers.send(Tell(node="edge-a", body=seen(1), answers=heard.message_id))
            assert await host.heard(ReportSeen) == seen(1)
            state = await host.ask(LinkState())
            assert (state.connected, state.waiting, state.trouble) == (True, 0, "")
            assert list((tmp_path / "a" / "journal").glob("report-*")) == []

            for body in (CancelTask(job="job-1", uid=UID, attempt=0), SendSnapshot(job="job-1", uid=UID, attempt=0)):
                await cloud.peers.send(Tell(node="edge-a", body=body))
                assert await host.heard(type(body)) == body
            asking = Hello(job="job-1", uid=UID, attempt=0, action="Upgrade")
            await host.send(Say(body=asking))
            assert (await cloud.peers.heard(Heard)).body == asking
        assert (await cloud.peers.heard(NodeOffline)).epoch == came.epoch
        assert uplink.counters["refused_frames"] == 0


async def test_a_report_is_said_again_until_it_is_seen_also_after_both_ends_were_killed(tmp_path: Path) -> None:
    secrets = Secrets()
    async with hub(tmp_path, secrets) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
    async with edge(tmp_path / "a", "127.0.0.1:1") as (_, host):
        await host.send(Say(body=report(1)))
        await host.send(Say(body=report(2)))
        state = await host.ask(LinkState())
        assert (state.connected, state.waiting) == (False, 1)
    async with hub(tmp_path, secrets) as cloud:
        await cloud.lead()
        async with edge(tmp_path / "a", cloud.server) as (_, host):
            for _ in range(2):
                assert (await cloud.peers.heard(Heard)).body == report(2)
            await cloud.peers.send(Tell(node="edge-a", body=seen(1)))
            assert await host.heard(ReportSeen) == seen(1)
            assert (await host.ask(LinkState())).waiting == 1
            await cloud.peers.send(Tell(node="edge-a", body=seen(2)))
            assert await host.heard(ReportSeen) == seen(2)
            assert (await host.ask(LinkState())).waiting == 0


async def test_after_the_hub_was_killed_the_edge_is_back_with_a_greater_epoch(tmp_path: Path) -> None:
    secrets = Secrets()
    async with hub(tmp_path, secrets) as first:
        await first.lead()
        await first.join("edge-a", tmp_path / "a")
        server, config = first.server, first.module._config
        port = first.module.websocket_port
        async with edge(tmp_path / "a", server) as (_, host):
            before = await first.peers.heard(NodeOnline)
            await host.heard(CloudReached)
            first.grant(0)
            lost = await host.heard(CloudLost)
            assert "1012" in lost.reason
            assert (await first.peers.heard(NodeOffline)).epoch == before.epoch
            first.peers.module.inbox.close()
            await until(lambda: not _listens(port), "the port is free")
            websocket = msgspec.structs.replace(config.websocket, port=port)
            async with hub(tmp_path, secrets, websocket=websocket) as second:
                await second.lead()
                after = await second.peers.heard(NodeOnline)
                assert after.epoch > before.epoch
                await host.heard(CloudReached)


def _listens(port: int) -> bool:
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)


async def test_several_addresses_are_tried_in_order_and_a_standby_turns_away_at_once(tmp_path: Path) -> None:
    secrets = Secrets()
    async with hub(tmp_path / "1", secrets) as standby, hub(tmp_path / "2", secrets) as leader:
        await leader.lead()
        await leader.join("edge-a", tmp_path / "a")
        async with edge(tmp_path / "a", standby.server, leader.server) as (uplink, host):
            assert (await host.heard(CloudReached)).url == f"wss://{leader.server}"
            assert uplink.counters["dial_failures"] == 1


# ---- sessions ----------------------------------------------------------------------------------------------------


async def test_the_newest_session_wins_and_the_end_of_the_old_one_means_nothing(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        old = await raw(cloud.server, tmp_path / "a")
        first = await cloud.peers.heard(NodeOnline)
        new = await raw(cloud.server, tmp_path / "a", own=False)
        second = await cloud.peers.heard(NodeOnline)
        assert second.epoch > first.epoch
        assert second.legacy
        end = await closed(old)
        assert end.rcvd is not None
        assert end.rcvd.code == 1008
        (session,) = (await cloud.online()).sessions
        assert (session.node, session.epoch) == ("edge-a", second.epoch)
        assert cloud.peers.all_of(NodeOffline) == []
        await new.close()
        assert (await cloud.peers.heard(NodeOffline)).epoch == second.epoch


async def test_a_mute_peer_is_cut_off_and_a_keepalive_is_life(tmp_path: Path) -> None:
    async with hub(tmp_path, keepalive=Duration(0.4)) as cloud:
        await cloud.lead()
        for node in ("mute", "alive"):
            await cloud.join(node, tmp_path / node)
        mute, alive = [await raw(cloud.server, tmp_path / node) for node in ("mute", "alive")]

        async def beat() -> None:
            while True:
                await alive.send(frame_of("ws_keepalive_edge_to_cloud"))
                await asyncio.sleep(0.05)

        beating = asyncio.ensure_future(beat())
        assert (await cloud.peers.heard(NodeOffline)).node == "mute"
        await closed(mute)
        assert cloud.counted("cut_mute") == 1
        await asyncio.sleep(0.5)  # longer than the deadline
        assert [one.node for one in (await cloud.online()).sessions] == ["alive"]
        beating.cancel()
        await alive.close()


async def test_pings_are_life_too(tmp_path: Path) -> None:
    async with hub(tmp_path, keepalive=Duration(0.4)) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        websocket = await raw(cloud.server, tmp_path / "a")
        for _ in range(10):
            await (await websocket.ping())
            await asyncio.sleep(0.08)
        assert len((await cloud.online()).sessions) == 1
        await websocket.close()


@on_both_loops
async def test_a_full_inbox_stops_that_socket_and_nothing_is_lost(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        inbox = cloud.peers.endpoint.inbox
        capacity, inbox.capacity = inbox.capacity, 0
        inbox.open_gate()
        websocket = await raw(cloud.server, tmp_path / "a")
        for revision in range(1, 201):
            await websocket.send(wire.to_cloud(report(revision), "edge-a", f"m-{revision}", 1.0).decode())
        await until(lambda: cloud.counted("paused") >= 1, "the socket is paused")
        assert cloud.peers.all_of(Heard) == []
        inbox.capacity = capacity
        inbox._let_in()
        await until(lambda: len(cloud.peers.all_of(Heard)) == 200, "all are heard")
        revisions = [one.body.revision for one in cloud.peers.all_of(Heard) if isinstance(one.body, TaskReport)]
        assert revisions == list(range(1, 201))
        await websocket.close()


@on_both_loops
async def test_who_does_not_read_is_cut_off_and_costs_the_others_nothing(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        for node in ("slow", "quick"):
            await cloud.join(node, tmp_path / node)
        slow, quick = [await raw(cloud.server, tmp_path / node) for node in ("slow", "quick")]
        slow.transport.pause_reading()
        big = msgspec.structs.replace(TASK, spec=msgspec.structs.replace(TASK.spec, image="x" * 60_000))
        for _ in range(400):
            await cloud.peers.send(Tell(node="slow", body=big))
        await cloud.peers.send(Tell(node="quick", body=TASK))
        assert wire.from_cloud(str(await quick.recv()).encode()).body == TASK
        assert (await cloud.peers.heard(NodeOffline)).node == "slow"
        slow.transport.abort()
        await quick.close()
        assert cloud.counted("cut_slow") == 1


# ---- leadership --------------------------------------------------------------------------------------------------


@on_both_loops
async def test_without_leadership_connections_are_closed_before_tls(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        for port in (cloud.module.websocket_port, cloud.module.https_port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
        assert (await cloud.online()).open_since == 0.0


@on_both_loops
async def test_the_end_of_the_leadership_closes_every_session_with_1012_and_a_spread(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        websocket = await raw(cloud.server, tmp_path / "a")
        came = await cloud.peers.heard(NodeOnline)
        cloud.grant(0.3)  # nobody renews it, and nobody says that it ended
        end = await closed(websocket)
        assert end.rcvd is not None
        assert end.rcvd.code == 1012
        assert wire.spread_of(end.rcvd.reason) == 0.2
        assert (await cloud.peers.heard(NodeOffline)).epoch == came.epoch
        state = await cloud.online()
        assert (state.sessions, state.open_since) == ((), 0.0)
        with pytest.raises((OSError, EOFError, Exception)):
            await raw(cloud.server, tmp_path / "a", open_timeout=5)
        await cloud.peers.send(Tell(node="edge-a", body=TASK))
        await until(lambda: cloud.counted("tell_without_leadership") == 1, "the frame is not sent")
        await cloud.lead()
        again = await raw(cloud.server, tmp_path / "a")
        assert (await cloud.peers.heard(NodeOnline)).epoch > came.epoch
        await again.close()


async def test_draining_closes_with_1012(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        websocket = await raw(cloud.server, tmp_path / "a")
        await cloud.peers.heard(NodeOnline)
        cloud.peers.publish(Draining())
        end = await closed(websocket)
        assert end.rcvd is not None
        assert end.rcvd.code == 1012
        cloud.grant(600)
        await until(lambda: cloud.peers.module.inbox.queue == cloud.peers.module.inbox.queue.__class__(), "taken")
        assert (await cloud.online()).open_since == 0.0


async def test_an_api_server_that_is_away_is_waited_for_visibly(tmp_path: Path) -> None:
    secrets = Secrets()
    secrets.away = "connection refused"
    async with hub(tmp_path, secrets) as cloud:
        cloud.grant(600)
        waits = cloud.peers.module
        await until(lambda: "connection refused" in waits.waits_for, "it says what it waits for")
        secrets.away = ""
        await cloud.lead()
        assert waits.waits_for == ""


async def test_two_replicas_that_start_together_share_one_ca(tmp_path: Path) -> None:
    secrets = Secrets()
    async with hub(tmp_path / "1", secrets) as one, hub(tmp_path / "2", secrets) as two:
        await asyncio.gather(one.lead(), two.lead())
        assert secrets.writes == 2
        await one.join("edge-a", tmp_path / "a")
        websocket = await raw(two.server, tmp_path / "a")
        assert (await two.peers.heard(NodeOnline)).node == "edge-a"
        await websocket.close()
