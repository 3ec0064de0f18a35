"""The informer on a real kube-apiserver, as the ServiceAccount with the rights that it needs and no others."""

import asyncio
import json
import resource
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beehive.api.crd import crd
from beehive.config import Duration
from beehive.messages.objects import (
    JobChanged,
    LeadershipChanged,
    ListJobs,
    ListNodes,
    NodeChanged,
    NodeGone,
    Patched,
    PatchJobStatus,
    PatchNode,
)
from modules.informer import Config
from tests.contracts.faults import Proxy, hangs, watches
from tests.contracts.informer import INIT, InformerContract, guards, hear, job_of, leading, op
from tests.contracts.informer_others import InformerOthersContract
from tests.contracts.place import EDGE, NODES, Object, Place, until
from tests.fakes.alone import alone
from tests.real.running.apiserver import ApiServer

ACCOUNT, NAMESPACE = "beehive", "kubeedge"


def _rule(group: str, resources: str, verbs: str) -> Object:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


def rights() -> list[Object]:
    """The least that the informer needs, per kind."""
    own = [
        _rule("", "secrets", "get list watch create patch"),
        _rule("coordination.k8s.io", "leases", "get create update"),
        _rule("", "configmaps", "get patch"),
    ]
    everywhere = [
        _rule("operations.kubeedge.io", "nodeupgradejobs", "get list watch patch"),
        _rule("operations.kubeedge.io", "nodeupgradejobs/status", "patch"),
        _rule("", "nodes", "get list watch patch"),
        _rule("", "nodes/status", "patch"),
    ]
    events = [_rule("", "events", "create patch")]
    return [
        *_bound("ClusterRole", "", everywhere),
        *_bound("Role", NAMESPACE, own),
        *_bound("Role", "default", events),
    ]


def _bound(kind: str, namespace: str, rules: list[Object]) -> list[Object]:
    api = "rbac.authorization.k8s.io"
    meta = {"name": ACCOUNT, **({"namespace": namespace} if namespace else {})}
    role = {"apiVersion": f"{api}/v1", "kind": kind, "metadata": meta, "rules": rules}
    return [
        role,
        {
            **role,
            "kind": f"{kind}Binding",
            "roleRef": {"apiGroup": api, "kind": kind, "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        },
    ]


def reached(server: ApiServer, folder: Path, definition: bool = True) -> tuple[Config, Config]:
    """How the admin and the ServiceAccount reach it; the definition is installed and the rights are bound."""
    token = server.service_account_token(ACCOUNT, NAMESPACE)
    bound = [
        {key: value for key, value in one.items() if key != "rules" or "Binding" not in one["kind"]} for one in rights()
    ]
    server.apply(*bound)
    if definition:
        install(server)
    account, admin = folder / "token", folder / "admin-token"
    account.write_text(f"{token}\n")
    admin.write_text(server.admin_token)
    base = Config(server=server.url, ca_file=str(server.ca_file), namespace=NAMESPACE)
    return (
        msgspec.structs.replace(base, token_file=str(admin)),
        msgspec.structs.replace(base, token_file=str(account)),
    )


def install(server: ApiServer) -> None:
    server.apply(crd())
    server.kubectl("wait", "--for=condition=Established", f"crd/{crd()['metadata']['name']}", "--timeout=30s")  # type: ignore[index]


@pytest.fixture(scope="module")
def reach(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Config]:
    return reached(apiserver, tmp_path_factory.mktemp("reach"))


@pytest.fixture
async def place(reach: tuple[Config, Config], apiserver: ApiServer) -> AsyncIterator[Place]:
    admin, account = reach
    async with Place(admin, account) as opened:
        yield opened
        await _clear(opened)


async def _clear(place: Place) -> None:
    for path in (NODES, "/apis/operations.kubeedge.io/v1alpha2/nodeupgradejobs"):
        await place.ok(place.client.delete(path))


@pytest.fixture
def own_reach(own_apiserver: ApiServer, tmp_path: Path) -> tuple[Config, Config]:
    return reached(own_apiserver, tmp_path)


@pytest.fixture
async def own_place(own_reach: tuple[Config, Config]) -> AsyncIterator[Place]:
    async with Place(*own_reach) as opened:
        yield opened


class TestOnKubeApiserver(InformerContract, InformerOthersContract):
    """The same tests as on the embedded server, under RBAC."""


async def test_a_kubeconfig_will_do(place: Place, apiserver: ApiServer) -> None:
    job = await place.job()
    kubeconfig = Config(kubeconfig=str(apiserver.kubeconfig), namespace=NAMESPACE)
    async with alone(Place(kubeconfig).informer()) as peers:
        assert job["metadata"]["uid"] in {one.metadata.uid for one in (await peers.ask(ListJobs())).items}


async def test_without_rights_it_waits_and_says_which_and_what_to_do(
    own_apiserver: ApiServer, own_place: Place, own_reach: tuple[Config, Config]
) -> None:
    own_apiserver.kubectl("delete", "clusterrolebinding", ACCOUNT)
    async with alone(own_place.informer(), ready=False) as peers:
        await until(lambda: "the right to list Nodes" in peers.module.waits_for, "the missing right is named")
        assert "configs/rbac.yaml" in peers.module.waits_for
        assert not peers.module.is_ready.is_set()
        binding = [one for one in rights() if one["kind"] == "ClusterRoleBinding"]
        own_apiserver.apply(*({key: value for key, value in one.items() if key != "rules"} for one in binding))
        await until(peers.module.is_ready.is_set, "ready after the rights were given", 30)


async def test_without_the_definition_it_waits_until_it_is_installed(own_apiserver: ApiServer, tmp_path: Path) -> None:
    admin, account = reached(own_apiserver, tmp_path, definition=False)
    async with Place(admin, account) as place, alone(place.informer(), ready=False) as peers:
        await until(lambda: "kubectl apply -f configs/crd" in peers.module.waits_for, "it says what to install")
        assert not peers.module.is_ready.is_set()
        install(own_apiserver)
        await until(peers.module.is_ready.is_set, "ready after the installation", 30)
        job = await place.job()
        await hear(peers, JobChanged, lambda said: said.job.metadata.uid == job["metadata"]["uid"])


async def test_a_restart_of_the_server_in_mid_watch_loses_nothing(own_apiserver: ApiServer, own_place: Place) -> None:
    node, job = await own_place.node(), await own_place.job()
    async with leading(own_place) as peers:
        await asyncio.to_thread(own_apiserver.process.stop, 2)
        await until(lambda: "connection refused" in peers.module.waits_for, "it says that the server is away")
        away = await peers.ask(PatchJobStatus(**guards(job), operations=INIT), timeout=20)
        assert not isinstance(away, Patched)
        await until(lambda: peers.all_of(LeadershipChanged)[-1].until == 0.0, "it leads no more")
        await asyncio.to_thread(own_apiserver.start)
        await own_place.label(node["metadata"]["name"], "after")
        await hear(peers, NodeChanged, lambda said: (said.node.metadata.labels or {}).get("step") == "after")
        await until(lambda: not peers.module.waits_for, "it is ready again")
        await until(lambda: peers.all_of(LeadershipChanged)[-1].until > 0.0, "it leads again")
        answer = await peers.ask(PatchJobStatus(**guards(job), operations=INIT))
        assert job_of(answer).status.phase == "Init"


async def test_after_a_compaction_it_lists_anew(
    own_apiserver: ApiServer, own_place: Place, own_reach: tuple[Config, Config]
) -> None:
    """It is cut off, things happen, and the server forgets them: its 410 is answered by a list, and all is told."""
    kept, doomed = await own_place.node(), await own_place.node()
    async with Proxy(own_apiserver.url, own_apiserver.tls()) as proxy:
        config = msgspec.structs.replace(own_reach[1], server=proxy.address, ca_file="")
        async with alone(Place(config).informer(watch_timeout=Duration(20))) as peers:
            hanging = proxy.fail(watches("/nodes"), hangs)
            proxy.cut()
            await until(lambda: hanging.hits > 0, "it is cut off")
            asked = next(one for one in reversed(proxy.seen) if "/nodes?watch" in one)
            await own_place.delete(f"{NODES}/{doomed['metadata']['name']}")
            await own_place.label(kept["metadata"]["name"], "changed")
            await asyncio.to_thread(own_apiserver.forget_history)
            new = await own_place.node()
            proxy.heal()
            start = len(proxy.seen)
            proxy.cut()
            await hear(peers, NodeGone, lambda said: said.uid == doomed["metadata"]["uid"])
            await until(lambda: len(peers.all_of(NodeChanged)) == 4, "the changed and the new one are told")
            told = {said.node.metadata.name: said.node for said in peers.all_of(NodeChanged)}
            assert (told[kept["metadata"]["name"]].metadata.labels or {}).get("step") == "changed"
            assert told[new["metadata"]["name"]].metadata.uid == new["metadata"]["uid"]
            version = asked.partition("resourceVersion=")[2].partition("&")[0]
            nodes = [one for one in proxy.seen[start:] if "/nodes" in one]
            assert f"resourceVersion={version}&" in nodes[0], "the version is not given up before the server says so"
            assert nodes[1].startswith("GET /api/v1/nodes?limit=")


async def test_who_is_cut_off_has_stopped_before_another_leads(
    place: Place, reach: tuple[Config, Config], apiserver: ApiServer
) -> None:
    """Both tell their grants on the same clock: the first one's ends before the second one's begins."""
    lease = place.config().lease
    first, second = (msgspec.structs.replace(lease, identity=name) for name in ("first", "second"))
    clock = asyncio.get_running_loop().time
    async with Proxy(apiserver.url, apiserver.tls()) as proxy:
        there = msgspec.structs.replace(reach[1], server=proxy.address, ca_file="")
        async with leading(Place(there), lease=first) as leader, alone(place.informer(lease=second)) as follower:
            await leader.heard(LeadershipChanged)
            proxy.fail(lambda _: True, hangs)
            proxy.cut()
            cut = clock()
            taken = await follower.heard(LeadershipChanged)
            now = clock()
            grants = [one.until for one in leader.all_of(LeadershipChanged)]
            assert grants[-1] == 0.0, "the loss is told before"
            assert grants[-2] < taken.until - lease.renew_deadline, "it ends before the other's begins"
            assert now - cut <= lease.duration + 2
            assert now >= grants[-2]
            proxy.heal()


async def test_a_thousand_nodes_in_pages(own_place: Place, record_property: Any) -> None:
    names = [f"edge-{number:04}" for number in range(1000)]
    for start in range(0, 1000, 50):
        body = (
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": n, "labels": EDGE}}
            for n in names[start : start + 50]
        )
        await asyncio.gather(*(own_place.make(NODES, one) for one in body))
    began = time.monotonic()
    async with leading(own_place) as peers:
        record_property("first_sync_seconds", round(time.monotonic() - began, 2))
        nodes = await peers.ask(ListNodes())
        assert sorted(one.metadata.name for one in nodes.items) == names
        cordon = (op("add", "/spec/unschedulable", True),)
        began = time.monotonic()
        asks = [
            peers.ask(
                PatchNode(
                    name=one.metadata.name,
                    uid=one.metadata.uid,
                    resource_version=one.metadata.resource_version,
                    operations=cordon,
                ),
                timeout=60,
            )
            for one in nodes.items
        ]
        answers = await asyncio.gather(*asks)
        record_property("thousand_cordons_seconds", round(time.monotonic() - began, 2))
        assert all(isinstance(one, Patched) for one in answers)
        assert all(one.spec.unschedulable for one in (await peers.ask(ListNodes())).items)
    record_property("max_rss_kb", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


async def test_a_leader_that_cannot_reach_the_server_stops_before_another_may_lead(
    own_apiserver: ApiServer, own_place: Place
) -> None:
    """The server hangs (it is paused): the grant ends by itself, on time, and the loss is told."""
    clock = asyncio.get_running_loop().time
    async with leading(own_place) as peers:
        own_apiserver.process.pause()
        paused = clock()
        try:
            await until(lambda: peers.all_of(LeadershipChanged)[-1].until == 0.0, "the loss is told")
            assert clock() - paused <= 3.0
        finally:
            own_apiserver.process.resume()
        await until(lambda: peers.all_of(LeadershipChanged)[-1].until > clock(), "it leads again")


async def test_nothing_is_written_that_would_not_be_asked_for_by_name(
    own_apiserver: ApiServer, own_place: Place
) -> None:
    """The least rights are enough for all that it did, and it asked for no others: no answer was 403."""
    async with leading(own_place) as peers:
        node = await own_place.node()
        answer = await peers.ask(PatchNode(**guards(node), operations=(op("add", "/spec/unschedulable", True),)))
        assert isinstance(answer, Patched)
    assert own_apiserver.requests_total(code="403") == 0
    assert json.loads(own_apiserver.kubectl("get", "node", node["metadata"]["name"], "-o", "json"))["spec"][
        "unschedulable"
    ]
