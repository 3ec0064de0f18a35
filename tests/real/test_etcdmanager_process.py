"""The cloud as a process, between a real kube-apiserver and a real etcd cluster with mutual TLS, under the shipped
rights: conditions on Nodes, the verdict in its ConfigMap, `beehive etcd status`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modules.demo.children import wait_until
from tests.real.etcd_place import EtcdPlace, memory
from tests.real.running.apiserver import ApiServer
from tests.real.running.etcd import EtcdCluster


@pytest.fixture
def place(own_apiserver: ApiServer, etcd_cluster: EtcdCluster, tmp_path: Path) -> Iterator[EtcdPlace]:
    made = EtcdPlace(own_apiserver, etcd_cluster, tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_a_learner_joins_a_member_dies_and_everybody_can_see_it(place: EtcdPlace) -> None:
    cloud = place.cloud()
    nobody = place.status()
    assert nobody.returncode == 1
    assert nobody.stderr == (
        "nobody has written to ConfigMap kubeedge/beehive-etcd yet; run the cloud with etcdmanager.endpoints set\n"
    )
    for number in (1, 2, 3, 4):
        place.add_node(f"node-{number}", f"server-{number}")
    place.start(cloud)
    votes = {f"node-{number}": "MemberNotLearner" for number in (1, 2, 3, 4)}
    place.wait({**votes, "node-4": "NotAMember"})
    assert place.writes() == 4
    assert memory(cloud) < 150_000_000
    learner = place.cluster.add_learner("server-4")
    place.wait(votes)
    assert place.writes() <= 6
    place.server.kubectl("wait", "--for=condition=EtcdIsVoter", "node/node-4", "--timeout=5s")
    wait_until(lambda: place.kept()["healthy"], 30, "all is well")
    good = place.status()
    assert "4 voters   quorum 3 of 4" in good.stdout
    assert good.stderr == ""
    learner.process.kill()
    place.wait({**votes, "node-4": "Unhealthy"})
    wait_until(lambda: "No: 3 of 4 voters answer" in place.kept()["mayGoDown"], 30, "the verdict is written")
    bad = place.status()
    assert bad.returncode == 1
    assert "Unhealthy: connection refused" in bad.stdout
    told: Any = json.loads(place.status("-o", "json").stdout)
    assert (told["healthy"], told["living"], told["needed"], told["stale"]) == (False, 3, 3, "")
    assert {one["node"]: one["mayGoDown"] for one in told["members"]} == {
        "node-1": "no", "node-2": "no", "node-3": "no", "node-4": "yes"
    }  # fmt: skip
