"""The port to etcd: endpoints, certificates, addresses; every fault named in a sentence, none fatal."""

import asyncio
import datetime
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from beehive.config import Duration
from beehive.errors import Unavailable
from modules.etcdmanager.config import Config
from modules.etcdmanager.etcd import Etcd
from modules.etcdmanager.sight import Seen
from tests.real.running.etcd import EtcdCluster, Identity
from tests.real.throttle import Throttle
from tests.real.watching import config, follower


@pytest.fixture(scope="module")
def cluster(_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """Three members that these tests only look at."""
    made = EtcdCluster.started(tmp_path_factory.mktemp("etcd") / "port")
    yield made
    made.remove()


async def look(made: Config) -> Seen:
    etcd = Etcd(made)
    try:
        return (await etcd.look({}, frozenset(), frozenset())).seen
    finally:
        await etcd.close()


async def trouble(made: Config) -> str:
    with pytest.raises(Unavailable) as refused:
        await look(made)
    return refused.value.reason


async def test_every_member_is_probed_at_its_own_address(cluster: EtcdCluster) -> None:
    seen = await look(config(cluster))
    assert sorted(member.name for member in seen.members) == ["server-1", "server-2", "server-3"]
    assert {number: probe.member_id for number, probe in seen.probes.items()} == {n: n for n in seen.probes}
    assert len({probe.leader for probe in seen.probes.values()}) == 1
    assert seen.fenced
    assert seen.endpoint_troubles == {}
    assert seen.cluster_id


async def test_one_good_endpoint_is_enough_and_the_others_are_named(
    cluster: EtcdCluster, tmp_path: Path
) -> None:  # fmt: skip
    good = cluster.members[0].client_url
    with socket.create_server(("127.0.0.1", 0)) as mute, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        silent, dead = (f"https://127.0.0.1:{one.getsockname()[1]}" for one in (mute, closed))
        bad = {
            "nonsense": "nonsense is not a client URL of etcd; write one like https://10.0.0.1:2379",
            "https://127.0.0.1:99999": "https://127.0.0.1:99999 is not a client URL of etcd; write one like "
            "https://10.0.0.1:2379",
            "https://127.0.0.1/x": "https://127.0.0.1/x is not a client URL of etcd; write one like "
            "https://10.0.0.1:2379",
            dead: "connection refused",
            silent: "did not answer in 1 s",
            good.replace("https", "http"): "the connection is closed at once: does it speak TLS? Write https:// then",
        }
        seen = await look(config(cluster, endpoints=(*bad, good)))
    assert dict(seen.endpoint_troubles) == bad
    assert len(seen.members) == 3


async def test_a_learners_endpoint_is_not_asked_for_the_list_in_vain(cluster: EtcdCluster) -> None:
    """One that is no etcd at all, here: the peer port, which speaks TLS and HTTP."""
    peer = cluster.members[0].peer_url
    seen = await look(config(cluster, endpoints=(peer, cluster.members[1].client_url)))
    assert list(seen.endpoint_troubles) == [peer]
    assert len(seen.endpoint_troubles[peer]) < 300


async def test_when_all_configured_endpoints_die_the_known_members_are_asked(etcd_cluster: EtcdCluster) -> None:
    only = follower(etcd_cluster)
    etcd = Etcd(config(etcd_cluster, endpoints=(only.client_url,)))
    try:
        await etcd.look({}, frozenset(), frozenset())
        only.process.kill()
        seen = (await etcd.look({}, frozenset(), frozenset())).seen
        assert seen.fenced
        assert dict(seen.endpoint_troubles) == {only.client_url: "connection refused"}
        etcd_cluster.start(only)
        async with asyncio.timeout(5):
            while (await etcd.look({}, frozenset(), frozenset())).seen.endpoint_troubles:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        await etcd.close()


async def test_over_ipv6(cluster: EtcdCluster) -> None:
    """A relay on ::1: the members listen on IPv4."""
    port = int(cluster.members[0].client_url.rpartition(":")[2])
    relay = Throttle(1e9, "::1")
    try:
        url = f"https://[::1]:{relay.through(port)}"
        seen = await look(config(cluster, endpoints=(url,)))
        assert (len(seen.members), dict(seen.endpoint_troubles)) == (3, {})
    finally:
        relay.close()


def other_ca(cluster: EtcdCluster, folder: Path) -> Identity:
    """Members are judged by a CA that did not issue their certificates."""
    file = folder / "other-ca.pem"
    trustme.CA().cert_pem.write_to_path(str(file))
    return replace(cluster.client, ca=file)


def expired(cluster: EtcdCluster, folder: Path) -> Identity:
    """Of the right CA, and of yesterday."""
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    leaf = cluster.authority.issue_cert("127.0.0.1", not_after=yesterday)
    leaf.cert_chain_pems[0].write_to_path(str(folder / "old.pem"))
    leaf.private_key_pem.write_to_path(str(folder / "old-key.pem"))
    return Identity(cluster.client.ca, folder / "old.pem", folder / "old-key.pem")


async def test_faults_of_certificates_have_their_own_names(cluster: EtcdCluster, tmp_path: Path) -> None:
    only = {"endpoints": (cluster.members[0].client_url,)}
    cases = {
        "it does not know the CA of our client certificate": config(cluster, cluster.stranger, **only),
        "our client certificate has expired": config(cluster, expired(cluster, tmp_path), **only),
        "its certificate is of a CA that is not in etcdmanager.caFile": config(
            cluster, other_ca(cluster, tmp_path), **only
        ),
        "it wants a client certificate; set etcdmanager.certFile and keyFile": Config(
            endpoints=only["endpoints"], ca_file=str(cluster.client.ca), probe_timeout=Duration(1)
        ),
    }
    for sentence, made in cases.items():
        assert await trouble(made) == f"{only['endpoints'][0]}: {sentence}"


async def test_a_file_that_is_missing_or_no_certificate_is_named(cluster: EtcdCluster, tmp_path: Path) -> None:
    only = {"endpoints": (cluster.members[0].client_url,)}
    missing = await trouble(config(cluster, replace(cluster.client, key=tmp_path / "none.pem"), **only))
    assert f"{tmp_path}/none.pem: No such file or directory; etcdmanager cannot talk TLS without it" in missing
    (tmp_path / "garbage.pem").write_text("garbage")
    garbage = await trouble(config(cluster, replace(cluster.client, certificate=tmp_path / "garbage.pem"), **only))
    assert "garbage.pem" in garbage
    assert "are not certificates and key that belong together" in garbage


async def test_certificates_that_are_replaced_in_place_count_from_the_next_pass(
    cluster: EtcdCluster, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem")]

    def put(identity: Identity) -> None:
        for file, source in zip(files, (identity.ca, identity.certificate, identity.key), strict=True):
            fresh = file.with_suffix(".new")
            fresh.write_bytes(source.read_bytes())
            fresh.replace(file)

    put(cluster.stranger)
    etcd = Etcd(config(cluster, Identity(*files)))
    try:
        with pytest.raises(Unavailable):
            await etcd.look({}, frozenset(), frozenset())
        put(cluster.client)
        assert len((await etcd.look({}, frozenset(), frozenset())).seen.probes) == 3
        put(cluster.issue("client-2"))
        assert len((await etcd.look({}, frozenset(), frozenset())).seen.probes) == 3
        assert etcd.channels.reloads == 2
        put(cluster.stranger)
        with pytest.raises(Unavailable):
            await etcd.look({}, frozenset(), frozenset())
    finally:
        await etcd.close()
