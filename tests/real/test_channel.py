"""Both ends over real TLS on loopback: join, connect, task, report, acknowledgement; and what attacks them."""

import asyncio
import contextlib
import json
import ssl
from pathlib import Path

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

from beehive.config import Duration
from beehive.errors import Refused, Unavailable
from beehive.messages import wire
from beehive.messages.fleet import Heard, NodeOffline, NodeOnline, Tell
from beehive.messages.runtime import Draining
from beehive.messages.tasks import CancelTask, Hello, ReportSeen, SendSnapshot, StartTask, TaskReport
from beehive.messages.uplink import CloudLost, CloudReached, LinkState, Say
from modules.edgehub import identity
from modules.edgehub.join import join
from tests.modules.cloudhub.ends import TASK, UID, Hub, Secrets, edge, hub, raw, report, until
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


# ---- identity ----------------------------------------------------------------------------------------------------


async def test_whoever_claims_to_be_another_node_is_refused(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        for claims in ("edge-b", ""):
            websocket = await raw(cloud.server, tmp_path / "a", claims=claims)
            end = await closed(websocket)
            assert end.rcvd is not None
            assert end.rcvd.code == 1008
            assert "edge-a" in end.rcvd.reason
        assert cloud.counted("refused_identity") == 2
        assert (await cloud.online()).sessions == ()
        assert cloud.peers.all_of(NodeOnline) == []


async def test_what_a_refused_peer_says_is_not_heard(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        websocket = await raw(cloud.server, tmp_path / "a", claims="edge-b")
        with contextlib.suppress(ConnectionClosed):
            await websocket.send(wire.to_cloud(report(1), "edge-b", "m", 1.0).decode())
        await closed(websocket)
        await until(lambda: cloud.counted("refused_identity") == 1, "the refusal is counted")
        assert cloud.peers.all_of(Heard) == []


@on_both_loops
async def test_a_certificate_of_another_ca_or_none_does_not_get_through_the_handshake(tmp_path: Path) -> None:
    async with hub(tmp_path / "1") as cloud, hub(tmp_path / "2") as other:
        await cloud.lead()
        await other.lead()
        await cloud.join("edge-a", tmp_path / "a")
        await other.join("edge-a", tmp_path / "other")
        foreign = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        foreign.load_verify_locations(tmp_path / "a" / identity.CA)
        nothing = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        nothing.load_verify_locations(tmp_path / "a" / identity.CA)
        foreign.load_cert_chain(tmp_path / "other" / identity.PAIR)
        for context in (foreign, nothing):
            with pytest.raises((OSError, EOFError, Exception)) as refusal:
                await raw(cloud.server, tmp_path / "a", context=context)
            assert not isinstance(refusal.value, AssertionError)
        assert (await cloud.online()).sessions == ()
        # The edge does not trust a hub of another CA either.
        async with edge(tmp_path / "other", cloud.server) as (uplink, host):
            await until(lambda: uplink.counters["dial_failures"] > 1, "dials fail")
            assert "not trusted" in (await host.ask(LinkState())).trouble


async def test_the_hubs_own_certificate_is_no_nodes(tmp_path: Path) -> None:
    """It is signed by the same CA, but for a server."""
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        from modules.cloudhub import pki  # noqa: PLC0415

        data = cloud.secrets.stored["beehive-hub"][1]
        chain = tmp_path / "server.pem"
        chain.write_bytes(pki.to_pem(data["cloudcoredata"]) + pki.key_to_pem(data["cloudcorekeydata"]))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(tmp_path / "a" / identity.CA)
        context.load_cert_chain(chain)
        with pytest.raises(Exception) as refusal:  # noqa: PT011 - which one depends on when TLS 1.3 tells
            await raw(cloud.server, tmp_path / "a", context=context)
        assert not isinstance(refusal.value, AssertionError)
        assert (await cloud.online()).sessions == ()


async def test_an_upgrade_without_kubeedges_header_is_refused(tmp_path: Path) -> None:
    from websockets.asyncio.client import connect  # noqa: PLC0415
    from websockets.exceptions import InvalidStatus  # noqa: PLC0415

    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        _, context = identity.load(tmp_path / "a")
        with pytest.raises(InvalidStatus) as refusal:
            await connect(f"wss://{cloud.server}/", ssl=context, additional_headers={"node_id": "edge-a"})
        assert refusal.value.response.status_code == 400


# ---- frames that cannot be used ----------------------------------------------------------------------------------


async def ends_well(cloud: Hub, websocket: object) -> None:
    """The same connection still works."""
    good = report(99)
    await websocket.send(wire.to_cloud(good, "edge-a", "m-99", 1.0).decode())  # type: ignore[attr-defined]
    heard = await cloud.peers.heard(Heard)
    assert (heard.body, heard.message_id) == (good, "m-99")


@pytest.mark.parametrize(
    ("text", "counter"),
    [
        ("not json", "refused_frames"),
        ("[]", "refused_frames"),
        ("", "refused_frames"),
        ("[" * 100_000, "refused_frames"),
        (frame_of("ws_upstream_v1alpha2_check_ok").replace("edge-a", "edge-b"), "about_another_node"),
        (wire.to_cloud(report(1), "edge-b", "m", 1.0).decode(), "about_another_node"),
        (frame_of("ws_upstream_v1alpha2_check_ok").replace('"Check"', '"Nonsense"'), "refused_frames"),
        (frame_of("ws_upstream_v1alpha1_task_response"), "unknown_operations"),
        (frame_of("ws_downstream_v1alpha2_nodeupgradejob_check_full_spec"), "unknown_operations"),
    ],
)
async def test_one_bad_frame_is_counted_answered_and_spoils_only_itself(
    tmp_path: Path, text: str, counter: str
) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        websocket = await raw(cloud.server, tmp_path / "a")
        await websocket.send(text)
        answer = json.loads(await websocket.recv())
        assert answer["route"]["operation"] == "error"
        assert answer["content"]
        assert cloud.counted(counter) == 1
        await ends_well(cloud, websocket)
        assert len(cloud.peers.all_of(Heard)) == 1
        await websocket.close()


async def test_a_legacy_peer_gets_no_answer_to_what_it_should_not_have_said(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        websocket = await raw(cloud.server, tmp_path / "a", own=False)
        for text in ("not json", frame_of("ws_upstream_v1alpha1_task_response"), frame_of("ws_error_edge_to_cloud")):
            await websocket.send(text)
        await websocket.send('{"header":{"msg_id":"p"},"route":{"operation":"ping"},"content":null}')
        answer = json.loads(await websocket.recv())
        assert (answer["route"]["operation"], answer["content"]) == ("response", "ack")
        assert answer["header"]["parent_msg_id"] == "p"
        await websocket.close()


async def test_who_says_nothing_usable_is_sent_away(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        websocket = await raw(cloud.server, tmp_path / "a")
        with contextlib.suppress(ConnectionClosed):
            for _ in range(40):
                await websocket.send("x")
        end = await closed(websocket)
        assert end.rcvd is not None
        assert end.rcvd.code == 1008
        assert cloud.counted("refused_frames") == 21
        assert (await cloud.peers.heard(NodeOffline)).node == "edge-a"


@pytest.mark.parametrize("fragments", [False, True])
async def test_two_megabytes_are_refused_at_one(tmp_path: Path, fragments: bool) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        websocket = await raw(cloud.server, tmp_path / "a")
        text = "x" * (2 << 20)
        sent = [text[at : at + 65536] for at in range(0, len(text), 65536)] if fragments else text
        with contextlib.suppress(ConnectionClosed, OSError):
            await websocket.send(sent)
        end = await closed(websocket)
        assert end.rcvd is None or end.rcvd.code == 1009
        assert (await cloud.peers.heard(NodeOffline)).node == "edge-a"
        again = await raw(cloud.server, tmp_path / "a")
        await ends_well(cloud, again)
        await again.close()


async def test_a_message_in_fragments_is_joined(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        websocket = await raw(cloud.server, tmp_path / "a")
        text = wire.to_cloud(report(1, reason="é" * 1000), "edge-a", "m", 1.0).decode()
        await websocket.send([text[:10], text[10:500], text[500:]])
        assert (await cloud.peers.heard(Heard)).body == report(1, reason="é" * 1000)
        await websocket.close()


async def test_bad_frames_from_the_cloud_do_not_end_the_edges_link(tmp_path: Path) -> None:
    """The edge talks to a hub that a test has taken over: the frames of its socket are written by hand."""
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        async with edge(tmp_path / "a", cloud.server) as (uplink, host):
            await cloud.peers.heard(NodeOnline)
            peer = cloud.module.fleet.peer("edge-a") if cloud.module.fleet else None
            assert peer is not None
            for text in (
                b"not json",
                wire.to_edge(TASK, "edge-b", "m", 1.0),
                frame_of("ws_downstream_ack_mode_pod_update").encode(),
                frame_of("ws_downstream_v1alpha2_imageprepulljob_check").encode(),
                frame_of("ws_downstream_v1alpha1_upgrade_stage_init").encode(),
            ):
                assert peer.write(text)
            await cloud.peers.send(Tell(node="edge-a", body=TASK))
            assert await host.heard(StartTask) == TASK
            counted = {name: uplink.counters[name] for name in ("refused_frames", "about_another_node")}
            assert counted == {"refused_frames": 1, "about_another_node": 1}
            assert uplink.counters["unknown_operations"] == 1
            assert uplink.counters["foreign_tasks"] == 2
            assert host.all_of(CloudLost) == []
            assert len(host.all_of(StartTask)) == 1
            await until(lambda: cloud.counted("unknown_operations") == 5, "all answers of the edge have arrived")
            await until(lambda: uplink.counters["errors_from_cloud"] == 2, "and the two ends do not go on for ever")


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


# ---- legacy peers ------------------------------------------------------------------------------------------------


async def test_a_real_edgecore_is_told_check_once_per_attempt_and_nothing_else(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        websocket = await raw(cloud.server, tmp_path / "a", own=False)
        assert (await cloud.peers.heard(NodeOnline)).legacy
        second = msgspec.structs.replace(TASK, attempt=1)
        for body in (
            TASK, TASK, CancelTask(job="job-1", uid=UID, attempt=0), SendSnapshot(job="job-1", uid=UID, attempt=0),
            seen(1), TASK, second, second,
        ):  # fmt: skip
            await cloud.peers.send(Tell(node="edge-a", body=body))
        for _ in range(2):
            told = json.loads(await websocket.recv())
            assert set(told) == {"header", "route", "content"}
            assert told["route"] == {
                "source": "taskmanager", "group": "taskmanager", "operation": "Check",
                "resource": "operations.kubeedge.io/v1alpha2/nodeupgradejob/job-1/node/edge-a",
            }  # fmt: skip
        await until(lambda: cloud.counted("kept_from_legacy") == 6, "the rest is kept from it")

        names = ("check_ok", "waitingconfirmation_ok", "backup_ok", "upgrade_ok_final")
        for name in names:
            await websocket.send(frame_of("ws_keepalive_edge_to_cloud"))
            await websocket.send(frame_of(f"ws_upstream_v1alpha2_{name}"))
        for name in names:
            heard = await cloud.peers.heard(Heard)
            assert heard.body == wire.from_edge(frame_of(f"ws_upstream_v1alpha2_{name}").encode()).body
        await websocket.send('{"header":{"msg_id":"","timestamp":0},"route":{},"content":null}')
        await websocket.close()
        assert (await cloud.peers.heard(NodeOffline)).node == "edge-a"


async def test_every_recorded_frame_of_an_edge_leaves_the_connection_standing(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        websocket = await raw(cloud.server, tmp_path / "a", own=False)
        for path in sorted(KUBEEDGE.glob("ws_*.json")):
            await websocket.send(path.read_text())
        await ends_well_after(cloud, websocket, 8)


async def ends_well_after(cloud: Hub, websocket: object, reports: int) -> None:
    await until(lambda: len(cloud.peers.all_of(Heard)) == reports, "all reports are heard")
    await websocket.send(wire.to_cloud(report(99), "edge-a", "m-99", 1.0).decode())  # type: ignore[attr-defined]
    await until(lambda: cloud.peers.all_of(Heard)[-1].body == report(99), "the connection still works")
    await websocket.close()  # type: ignore[attr-defined]


# ---- joining -----------------------------------------------------------------------------------------------------


async def test_a_token_for_another_cloud_is_noticed_before_anything_is_sent(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        token = cloud.secrets.token()
        wrong = "0" * 64 + token[64:]
        with pytest.raises(Refused, match="failed to validate CA certificate"):
            await join(cloud.url, wrong, "edge-a", tmp_path / "a")
        assert cloud.counted("certificates") == 0
        with pytest.raises(Unavailable, match="identity"):
            identity.load(tmp_path / "a")


async def test_a_lost_answer_costs_no_use_of_the_token(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        token = cloud.secrets.token(uses=1)
        key = tmp_path / "a" / "node.key.pending"
        await join(cloud.url, token, "edge-a", tmp_path / "a")
        key.write_bytes((tmp_path / "a" / identity.PAIR).read_bytes())  # as if the answer had never come
        await join(cloud.url, token, "edge-a", tmp_path / "a")
        with pytest.raises(Refused, match="used up"):
            await join(cloud.url, token, "edge-b", tmp_path / "b")
        assert cloud.counted("certificates") == 2


async def test_the_files_of_an_identity_are_the_owners_alone(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "a").iterdir()}
        assert modes == {"ca.crt": 0o600, "node.pem": 0o600, "identity.json": 0o600}
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


async def test_an_edge_that_has_not_joined_waits_visibly_and_goes_on_by_itself(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        async with edge(tmp_path / "a", cloud.server) as (_, host):
            await until(lambda: "beehive edge join" in host.module.waits_for, "it says what to do")
            await cloud.join("edge-a", tmp_path / "a")
            await host.heard(CloudReached)
            assert host.module.waits_for == ""


@pytest.mark.parametrize(
    ("url", "node", "text"),
    [
        ("http://127.0.0.1:1", "edge-a", "https://cloud.example.org:10002"),
        ("127.0.0.1:10002", "edge-a", "https://cloud.example.org:10002"),
        ("https://127.0.0.1:1", "Edge_A", "cannot be the name"),
    ],
)
async def test_join_says_what_to_write_instead(tmp_path: Path, url: str, node: str, text: str) -> None:
    with pytest.raises(Refused, match=text):
        await join(url, "0" * 64 + ".a.b.c", node, tmp_path / "a")


@pytest.mark.parametrize("token", ["", "x", "a.b.c.d", "0" * 64, "0" * 64 + ".a.b", "é" * 64 + ".a.b.c"])
async def test_a_token_in_the_wrong_format(tmp_path: Path, token: str) -> None:
    with pytest.raises(Refused, match="four parts"):
        await join("https://127.0.0.1:1", token, "edge-a", tmp_path / "a")


async def test_a_cloud_that_does_not_answer_may_later(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        await join("https://127.0.0.1:1", "0" * 64 + ".a.b.c", "edge-a", tmp_path / "a")
