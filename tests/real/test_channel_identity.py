"""Identity over time: revoked, renewed, expired, a CA that is replaced, a clock that stands in 1970."""

import asyncio
import json
import os
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from beehive.config import Duration
from beehive.journal import write_durably
from beehive.messages import wire
from beehive.messages.fleet import Heard, NodeOffline, NodeOnline
from beehive.messages.objects import PutSecret, SecretChanged
from beehive.messages.uplink import CloudReached, LinkState
from beehive.world import World
from modules.cloudhub import pki
from modules.cloudhub.vault import Vault
from modules.demo.children import COMMAND
from modules.edgehub import identity
from modules.edgehub.join import Through, renew
from tests.modules.cloudhub.ends import Hub, edge, hub, raw, report, until
from tests.modules.cloudhub.test_pki import csr
from tests.modules.cloudhub.test_ports import certificate, client
from tests.real.channel import anyio_backend, closed

__all__ = ["anyio_backend"]


async def hubs_certificate(cloud: Hub, trusting: Path) -> bytes:
    """What the hub shows at a new connection, in DER."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(trusting / identity.CA)
    host, _, port = cloud.url.removeprefix("https://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(True)
    writer.close()
    return shown


async def until_another(cloud: Hub, trusting: Path, before: bytes) -> None:
    async def other() -> bool:
        return await hubs_certificate(cloud, trusting) != before

    await until(other, "the hub shows another certificate")


# ---- revoked -----------------------------------------------------------------------------------------------------


async def test_a_revoked_node_is_out_within_two_seconds_and_may_join_again(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        await cloud.join("edge-b", tmp_path / "b")
        old, other = await raw(cloud.server, tmp_path / "a"), await raw(cloud.server, tmp_path / "b")
        for _ in range(2):
            await cloud.peers.heard(NodeOnline)
        await cloud.revoke("edge-a", "stolen")
        end = await closed(old)
        assert end.rcvd is not None
        assert (end.rcvd.code, end.rcvd.reason) == (1008, "its certificate was revoked: stolen")
        assert (await cloud.peers.heard(NodeOffline)).node == "edge-a"
        again = await closed(await raw(cloud.server, tmp_path / "a"))
        assert again.rcvd is not None
        assert again.rcvd.code == 1008
        async with client(cloud, tmp_path / "a") as http:  # no new certificate for the old one
            answer = await certificate(http, "edge-a", csr())
            assert (answer.status_code, "was revoked" in answer.text) == (401, True)
        shutil.rmtree(tmp_path / "a")
        await cloud.join("edge-a", tmp_path / "a")  # a token says that it may
        await until(lambda: World().now() >= identity.read(tmp_path / "a").begins, "the new certificate is good")
        await raw(cloud.server, tmp_path / "a")
        assert (await cloud.peers.heard(NodeOnline)).node == "edge-a"
        await (await other.ping())
        assert cloud.counted("cut_revoked") == 1


async def test_a_list_that_cannot_be_read_lets_nobody_in_and_throws_nobody_out(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        cloud.secrets.write("beehive-revoked", {"revoked": b"{"})
        cloud.grant(600)
        await until(lambda: "list of revoked" in cloud.peers.module.waits_for, "it says what it waits for")
        assert (await cloud.online()).open_since == 0.0
        cloud.secrets.write("beehive-revoked", {"revoked": b"[]"})
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        websocket = await raw(cloud.server, tmp_path / "a")
        cloud.secrets.write("beehive-revoked", {"revoked": b"{"})
        failed = cloud.counted("keyring_failures")
        cloud.peers.publish(SecretChanged(name="beehive-revoked"))
        await until(lambda: cloud.counted("keyring_failures") > failed, "it could not be read")
        assert cloud.peers.module.waits_for == ""  # who is connected can work: it stays ready
        await (await websocket.ping())


# ---- renewed -----------------------------------------------------------------------------------------------------


async def test_an_edge_renews_its_certificate_before_it_ends_and_goes_over_to_it(tmp_path: Path) -> None:
    async with hub(tmp_path, certificate_lifetime=Duration(4)) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        before = identity.read(tmp_path / "a")
        async with edge(tmp_path / "a", cloud.server) as (uplink, host):
            await host.heard(CloudReached)
            await until(lambda: uplink.counters["renewals"] >= 1, "it renews")
            assert World().now() < before.ends
            await host.heard(CloudReached, timeout=5)
            await until(lambda: World().now() > before.ends + 0.5, "the first one ends")
            assert (await cloud.online()).sessions[0].node == "edge-a"
        after = identity.read(tmp_path / "a")
        assert after.ends > before.ends
        assert cloud.counted("cut_expired") == 0


async def test_a_session_ends_with_its_certificate(tmp_path: Path) -> None:
    async with hub(tmp_path, certificate_lifetime=Duration(1.5)) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        end = await closed(await raw(cloud.server, tmp_path / "a"), timeout=5)
        assert end.rcvd is not None
        assert (end.rcvd.code, end.rcvd.reason) == (1008, "its certificate has expired")
        assert cloud.counted("cut_expired") == 1
        with pytest.raises(Exception):  # noqa: B017, PT011 - which one depends on when TLS 1.3 tells
            await closed(await raw(cloud.server, tmp_path / "a"))
        await until(lambda: cloud.counted("handshake_certificate_has_expired") == 1, "counted by its reason")


async def test_after_its_end_an_edge_joins_again_with_a_token_and_without_one_says_what_to_do(tmp_path: Path) -> None:
    async with hub(tmp_path, certificate_lifetime=Duration(1)) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        await until(lambda: World().now() > identity.read(tmp_path / "a").ends, "it expires")
    async with hub(tmp_path, cloud.secrets) as cloud:
        await cloud.lead()
        about = identity.read(tmp_path / "a")
        ca, pair = ((tmp_path / "a" / name).read_bytes() for name in (identity.CA, identity.PAIR))
        moved = identity.About(about.node, cloud.url, about.begins, about.ends, about.ca)  # the hub has another port
        identity.store(tmp_path / "a", moved, ca, pair, b"")
        async with edge(tmp_path / "a", cloud.server) as (uplink, host):
            await until(lambda: uplink.counters["dial_failures"] > 1, "dials fail")
            trouble = (await host.ask(LinkState())).trouble
            assert "has expired; run `beehive edge join` on this host, or set edgehub.tokenFile" in trouble
        token = tmp_path / "token"
        token.write_text(cloud.secrets.token("edge-a", token_id="again") + "\n")
        async with edge(tmp_path / "a", cloud.server, token_file=str(token)) as (uplink, host):
            await host.heard(CloudReached)
        assert identity.read(tmp_path / "a").ends > World().now() + 86400


@pytest.mark.parametrize("cut", ["ca.crt", "node.pem", "identity.json"])
async def test_a_power_cut_in_the_middle_of_a_renewal_leaves_a_whole_identity(
    tmp_path: Path, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        _, context = identity.load(tmp_path / "a")
        write = write_durably

        def cut_before(path: Path, data: bytes, mode: int) -> None:
            if path.name == cut:
                raise OSError("the power is gone")
            write(path, data, mode)

        with monkeypatch.context() as patched:
            patched.setattr(identity, "write_durably", cut_before)
            with pytest.raises(Exception, match="the power is gone"):
                await renew(tmp_path / "a", "", Through(context))
        async with edge(tmp_path / "a", cloud.server) as (_, host):
            await host.heard(CloudReached)


# ---- the hub's own -----------------------------------------------------------------------------------------------


async def test_the_hubs_certificate_is_replaced_without_dropping_a_socket(tmp_path: Path) -> None:
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        websocket = await raw(cloud.server, tmp_path / "a")
        await cloud.peers.heard(NodeOnline)
        before = await hubs_certificate(cloud, tmp_path / "a")
        cloud.secrets.write("beehive-hub", {})  # another replica, or an operator, took it away: it is made anew
        cloud.peers.publish(SecretChanged(name="beehive-hub"))
        await until_another(cloud, tmp_path / "a", before)
        await websocket.send(wire.to_cloud(report(1), "edge-a", "m-1", 1.0).decode())
        assert (await cloud.peers.heard(Heard)).node == "edge-a"
        assert cloud.peers.all_of(NodeOffline) == []


async def change_ca(cloud: Hub, change: Any) -> pki.Authority:
    """As `beehive ca rotate` or `retire`, and until the hub has heard of it."""

    async def ask(request: Any) -> Any:
        return cloud.secrets.put(request) if isinstance(request, PutSecret) else cloud.secrets.get(request)

    made = await Vault(ask, cloud.module._config.secrets).change_authority(change)
    cloud.peers.publish(SecretChanged(name="beehive-ca"))
    return made


async def test_a_ca_is_replaced_with_overlap_and_then_retired(tmp_path: Path) -> None:
    """Nobody is locked out: who knows the old CA, who joins, who renews. After the end the old one counts no more."""
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        shutil.copytree(tmp_path / "a", tmp_path / "left behind")
        standing = await raw(cloud.server, tmp_path / "a")
        await cloud.peers.heard(NodeOnline)
        old = await hubs_certificate(cloud, tmp_path / "a")
        made = await change_ca(cloud, lambda one: pki.rotate(one, World().now()))
        await until_another(cloud, tmp_path / "a", old)
        await (await standing.ping())
        assert cloud.peers.all_of(NodeOffline) == []  # nobody was sent away
        await cloud.join("edge-b", tmp_path / "b")  # with the new CA alone
        async with edge(tmp_path / "b", cloud.server) as (_, host):
            await host.heard(CloudReached)
        async with edge(tmp_path / "a", cloud.server) as (
            uplink,
            host,
        ):  # with the old CA alone, by the cross signature
            await host.heard(CloudReached)
            uplink._keeper._draw = 0.0
            uplink._keeper._news.set()
            await until(lambda: uplink.counters["renewals"] == 1, "it hears of the new CA and renews")
        ours = x509.load_pem_x509_certificate((tmp_path / "a" / identity.PAIR).read_bytes())
        ours.verify_directly_issued_by(x509.load_der_x509_certificate(made.ca.certificate))
        assert (tmp_path / "a" / identity.CA).read_bytes() == pki.to_pem(made.ca.certificate)
        other = await raw(cloud.server, tmp_path / "left behind")  # the old one is still believed
        await change_ca(cloud, pki.retire)
        end = await closed(other)  # everybody shows again who it is
        assert end.rcvd is not None
        assert end.rcvd.code == 1012
        with pytest.raises(Exception):  # noqa: B017, PT011
            await closed(await raw(cloud.server, tmp_path / "left behind"))
        async with edge(tmp_path / "a", cloud.server) as (_, host):
            await host.heard(CloudReached)


# ---- the clock ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", ["@1970-01-01 00:00:30", "@2020-01-01 00:00:00"])
async def test_a_clock_that_is_behind_at_boot_does_not_lock_a_host_out(tmp_path: Path, clock: str) -> None:
    """The agent as a process under `faketime`: the TLS library sees that clock too."""
    async with hub(tmp_path) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        config = tmp_path / "edge.yaml"
        config.write_text(json.dumps({
            "runtime": {"data": str(tmp_path / "data"), "admin": {"port": 0}},
            "edgehub": {"servers": [cloud.server], "identity": str(tmp_path / "a")},
            "upgrader": {"root": str(tmp_path / "root"), "serviceManager": "process"},
        }))  # fmt: skip
        command = (*COMMAND, "--mode", "edge", "--config", str(config))
        # `faketime` itself would stand between us and the agent.
        preload = subprocess.run(("faketime", "-f", clock, "printenv", "LD_PRELOAD"), capture_output=True, check=True)
        environment = {
            **os.environ, "LD_PRELOAD": preload.stdout.decode().strip(), "FAKETIME": clock,
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }  # fmt: skip
        with (tmp_path / "log").open("wb") as log:
            agent = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            online = await cloud.peers.heard(NodeOnline, timeout=20)
            assert online.node == "edge-a"
        finally:
            agent.terminate()
            await asyncio.to_thread(agent.wait, 20)
        assert agent.returncode == 0, (tmp_path / "log").read_text()
