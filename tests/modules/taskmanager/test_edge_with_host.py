"""The node's task manager with the real upgrader and the real tool on a host in a directory; the cloud is the test."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
import msgspec
import pytest

from beehive.config import Duration
from beehive.journal import Journal
from beehive.message import Command
from beehive.messages.tasks import CancelTask, Hello, ReportSeen, SendSnapshot, StartTask, TaskReport, TaskSpec
from beehive.messages.uplink import CloudReached, Link, LinkState, Say
from beehive.module import Endpoint, Module
from beehive.world import World
from modules.control.client import asked
from modules.control.config import Config as ControlConfig
from modules.control.module import Control
from modules.control.requests import Answer, Decide, Question, Status
from modules.taskmanager.config import EdgeConfig
from modules.taskmanager.edge import EdgeTaskManager
from modules.upgrader.host import keeper
from modules.upgrader.module import Upgrader
from tests.fakes.edge_host import IMAGE, NEW, OLD, EdgeHost, program, until
from tests.fakes.house import Side

UID = "6b1f2c34-0000-4000-8000-000000000000"
CRASHING = program(NEW, suits="9")


class Cloud:
    """The uplink's place: keeps what is said, says what the test wants."""

    accepts = (Say, LinkState)
    sends = (StartTask, CancelTask, SendSnapshot, ReportSeen, CloudReached)
    asks = ()

    def __init__(self) -> None:
        self.reports: list[TaskReport] = []
        self.hellos = 0
        self._news = asyncio.Event()
        self._endpoint: Endpoint | None = None

    async def run(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        endpoint.ready()
        async for envelope in endpoint.messages():
            if isinstance(envelope.body, LinkState):
                endpoint.reply(envelope, Link(True, 0.0, "wss://cloud.example:10000", 0))
            elif isinstance(envelope.body.body, Hello):
                self.hellos += 1
            else:
                self.reports.append(envelope.body.body)
            self._news.set()

    async def say(self, command: Command) -> None:
        assert self._endpoint
        await self._endpoint.send(command)

    async def until(self, **wanted: object) -> TaskReport:
        """The first report that says this."""
        try:
            async with asyncio.timeout(60):
                while True:
                    for one in self.reports:
                        if all(getattr(one, key) == value for key, value in wanted.items()):
                            return one
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"no report says {wanted}; said: {self.reports}") from None


@pytest.fixture
def host(tmp_path: Path) -> Iterator[EdgeHost]:
    made = EdgeHost(tmp_path / "host")
    made.start()
    yield made
    made.end()


@asynccontextmanager
async def agent(host: EdgeHost) -> AsyncIterator[tuple[Cloud, Side]]:
    """The agent of this host; at the end it is killed."""
    world, cloud = World(), Cloud()
    modules: dict[str, Module] = {
        "upgrader": Upgrader(host.config, world),
        "taskmanager": EdgeTaskManager(EdgeConfig(), world, Journal(host.root / "agent" / "journal")),
        "edgehub": cloud,
        "control": Control(ControlConfig(), host.root / "control.sock"),
    }
    side = Side("edge", modules, world, None)
    await side.start()
    try:
        yield cloud, side
    finally:
        await side.kill()


def order(attempt: int = 1, lease: float = 600.0, **spec: object) -> StartTask:
    wanted = {"version": NEW, "image": IMAGE} | spec
    task = TaskSpec(**wanted)  # type: ignore[arg-type]
    return StartTask(job="north", uid=UID, attempt=attempt, spec=task, lease_seconds=lease)


async def test_an_upgrade_that_goes_well(host: EdgeHost) -> None:
    host.offer(program(NEW))
    async with agent(host) as (cloud, _):
        await cloud.say(order())
        word = await cloud.until(final=True)
        assert (word.code, word.from_version, word.to_version) == ("", OLD, NEW)
        assert [(one.action, one.status) for one in word.results] == [
            ("Check", "True"), ("BackUp", "True"), ("Upgrade", "True"),
        ]  # fmt: skip
        assert [one.revision for one in cloud.reports] == [1, 2, 3, 4]
        await cloud.say(order())
        await cloud.say(order(attempt=2))
        again = await cloud.until(attempt=2, final=True)
        assert (again.code, again.to_version) == ("AlreadyAtVersion", NEW)
        assert cloud.reports.count(word) == 2
    assert host.runs() == NEW
    assert host.starts() == [OLD, NEW]


async def test_an_upgrade_that_crashes_is_rolled_back(host: EdgeHost) -> None:
    host.offer(CRASHING)
    async with agent(host) as (cloud, _):
        await cloud.say(order())
        word = await cloud.until(final=True)
    assert (word.code, word.from_version, word.to_version) == ("RolledBack", OLD, OLD)
    assert '"cannot open database: schema 7"' in word.reason
    assert [(one.action, one.status) for one in word.results[-2:]] == [("Upgrade", "False"), ("RollBack", "True")]
    assert host.runs() == OLD
    assert host.starts() == [OLD, NEW, OLD]


@pytest.mark.parametrize("new", [program(NEW), CRASHING], ids=["good", "crashing"])
async def test_an_agent_that_is_killed_in_the_upgrade_tells_the_end_after_its_restart(
    host: EdgeHost, new: bytes
) -> None:
    host.offer(new)
    async with agent(host) as (cloud, _):
        await cloud.say(order())
        await cloud.until(action="Upgrade")
    async with agent(host) as (cloud, _):
        word = await cloud.until(final=True)
        assert word.code == ("" if new != CRASHING else "RolledBack")
        assert word.to_version == host.runs()
    assert host.starts() == ([OLD, NEW] if new != CRASHING else [OLD, NEW, OLD]), "nothing is done twice"


async def test_agent_and_tool_that_die_together_in_the_soak_of_a_version_that_crashes_later(host: EdgeHost) -> None:
    """What runs when the agent is back has not proved itself: only a tool that saw it through may call it good."""
    host.config = msgspec.structs.replace(host.config, soak=Duration(5))
    late = host.root / "crash-now"
    host.offer(program(NEW, manner=f"(while [ ! -e {late} ]; do sleep 0.05; done; kill -9 $$) &"))
    async with agent(host) as (cloud, _):
        await cloud.say(order())
        await cloud.until(action="Upgrade")
        await anyio.to_thread.run_sync(until, lambda: host.starts() == [OLD, NEW], "the new version's start", 30)
        await anyio.to_thread.run_sync(kill_tool_and_keeper, host)
    async with agent(host) as (cloud, _):
        await cloud.until(action="Upgrade", reason="was interrupted once")
        late.touch()
        word = await cloud.until(final=True)
    assert (word.code, word.to_version) == ("RolledBack", OLD)
    assert host.runs() == OLD


def kill_tool_and_keeper(host: EdgeHost) -> None:
    """Nobody is left who would start it again."""
    unit = host.host.tool_unit(UID, 1)
    pid = host.host.services.status(unit).pid
    keeper_of_it = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    for one in (keeper_of_it, pid):
        os.kill(one, signal.SIGKILL)
    until(lambda: keeper.start_ticks(pid) == 0, "its end")


async def test_a_cancel_while_the_owner_is_asked_gives_the_attempt_back_and_it_can_be_started_again(
    host: EdgeHost,
) -> None:
    host.offer(program(NEW))
    async with agent(host) as (cloud, _):
        await cloud.say(order(require_confirmation=True))
        await cloud.until(code="WaitingConfirmation")
        await cloud.say(CancelTask(job="north", uid=UID, attempt=1))
        free = await cloud.until(action="", code="", final=False)
        assert host.starts() == [OLD]
        await cloud.say(order())
        word = await cloud.until(final=True)
        assert word.code == ""
        assert word.revision > free.revision
    assert host.runs() == NEW


async def ask(host: EdgeHost, question: Question) -> Answer:
    """As the owner's command does."""
    return await anyio.to_thread.run_sync(asked, host.root / "control.sock", question)


async def test_the_owner_sees_what_waits_and_says_yes_on_the_socket_also_after_a_restart(host: EdgeHost) -> None:
    host.offer(program(NEW))
    async with agent(host) as (cloud, _):
        await cloud.say(order(require_confirmation=True))
        await cloud.until(code="WaitingConfirmation")
    async with agent(host) as (cloud, _):
        await cloud.until(code="WaitingConfirmation")
        seen = await ask(host, Status())
        assert seen.node
        assert seen.node.waiting
        assert (seen.node.waiting.job, seen.node.waiting.version, seen.node.version) == ("north", NEW, OLD)
        assert seen.attempts
        assert seen.attempts.in_hand
        assert 3500 < seen.attempts.in_hand.owner_left <= 3600
        wrong = await ask(host, Decide(confirmed=True, job="south"))
        assert wrong.problem == "job south does not wait here; job north does"
        assert host.starts() == [OLD]
        assert (await ask(host, Decide(confirmed=True, job="north"))).problem == ""
        assert (await cloud.until(final=True)).code == ""
        after = await ask(host, Status())
        assert after.node
        assert after.node.last
        assert (after.node.last.result, after.node.last.to_version, after.node.waiting) == (
            "upgrade_success",
            NEW,
            None,
        )
        assert (await ask(host, Decide(confirmed=False))).problem == "there are no valid upgrade tasks to execute"
    assert host.runs() == NEW


async def test_the_owners_no_is_final_whatever_is_said_and_restarted_after_it(host: EdgeHost) -> None:
    host.offer(program(NEW))
    async with agent(host) as (cloud, _):
        await cloud.say(order(require_confirmation=True))
        await cloud.until(code="WaitingConfirmation")
        assert (await ask(host, Decide(confirmed=False, reason="the shift has begun"))).problem == ""
        word = await cloud.until(final=True)
        assert (word.code, word.reason) == ("Rejected", "the shift has begun")
    async with agent(host) as (cloud, _):
        await cloud.say(order(require_confirmation=True))
        assert await cloud.until(final=True) == word
        assert (await ask(host, Decide(confirmed=True))).problem == "there are no valid upgrade tasks to execute"
        await cloud.say(order(attempt=2, require_confirmation=True))
        await cloud.until(attempt=2, code="WaitingConfirmation")
        assert sorted(path.name for path in host.layout.owner.iterdir()) == ["waiting.json"], "old words are forgotten"
    assert host.starts() == [OLD]


async def test_without_leave_nothing_is_swapped(host: EdgeHost) -> None:
    host.offer(program(NEW))
    async with agent(host) as (cloud, _):
        await cloud.say(order(lease=0.0))
        await cloud.until(action="Upgrade")
        assert cloud.hellos == 1
        assert host.starts() == [OLD]
    async with agent(host) as (cloud, _):
        await cloud.until(action="Upgrade")
        assert cloud.hellos == 1, "it asks again after a restart"
        assert host.starts() == [OLD]
        await cloud.say(order(lease=60.0))
        assert (await cloud.until(final=True)).code == ""
    assert host.runs() == NEW


async def test_an_image_that_is_not_there_fails_the_check_with_a_sentence(host: EdgeHost) -> None:
    host.offer(program("v1.99.0"), "v1.99.0")
    async with agent(host) as (cloud, _):
        await cloud.say(order())
        word = await cloud.until(final=True)
    assert (word.code, word.from_version, word.to_version) == ("CheckFailed", "", "")
    assert NEW in word.reason
    assert host.starts() == [OLD]
