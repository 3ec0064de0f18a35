"""The network between edge and cloud goes wrong (toxiproxy); nothing is lost, nothing is delivered twice.

`pytest tests/real/test_channel_faults.py -s` prints the table.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest

from beehive.config import Duration
from beehive.messages.fleet import Heard, NodeOffline, NodeOnline, Tell
from beehive.messages.tasks import CancelTask, ReportSeen, StartTask
from beehive.messages.uplink import CloudLost, CloudReached, LinkState, Say
from modules.cloudhub.reception import GOODBYE
from tests.fakes.alone import Peers
from tests.modules.cloudhub.ends import TASK, UID, Hub, edge, hub, report, until
from tests.real.channel import anyio_backend
from tests.real.running.toxiproxy import Proxy, toxiproxy

__all__ = ["anyio_backend"]

Fault = Callable[[Proxy], Awaitable[None]]
REPORTS, TASKS = 30, 10
pytestmark = pytest.mark.usefixtures("_programs")


async def nothing(_: Proxy) -> None:
    """For comparison."""


async def slow(proxy: Proxy) -> None:
    proxy.add("latency", "both", latency=200, jitter=100)
    await asyncio.sleep(2)


async def narrow(proxy: Proxy) -> None:
    proxy.add("bandwidth", "both", rate=4)
    await asyncio.sleep(2)


async def sliced(proxy: Proxy) -> None:
    proxy.add("slicer", "both", average_size=7, size_variation=3, delay=100)
    await asyncio.sleep(2)


async def cut_in_a_frame(proxy: Proxy) -> None:
    for _ in range(3):
        proxy.add("limit_data", "both", bytes=700)
        await asyncio.sleep(0.4)
        proxy.clear()


async def reset(proxy: Proxy) -> None:
    for _ in range(3):
        proxy.add("reset_peer", "both", timeout=0)
        await asyncio.sleep(0.3)
        proxy.clear()
        await asyncio.sleep(0.5)


async def half_open(proxy: Proxy) -> None:
    """Everything is swallowed, and neither end is told."""
    proxy.add("timeout", "both", timeout=0)
    await asyncio.sleep(4)


async def acknowledgements_lost(proxy: Proxy) -> None:
    proxy.add("timeout", "downstream", timeout=0)
    await asyncio.sleep(4)


async def reports_lost(proxy: Proxy) -> None:
    proxy.add("timeout", "upstream", timeout=0)
    await asyncio.sleep(4)


async def down(proxy: Proxy) -> None:
    proxy.enable(False)
    await asyncio.sleep(2)


async def flapping(proxy: Proxy) -> None:
    for _ in range(8):
        proxy.enable(False)
        await asyncio.sleep(0.1)
        proxy.enable(True)
        await asyncio.sleep(0.2)


FAULTS: tuple[Fault, ...] = (
    nothing, slow, narrow, sliced, cut_in_a_frame, reset, half_open, acknowledgements_lost, reports_lost, down,
    flapping,
)  # fmt: skip


@pytest.fixture(scope="module")
def proxies(_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with toxiproxy(tmp_path_factory.mktemp("toxiproxy")) as api:
        yield api


@pytest.fixture(scope="module")
def rows() -> Iterator[list[str]]:
    found: list[str] = []
    yield found
    head = f"{'fault':<24}{'seen by cloud':<26}{'seen by edge':<36}lost doubled repeated"
    sys.stdout.write("\n" + "\n".join((head, *found)) + "\n")


async def acknowledge(cloud: Hub) -> None:
    """taskmanager: each report is seen."""
    while True:
        heard = await cloud.peers.heard(Heard, timeout=3600)
        seen = ReportSeen(job="job-1", uid=UID, attempt=heard.body.attempt, revision=1)
        await cloud.peers.send(Tell(node=heard.node, body=seen, answers=heard.message_id))


async def talk(cloud: Hub, host: Peers) -> None:
    """Reports up, tasks down, for about a second and a half."""
    for number in range(REPORTS):
        await host.send(Say(body=report(1, attempt=number)))
        if number % (REPORTS // TASKS) == 0:
            await cloud.peers.send(Tell(node="edge-a", body=CancelTask(job=TASK.job, uid=UID, attempt=number)))
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
async def test_nothing_is_lost_and_nothing_delivered_twice(
    fault: Fault, tmp_path: Path, proxies: httpx.Client, rows: list[str]
) -> None:
    loop = asyncio.get_running_loop()
    quick = {"heartbeat": Duration(0.5), "dead_after": Duration(2), "longest_delay": Duration(1)}
    async with hub(tmp_path, keepalive=Duration(2)) as cloud:
        await cloud.lead()
        await cloud.join("edge-a", tmp_path / "a")
        proxy = Proxy(proxies, fault.__name__, cloud.server)
        async with edge(tmp_path / "a", proxy.address, **quick) as (uplink, host):
            await host.heard(CloudReached)
            acknowledging = asyncio.create_task(acknowledge(cloud))
            talking = asyncio.create_task(talk(cloud, host))
            await asyncio.sleep(0.3)
            await fault(proxy)
            proxy.clear()
            proxy.enable(True)
            over = loop.time()
            await talking

            async def all_seen() -> bool:
                state = await host.ask(LinkState())
                return state.connected and not state.waiting

            await until(all_seen, "every report is acknowledged", 20)
            took = loop.time() - over
            acknowledging.cancel()
            heard = cloud.peers.all_of(Heard)
            ids = [one.message_id for one in heard]
            lost = set(range(REPORTS)) - {one.body.attempt for one in heard}
            told = [one.attempt for one in host.all_of(CancelTask)]
            doubled = len(ids) - len(set(ids)) + len(told) - len(set(told))
            online, offline = len(cloud.peers.all_of(NodeOnline)), len(cloud.peers.all_of(NodeOffline))
            links, breaks = len(host.all_of(CloudReached)), len(host.all_of(CloudLost))
            rows.append(
                f"{fault.__name__:<24}{f'{online} sessions, {offline} times gone':<26}"
                f"{f'{links} links, {breaks} lost; all seen +{took:.1f} s':<36}"
                f"{len(lost):<5}{doubled:<8}{len(ids) - REPORTS}"
            )
            assert (lost, doubled) == (set(), 0)
            assert host.all_of(StartTask) == []
            assert uplink.counters["refused_frames"] == cloud.counted("refused_frames") == 0
            assert took < 6.0
    await asyncio.sleep(GOODBYE + 0.2)  # so long TLS waits for the goodbye of an end that is gone
