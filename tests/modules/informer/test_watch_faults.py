"""Lists and watches through a proxy that breaks them: nothing is missed, nothing spins, and it says why it waits."""

import asyncio
import json

import pytest
from aiohttp import web

from beehive.config import Duration
from beehive.errors import PeerFailed
from beehive.messages.objects import JobChanged, JobGone, ListJobs, ListNodes, NodeChanged, NodeGone, Patched, PatchNode
from modules.demo.apiserver.server import Server
from modules.informer import Config
from tests.contracts.faults import (
    Act,
    Proxy,
    answers,
    breaks,
    breaks_after,
    hangs,
    lists,
    refuses,
    streams,
    watches,
)
from tests.contracts.informer import guards, hear, leading, op
from tests.contracts.place import JOBS, NODES, Place, until
from tests.fakes.alone import Peers, alone

GONE = '{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'
BROKEN = '{"type":"ERROR","object":{"kind":"Status","code":500,"reason":"InternalError","message":"etcd"}}\n'


async def sees(peers: Peers, place: Place, name: str, value: str) -> None:
    """A change that is made now reaches the bus."""
    await place.label(name, value)
    await hear(peers, NodeChanged, lambda said: (said.node.metadata.labels or {}).get("step") == value)


@pytest.mark.parametrize(
    ("act", "lists_anew"),
    [
        (refuses(410, "Expired", "too old resource version"), True),
        (streams(GONE), True),
        (streams(BROKEN), False),
        (refuses(500, "InternalError"), False),
        (refuses(429, "TooManyRequests", retry_after="1"), False),
        (answers(502, "<html>bad gateway</html>"), False),
        (answers(302, "", location="/elsewhere"), False),
        (streams("{not json\n"), False),
        (streams('{"type":"ADDED"}\n'), False),
        (breaks_after('{"type":"ADDED","object":{"metadata":{"na'), False),
        (streams('{"type":"MODIFIED","object":{"metadata":{"na'), False),
        (streams("\n\n"), False),
        (breaks, False),
    ],
    ids=[
        "410",
        "410 inside",
        "500 inside",
        "500",
        "429",
        "a gateway",
        "a redirect",
        "no JSON",
        "half an event",
        "cut in a line",
        "ends in a line",
        "empty lines",
        "breaks",
    ],
)
async def test_a_watch_that_fails_is_mended(place: Place, proxy: Proxy, act: Act, lists_anew: bool) -> None:
    """While it is broken one Node changes and one goes; both are told afterwards."""
    name, doomed = await _two(place)
    async with alone(place.informer()) as peers:
        fault = proxy.fail(watches("/nodes"), act, times=2)
        proxy.cut()
        await until(lambda: fault.hits > 0, "the fault was met")
        before = proxy.count("GET /api/v1/nodes?limit")
        await place.delete(f"{NODES}/{doomed}")
        await sees(peers, place, name, "after")
        await hear(peers, NodeGone, lambda said: said.name == doomed)
        assert {one.metadata.name for one in (await peers.ask(ListNodes())).items} == {name}
        if lists_anew:
            assert proxy.count("GET /api/v1/nodes?limit") > min(before, 1)


async def _two(place: Place) -> tuple[str, str]:
    return (await place.node())["metadata"]["name"], (await place.node())["metadata"]["name"]


async def test_a_token_that_expires_is_followed_by_a_list_in_one_piece(place: Place, proxy: Proxy) -> None:
    for _ in range(3):
        await place.node()
    page = {"metadata": {"resourceVersion": "1", "continue": "expired"}, "items": []}
    proxy.fail(
        lambda r: lists("/nodes")(r) and "limit" in r.query and "continue" not in r.query,
        answers(200, json.dumps(page)),
    )
    proxy.fail(lambda r: "continue" in r.query, refuses(410, "Expired"))
    async with alone(place.informer()) as peers:
        assert len((await peers.ask(ListNodes())).items) == 3
    asked = [one for one in proxy.seen if one.startswith("GET /api/v1/nodes") and "watch" not in one]
    assert asked == ["GET /api/v1/nodes?limit=500", "GET /api/v1/nodes?limit=500&continue=expired", "GET /api/v1/nodes"]


async def test_six_hundred_nodes_come_in_pages(place: Place, proxy: Proxy) -> None:
    names = [f"edge-{number:03}" for number in range(600)]
    for start in range(0, 600, 50):
        body = ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names[start : start + 50])
        await asyncio.gather(*(place.make(NODES, one) for one in body))
    async with alone(place.informer()) as peers:
        assert sorted(one.metadata.name for one in (await peers.ask(ListNodes())).items) == names
    assert proxy.count("continue=") == 1


async def test_a_half_open_watch_is_noticed(place: Place, proxy: Proxy) -> None:
    """The server says nothing and does not end the watch in its time: half the time more, and it counts as dead."""
    name = (await place.node())["metadata"]["name"]
    fault = proxy.fail(watches("/nodes"), streams(close=False), times=1)
    clock = asyncio.get_running_loop().time
    async with alone(place.informer(watch_timeout=Duration(1))) as peers:
        await until(lambda: fault.hits > 0, "the watch is open")
        began = clock()
        await sees(peers, place, name, "late")
        assert clock() - began < 4


def test_by_default_a_half_open_watch_is_noticed_within_45_seconds() -> None:
    assert Config().watch_timeout * 1.5 <= 45


@pytest.mark.parametrize("act", [streams(), refuses(410, "Expired")], ids=["ends", "410"])
async def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_hot_loop(
    place: Place, proxy: Proxy, act: Act
) -> None:
    proxy.fail(watches("/nodes"), act)
    async with alone(place.informer()):
        await until(lambda: proxy.count("watch=true&resourceVersion") > 0, "it watches")
        start = len(proxy.seen)
        await asyncio.sleep(2)
        asked = [one for one in proxy.seen[start:] if "/nodes" in one]
    assert 2 <= len(asked) <= 13, asked


async def test_a_missing_server_is_waited_for_visibly(place: Place, proxy: Proxy, server: Server) -> None:
    gone = Proxy("http://127.0.0.1:1")
    async with gone:
        pass
    async with Place(Config(server=gone.address)) as nowhere, alone(nowhere.informer(), ready=False) as peers:
        said = f"the API server at {gone.address}: connection refused"
        await until(lambda: peers.module.waits_for == said, f"it says {said!r}")
        assert not peers.module.is_ready.is_set()


async def test_it_is_ready_when_all_is_listed_and_not_before(place: Place, proxy: Proxy) -> None:
    await place.node()
    proxy.fail(lists("/nodeupgradejobs"), refuses(503, "ServiceUnavailable", "etcd is away"))
    async with alone(place.informer(), ready=False) as peers:
        await until(lambda: "etcd is away" in peers.module.waits_for, "it says why")
        await peers.heard(NodeChanged)
        assert not peers.module.is_ready.is_set()
        early = asyncio.ensure_future(peers.ask(ListJobs(), timeout=20))
        job = await place.job()
        await asyncio.sleep(0)
        assert not early.done()
        proxy.heal()
        await asyncio.wait_for(peers.module.is_ready.wait(), 20)
        assert [one.metadata.uid for one in (await early).items] == [job["metadata"]["uid"]]
        assert peers.module.waits_for == ""


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (answers(404, "404 page not found"), "kubectl apply -f configs/crd, or beehive crd | kubectl apply -f -"),
        (refuses(403, "Forbidden", "nodeupgradejobs is forbidden"), "the right to list NodeUpgradeJobs"),
        (refuses(401, "Unauthorized", "Unauthorized"), "Unauthorized"),
        (answers(200, "<html>a login page</html>"), "something else than JSON"),
        (answers(200, '{"metadata":{"resourceVersion":"x"},"items":[]}'), "not a number"),
        (breaks, "the connection was cut"),
    ],
    ids=["no definition", "no right", "no identity", "no JSON", "no version", "breaks"],
)
async def test_what_it_waits_for_is_said(place: Place, proxy: Proxy, act: Act, said: str) -> None:
    proxy.fail(lists("/nodeupgradejobs"), act)
    async with alone(place.informer(), ready=False) as peers:
        await until(lambda: said in peers.module.waits_for, f"it says {said!r}")
        proxy.heal()
        await asyncio.wait_for(peers.module.is_ready.wait(), 20)


async def test_a_list_that_hangs_is_given_up(place: Place, proxy: Proxy) -> None:
    proxy.fail(lists("/nodes"), hangs, times=1)
    async with alone(place.informer(list_timeout=Duration(0.5)), ready=False) as peers:
        await until(lambda: "no answer in time" in peers.module.waits_for, "it says so")
        await asyncio.wait_for(peers.module.is_ready.wait(), 20)


async def test_a_long_outage_shows_and_ends(place: Place, proxy: Proxy) -> None:
    name = (await place.node())["metadata"]["name"]
    async with alone(place.informer()) as peers:
        assert peers.module.waits_for == ""
        proxy.fail(lambda _: True, refuses(503, "ServiceUnavailable", "starting"))
        proxy.cut()
        await until(lambda: "starting" in peers.module.waits_for, "the outage shows")
        assert peers.module.is_ready.is_set()  # it was, and the others go on
        proxy.heal()
        await sees(peers, place, name, "back")
        await until(lambda: peers.module.waits_for == "", "it is over")


async def test_one_that_cannot_be_read_spoils_only_itself(place: Place, proxy: Proxy) -> None:
    """In a list and in a watch: the others are told, and what was known of it stays."""
    name = (await place.node())["metadata"]["name"]
    strange = {"metadata": {"name": "strange", "uid": "u", "resourceVersion": "2"}, "spec": {"unschedulable": "maybe"}}
    good = (await place.get(f"{NODES}/{name}")) | {"kind": "Node"}
    version = good["metadata"]["resourceVersion"]
    page = {"metadata": {"resourceVersion": version}, "items": [strange, good, {"no": "metadata"}, 7]}
    proxy.fail(lists("/nodes"), answers(200, json.dumps(page)), times=1)
    event = {"type": "MODIFIED", "object": strange | {"metadata": {"name": "strange", "resourceVersion": version}}}
    proxy.fail(watches("/nodes"), streams(json.dumps(event) + "\n"), times=1)
    async with alone(place.informer()) as peers:
        assert [one.metadata.name for one in (await peers.ask(ListNodes())).items] == [name]
        await sees(peers, place, name, "fine")


async def test_a_late_watch_never_takes_a_write_back(place: Place, proxy: Proxy) -> None:
    """News from before a write arrive after its answer: the cache keeps the answer, and says each state once."""
    node = await place.node()
    name = node["metadata"]["name"]
    async with leading(place, watch_timeout=Duration(20)) as peers:
        proxy.held.clear()
        await place.label(name, "one")
        node = await place.label(name, "two")
        cordon = (op("add", "/spec/unschedulable", True),)
        answer = await peers.ask(PatchNode(**guards(node), operations=cordon))
        assert isinstance(answer, Patched)
        proxy.held.set()
        await place.node("witness")
        await hear(peers, NodeChanged, lambda said: said.node.metadata.name == "witness")
        told = [said.node for said in peers.all_of(NodeChanged) if said.node.metadata.name == name]
        assert told[-1] == answer.object
        assert [(one.metadata.labels or {}).get("step") for one in told] == [None, "two"]
        kept = {one.metadata.name: one for one in (await peers.ask(ListNodes())).items}
        assert kept[name] == answer.object


async def test_a_fresh_list_knows_what_the_watch_has_not_brought(place: Place, proxy: Proxy) -> None:
    async with alone(place.informer(watch_timeout=Duration(20))) as peers:
        proxy.held.clear()
        doomed = await place.job()
        proxy.held.set()
        await hear(peers, JobChanged, lambda said: said.job.metadata.uid == doomed["metadata"]["uid"])
        proxy.held.clear()
        await place.delete(f"{JOBS}/{doomed['metadata']['name']}")
        made = await place.job()
        assert [one.metadata.uid for one in (await peers.ask(ListJobs())).items] == [doomed["metadata"]["uid"]]
        fresh = await peers.ask(ListJobs(fresh=True))
        assert [one.metadata.uid for one in fresh.items] == [made["metadata"]["uid"]]
        proxy.held.set()
        witness = await place.job()
        await hear(peers, JobChanged, lambda said: said.job.metadata.uid == witness["metadata"]["uid"])
        told = [said.job.metadata.uid for said in peers.all_of(JobChanged)]
        assert told.count(made["metadata"]["uid"]) == 1
        listed = {one.metadata.uid for one in (await peers.ask(ListJobs())).items}
        assert listed == {made["metadata"]["uid"], witness["metadata"]["uid"]}


async def test_a_list_that_was_overtaken_is_not_taken_for_the_truth(place: Place, proxy: Proxy) -> None:
    """It was read before a job was made and arrives after a newer list: the job must not be told as gone."""
    async with alone(place.informer(watch_timeout=Duration(20))) as peers:
        await until(lambda: proxy.count("/nodeupgradejobs?watch"), "the watch is open, so that it can be cut")
        arrive = asyncio.Event()

        async def slowly(request: web.Request) -> web.StreamResponse:
            listed = await place.get(request.path)
            await arrive.wait()
            return web.json_response(listed)

        late = proxy.fail(lists("/nodeupgradejobs"), slowly, times=1)
        proxy.fail(watches("/nodeupgradejobs"), refuses(410, "Expired"), times=1)
        proxy.cut()
        await until(lambda: late.hits > 0, "the list is being read anew")
        job = await place.job()
        fresh = await peers.ask(ListJobs(fresh=True))
        assert [one.metadata.uid for one in fresh.items] == [job["metadata"]["uid"]]
        arrive.set()
        witness = await place.job()
        await hear(peers, JobChanged, lambda said: said.job.metadata.uid == witness["metadata"]["uid"])
        assert not peers.all_of(JobGone)
        assert len((await peers.ask(ListJobs())).items) == 2


async def test_a_fresh_list_that_cannot_be_had_is_no_answer(place: Place, proxy: Proxy) -> None:
    async with alone(place.informer()) as peers:
        proxy.fail(lists("/nodeupgradejobs"), refuses(503, "ServiceUnavailable", "starting"))
        with pytest.raises(PeerFailed, match="starting"):
            await peers.ask(ListJobs(fresh=True))
        assert (await peers.ask(ListJobs())).items == ()
