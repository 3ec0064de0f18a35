"""Who is let in: by certificates over real TLS, and by join tokens."""

import contextlib
import ssl
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from beehive.errors import Refused, Unavailable
from beehive.messages import wire
from beehive.messages.fleet import Heard, NodeOnline
from beehive.messages.uplink import CloudReached, LinkState
from modules.edgehub import identity
from modules.edgehub.join import join
from tests.modules.cloudhub.ends import edge, hub, raw, report, until
from tests.real.channel import anyio_backend, closed, on_both_loops

__all__ = ["anyio_backend"]


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
