"""The upgrader's shell: one step at a time, the loop always free to answer."""

import asyncio
import functools
from collections.abc import Callable

import anyio
import anyio.to_thread

from beehive.api.nodeupgradejob import ROLL_BACK
from beehive.message import Envelope
from beehive.messages.host import (
    Decided,
    Inspect,
    LookAtHost,
    OwnerDecides,
    OwnerSaid,
    ReadLogs,
    RunStep,
    StepDone,
    StopStep,
    WatchStep,
)
from beehive.module import Endpoint
from beehive.world import World
from modules.upgrader import evidence, state
from modules.upgrader.config import Config
from modules.upgrader.host.host import Host
from modules.upgrader.steps import STOPPABLE, Steps, Task


class Upgrader:
    """Runs the steps that taskmanager orders, and says what can be found out about this host."""

    accepts = (RunStep, WatchStep, StopStep, Inspect, LookAtHost, ReadLogs, OwnerDecides)
    sends = (StepDone, OwnerSaid)
    asks = ()

    def __init__(self, config: Config, world: World, host: Host | None = None) -> None:
        self._world = world
        self._host = host or Host(config)
        self._task: Task | None = None
        """The step that is under way."""
        self._scope: anyio.CancelScope | None = None
        self._next: Task | None = None
        """A rollback that waits for its turn: that a step is under way is no state to judge it by."""

    async def run(self, endpoint: Endpoint) -> None:
        steps = Steps(self._host, endpoint.publish, self._world.now)
        async with asyncio.TaskGroup() as group:
            endpoint.ready()
            async for envelope in endpoint.messages():
                match envelope.body:
                    case RunStep() | WatchStep() as task:
                        self._begin(group, endpoint, steps, task)
                    case StopStep() as stop:
                        self._stop(stop)
                    case Inspect() as question:
                        look = functools.partial(evidence.look, self._host, question.uid, question.attempt)
                        group.create_task(_answer(endpoint, envelope, look, self._world.now()))
                    case LookAtHost():
                        look_around = functools.partial(state.state_of, self._host)
                        group.create_task(_answer(endpoint, envelope, look_around, self._world.now()))
                    case ReadLogs() as question:
                        group.create_task(_answer(endpoint, envelope, state.logs_of, self._host, question.lines))
                    case OwnerDecides() as word:
                        group.create_task(self._decide(endpoint, envelope, steps, word))
            if self._scope:
                self._scope.cancel()  # a tool that was handed the host goes on without us

    def _begin(self, group: asyncio.TaskGroup, endpoint: Endpoint, steps: Steps, task: Task) -> None:
        now = self._task
        if now is None:
            self._task, self._scope = task, anyio.CancelScope()
            group.create_task(self._steps(endpoint, steps, task, self._scope))
        elif (now.uid, now.attempt, now.step) == (task.uid, task.attempt, task.step):
            return
        elif task.step == ROLL_BACK:
            self._next = task
        else:
            reason = f"job {now.job}, attempt {now.attempt}, step {now.step}"
            endpoint.publish(_done(task, code="Busy", reason=reason))

    async def _steps(self, endpoint: Endpoint, steps: Steps, task: Task, scope: anyio.CancelScope) -> None:
        await self._step(endpoint, steps, task, scope)
        while self._next and not endpoint.inbox.closed:
            self._task, self._next, self._scope = self._next, None, anyio.CancelScope()
            await self._step(endpoint, steps, self._task, self._scope)

    async def _step(self, endpoint: Endpoint, steps: Steps, task: Task, scope: anyio.CancelScope) -> None:
        done = None
        try:
            with scope:
                done = await steps.run(task)
        finally:
            self._task = None
        if done is None and not endpoint.inbox.closed:
            steps.stopped(task)
            done = _done(task, code="Aborted", reason="stopped, for the job was cancelled")
        if done is not None:
            endpoint.publish(done)

    def _stop(self, stop: StopStep) -> None:
        now = self._task
        same = now is not None and (now.uid, now.attempt) == (stop.uid, stop.attempt)
        if same and self._scope and now and now.step in STOPPABLE:
            self._scope.cancel()

    async def _decide(self, endpoint: Endpoint, envelope: Envelope, steps: Steps, word: OwnerDecides) -> None:
        try:
            decided = await anyio.to_thread.run_sync(state.decide, self._host, word)
        except OSError as error:
            decided = Decided(problem=f"it cannot be written down: {error.strerror or error}")
        steps.owner_spoke()
        endpoint.reply(envelope, decided)


async def _answer(endpoint: Endpoint, envelope: Envelope, look: Callable[..., object], *arguments: object) -> None:
    """What takes its time is looked for beside the loop; nobody is waited for when this agent ends."""
    endpoint.reply(envelope, await anyio.to_thread.run_sync(look, *arguments, abandon_on_cancel=True))


def _done(task: Task, *, code: str, reason: str) -> StepDone:
    return StepDone(uid=task.uid, attempt=task.attempt, step=task.step, ok=False, code=code, reason=reason)
