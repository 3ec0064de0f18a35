"""The edge's link in virtual time, over a network that a test plays: heartbeats, silence, delays, legacy clouds."""

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from beehive.api.nodeupgradejob import ActionResult
from beehive.config import Duration
from beehive.errors import Unavailable
from beehive.journal import Journal
from beehive.messages import wire
from beehive.messages.tasks import Hello, ReportSeen, StartTask
from beehive.messages.uplink import CloudLost, CloudReached, LinkState, Say
from beehive.module import Endpoint
from beehive.world import World
from modules.edgehub.config import Config
from modules.edgehub.module import EdgeHub, Network
from modules.edgehub.uplink import Connection, _phrase
from tests.fakes.alone import alone
from tests.modules.cloudhub.ends import TASK, UID, report

pytestmark = pytest.mark.virtual_time


class Wire:
    """One link in memory."""

    def __init__(self, legacy: bool = False) -> None:
        self.legacy = legacy
        self.ca = ""
        self.up: list[tuple[float, bytes]] = []
        self.answers_pings = True
        self.spread: float | None = None
        self._down: asyncio.Queue[bytes | None] = asyncio.Queue()

    def operations(self) -> list[str]:
        return [str(json.loads(data)["route"]["operation"]) for _, data in self.up]

    def reports(self) -> list[bytes]:
        return [data for _, data in self.up if b'"UpdateNodeActionStatus"' in data]

    def say(self, data: bytes | None) -> None:
        self._down.put_nowait(data)

    async def send(self, data: bytes) -> None:
        self.up.append((asyncio.get_running_loop().time(), data))

    async def frames(self) -> AsyncIterator[bytes]:
        while (data := await self._down.get()) is not None:
            yield data

    async def alive(self, timeout: float) -> bool:
        if not self.answers_pings:
            await asyncio.sleep(timeout)
        return self.answers_pings

    async def close(self) -> None:
        self.say(None)

    def cut(self) -> None:
        self.say(None)

    def why(self) -> tuple[str, float | None]:
        return "the test ended it", self.spread


class Played(Network):
    """The network: what each dial meets, in order; a number of dials that fail, or a link."""

    script: "list[int | Wire]"

    def __init__(self, config: Config, world: World) -> None:
        super().__init__(config, world)
        self.node = "edge-a"
        self.dials: list[float] = []
        Played.last = self

    last: "Played"

    async def await_identity(self, endpoint: Endpoint) -> None:
        pass

    async def dial(self, server: str) -> Connection:
        self.dials.append(asyncio.get_running_loop().time())
        head = self.script[0] if self.script else 10**9
        if isinstance(head, Wire):
            self.script.pop(0)
            return head
        self.script[:1] = [head - 1] if head > 1 else []
        raise Unavailable(f"{server}: connection refused")


def hub_with(tmp_path: Path, world: World, *script: "int | Wire") -> EdgeHub:
    Played.script = list(script)
    return EdgeHub(Config(), world, Journal(tmp_path), Played)


async def test_a_sign_of_life_every_fifteen_seconds_from_the_first_second(tmp_path: Path, world: World) -> None:
    link = Wire()
    async with alone(hub_with(tmp_path, world, link), world=world) as host:
        await host.heard(CloudReached)
        await asyncio.sleep(61)
        times = [when for when, data in link.up if b'"keepalive"' in data]
        assert times == [0.0, 15.0, 30.0, 45.0, 60.0]


async def test_a_cloud_that_died_silently_is_noticed_within_forty_five_seconds(tmp_path: Path, world: World) -> None:
    link, next_link = Wire(), Wire()
    async with alone(hub_with(tmp_path, world, link, next_link), world=world) as host:
        await host.heard(CloudReached)
        await asyncio.sleep(20)
        link.answers_pings = False
        began = asyncio.get_running_loop().time()
        await host.heard(CloudLost, timeout=60)
        assert asyncio.get_running_loop().time() - began <= 45
        await host.heard(CloudReached)


async def test_delays_grow_and_the_state_says_why(tmp_path: Path, world: World) -> None:
    link = Wire()
    async with alone(hub_with(tmp_path, world, 6, link), world=world) as host:
        await asyncio.sleep(0.1)
        state = await host.ask(LinkState())
        assert not state.connected
        assert state.trouble == "the cloud cannot be reached: 127.0.0.1:10000: connection refused"
        assert "connection refused" in host.module.waits_for
        await host.heard(CloudReached, timeout=120)
        gaps = [round(later - earlier, 3) for earlier, later in itertools.pairwise(Played.last.dials)]
        assert gaps == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]  # chance is in the middle
        assert host.module.waits_for == ""


async def test_a_change_of_routes_dials_at_once(tmp_path: Path, world: World) -> None:
    hub = hub_with(tmp_path, world, 6, Wire())
    async with alone(hub, world=world):
        await asyncio.sleep(5)  # the next dial is at 7.75
        hub.nudge()
        await asyncio.sleep(0.01)
        assert Played.last.dials[-1] == pytest.approx(5.0)


async def test_a_change_of_routes_while_connected_doubts_the_link(tmp_path: Path, world: World) -> None:
    """The way that the link took may be gone: who does not answer within 5 s is taken as gone, instead of 40."""
    alive, dead = Wire(), Wire()
    module = hub_with(tmp_path, world, alive, dead, Wire())
    async with alone(module, name="edgehub", world=world) as host:
        await host.heard(CloudReached)
        await asyncio.sleep(1)
        module.nudge()
        await asyncio.sleep(1)
        assert alive.operations() == ["keepalive", "keepalive"]
        alive.say(None)
        await host.heard(CloudReached)
        await asyncio.sleep(1)
        dead.answers_pings = False
        began = asyncio.get_running_loop().time()
        module.nudge()
        await host.heard(CloudLost)
        await host.heard(CloudLost)
        assert asyncio.get_running_loop().time() - began == pytest.approx(5, abs=0.1)


async def test_a_change_of_routes_while_connected_does_not_defeat_a_spread(tmp_path: Path, world: World) -> None:
    first = Wire()
    module = hub_with(tmp_path, world, first, Wire())
    async with alone(module, name="edgehub", world=world) as host:
        await host.heard(CloudReached)
        module.nudge()
        await asyncio.sleep(1)
        first.spread = 100.0
        began = asyncio.get_running_loop().time()
        first.say(None)
        await host.heard(CloudReached, timeout=200)
        assert Played.last.dials[-1] - began == pytest.approx(100 * world.random(), abs=0.1)


async def test_the_spread_of_a_close_is_obeyed(tmp_path: Path, world: World) -> None:
    link = Wire()
    link.spread = 40.0
    async with alone(hub_with(tmp_path, world, link, Wire()), world=world) as host:
        await host.heard(CloudReached)
        link.say(None)
        await host.heard(CloudLost)
        await host.heard(CloudReached, timeout=60)
        assert Played.last.dials == [0.0, 20.0]


async def test_a_report_is_repeated_every_twenty_seconds_and_at_each_new_link(tmp_path: Path, world: World) -> None:
    first, second = Wire(), Wire()
    async with alone(hub_with(tmp_path, world, first, second), world=world) as host:
        await host.heard(CloudReached)
        await asyncio.sleep(1)
        await host.send(Say(body=report(1)))
        await host.send(Say(body=report(2)))
        await asyncio.sleep(44)
        said = [wire.from_edge(data).body for data in first.reports()]
        assert said == [report(1), report(2), report(2), report(2)]
        first.say(None)
        await host.heard(CloudLost)
        await host.heard(CloudReached)
        await asyncio.sleep(0.1)
        assert [wire.from_edge(data).body for data in second.reports()] == [report(2)]
        seen = ReportSeen(job="job-1", uid=UID, attempt=0, revision=2)
        second.say(wire.to_edge(seen, "edge-a", "m", 1.0))
        assert await host.heard(ReportSeen) == seen
        await asyncio.sleep(100)
        assert len(second.reports()) == 1


async def test_after_a_month_offline_the_report_is_still_said(tmp_path: Path, world: World) -> None:
    """Two processes: the first ends in the middle of the month. It dials all the time, at the longest delay."""
    config = Config(longest_delay=Duration(3600))
    done = report(7, final=True)
    Played.script = []
    async with alone(EdgeHub(config, world, Journal(tmp_path), Played), world=world) as host:
        await host.send(Say(body=done))
        await asyncio.sleep(15 * 86400)
        assert 15 * 24 < len(Played.last.dials) < 15 * 24 * 4
        assert (await host.ask(LinkState())).waiting == 1
    link = Wire()
    Played.script = [700, link]
    async with alone(EdgeHub(config, world, Journal(tmp_path), Played), world=world) as host:
        await host.heard(CloudReached, timeout=30 * 86400)
        assert asyncio.get_running_loop().time() > 25 * 86400
        await asyncio.sleep(1)
        assert [wire.from_edge(data).body for data in link.reports()] == [done]


async def test_a_hello_is_said_once_or_not_at_all(tmp_path: Path, world: World) -> None:
    link = Wire()
    asking = Hello(job="job-1", uid=UID, attempt=0, action="Upgrade")
    async with alone(hub_with(tmp_path, world, 1, link), world=world) as host:
        await host.send(Say(body=asking))
        await host.heard(CloudReached)
        await asyncio.sleep(60)
        assert "Hello" not in link.operations()
        await host.send(Say(body=asking))
        await asyncio.sleep(60)
        assert link.operations().count("Hello") == 1


async def test_to_a_real_cloudcore_each_result_goes_once_in_order_and_apart(tmp_path: Path, world: World) -> None:
    done = [ActionResult(action=name, status="True", time="2026-01-01T00:00:05Z") for name in ("Check", "BackUp")]
    up = ActionResult(action="Upgrade", status="True", time="2026-01-01T00:00:06Z")
    first, second = Wire(legacy=True), Wire(legacy=True)
    async with alone(hub_with(tmp_path, world, first, second), world=world) as host:
        await host.heard(CloudReached)
        await host.send(Say(body=report(1, results=(done[0],))))
        await asyncio.sleep(1)
        await host.send(Say(body=report(2, results=tuple(done))))
        await asyncio.sleep(60)
        first.say(None)
        await host.heard(CloudLost)
        await host.send(Say(body=report(3, results=(*done, up), final=True)))
        await host.heard(CloudReached)
        await asyncio.sleep(60)
        for link, actions in ((first, ["Check", "BackUp"]), (second, ["Upgrade"])):
            assert [json.loads(data)["content"]["action"] for data in link.reports()] == actions
            assert all(b'"beehive"' not in data for data in link.reports())
        assert (await host.ask(LinkState())).waiting == 0


async def test_reports_to_a_real_cloudcore_are_half_a_second_apart(tmp_path: Path, world: World) -> None:
    """It mixes up the order of those that come close together (spec/kubeedge.md R7)."""
    done = tuple(
        ActionResult(action=name, status="True", time="2026-01-01T00:00:05Z") for name in ("Check", "BackUp", "Upgrade")
    )
    link = Wire(legacy=True)
    async with alone(hub_with(tmp_path, world, link), world=world) as host:
        await host.send(Say(body=report(3, results=done, final=True)))
        await host.send(Say(body=report(3, results=done, final=True, attempt=1)))
        await host.heard(CloudReached)
        await asyncio.sleep(10)
    times = [when for when, data in link.up if b'"UpdateNodeActionStatus"' in data]
    assert len(times) == 6
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 0.5


@pytest.mark.parametrize("error", [ConnectionResetError(104, "Connection reset by peer"), BrokenPipeError(32, "x")])
def test_who_cuts_the_connection_off_is_named_with_what_it_may_mean(error: OSError) -> None:
    assert "it does not lead, or a firewall" in _phrase(error)


async def test_a_disk_that_takes_nothing_costs_no_report(tmp_path: Path, world: World) -> None:
    (tmp_path / "file").write_bytes(b"")
    link = Wire()
    Played.script = [link]
    hub = EdgeHub(Config(), world, Journal(tmp_path / "file" / "journal"), Played)
    async with alone(hub, world=world) as host:
        await host.heard(CloudReached)
        await host.send(Say(body=report(1)))
        await asyncio.sleep(1)
        assert len(link.reports()) == 1
        assert hub.counters["journal_failures"] == 1


async def test_while_taskmanager_has_no_room_the_link_is_not_read_and_not_taken_as_dead(
    tmp_path: Path, world: World
) -> None:
    link = Wire()
    async with alone(hub_with(tmp_path, world, link), world=world) as host:
        await host.heard(CloudReached)
        inbox = host.endpoint.inbox
        capacity, inbox.capacity = inbox.capacity, 0
        inbox.open_gate()
        for attempt in range(3):
            task = StartTask(job="job-1", uid=UID, attempt=attempt, spec=TASK.spec, lease_seconds=1.0)
            link.say(wire.to_edge(task, "edge-a", f"m-{attempt}", 1.0))
        link.answers_pings = False  # a websocket that is not read answers none
        await asyncio.sleep(120)
        assert host.all_of(CloudLost) == []
        inbox.capacity = capacity
        inbox._let_in()
        link.answers_pings = True
        assert [(await host.heard(StartTask)).attempt for _ in range(3)] == [0, 1, 2]


def test_the_edges_end_brings_no_library_of_the_cloud() -> None:
    """architecture.md 3.4; `cryptography` and `httpx` come with the first join only."""
    code = (
        "import sys; import modules.edgehub, modules.edgehub.module\n"
        "bad = ('starlette', 'uvicorn', 'kubernetes_asyncio', 'aiohttp', 'grpc', 'picows', 'cryptography', 'httpx',"
        " 'jwt')\n"
        "print([name for name in bad if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "[]"
