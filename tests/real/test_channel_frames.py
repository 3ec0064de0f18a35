"""Frames that cannot be used, over real TLS, and peers that know only KubeEdge."""

import contextlib
import json
from pathlib import Path

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

from beehive.messages import wire
from beehive.messages.fleet import Heard, NodeOffline, NodeOnline, Tell
from beehive.messages.tasks import CancelTask, ReportSeen, SendSnapshot, StartTask
from beehive.messages.uplink import CloudLost
from tests.modules.cloudhub.ends import TASK, UID, Hub, edge, hub, raw, report, until
from tests.real.channel import anyio_backend, closed
from tests.vectors import KUBEEDGE

__all__ = ["anyio_backend"]


def seen(revision: int) -> ReportSeen:
    return ReportSeen(job="job-1", uid=UID, attempt=0, revision=revision, lease_seconds=60.0)


def frame_of(name: str) -> str:
    return (KUBEEDGE / f"{name}.json").read_text()


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
