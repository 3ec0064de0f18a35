"""Start the modules in order, keep them, stop them in reverse, and end the process when that is the better way.

Each module runs in a keeper task. It must be ready before the next one starts. A failure drops the message that it had
in hand, so that a poison message fails once, tells its asker `PeerFailed`, keeps the inbox, and starts the module anew
after a growing pause. Too many failures end the process: systemd or the kubelet begins with a clean slate.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from beehive.bus import Bus
from beehive.errors import ConfigError, RuntimeFailed, Unavailable
from beehive.message import Draining, ModuleFailed
from beehive.module import Claiming, Endpoint, Module
from beehive.observe import LogObserver, Observer, describe
from beehive.restart import GiveUp, Policy, decide
from beehive.world import World

_CANCEL_GRACE = 5.0
"""Seconds, at most, that a cancelled module has before it is left behind."""


class Keeper:
    """One module's life: its instances, one after the other, on the same endpoint."""

    def __init__(self, endpoint: Endpoint, make: Callable[[], Module], supervisor: "Supervisor") -> None:
        self.endpoint = endpoint
        self.name = endpoint.name
        self.make = make
        self.start_timeout = 30.0
        self.stop_timeout = 10.0
        self.module: Module | None = None
        self.failures: list[float] = []
        """When it failed, as far back as the policy looks."""
        self.failed = 0
        self.restarts = 0
        self.task: asyncio.Task[None] | None = None
        self._supervisor = supervisor
        self._ending = asyncio.Event()
        self._first: Module | None = None
        """The instance that claimed, until it runs."""

    def claim(self) -> None:
        """Make the first instance and let it take what only one process can have. Raises RuntimeFailed, ConfigError."""
        try:
            self._first = self.make()
            if isinstance(self._first, Claiming):
                self._first.claim()
        except Exception as error:
            raise _leaf(error) or self._never_ready(describe(error)) from error

    def release(self) -> None:
        """Give back what an instance claimed that never ran."""
        if isinstance(self._first, Claiming):
            self._first.release()
        self._first = None

    def start(self) -> None:
        """Begin to keep it."""
        self.endpoint.waiting_for("its start")
        self.task = asyncio.get_running_loop().create_task(self._keep(), name=self.name)

    async def _keep(self) -> None:
        while True:
            failure = await self._live()
            if failure is None:
                return
            pause = self._after(failure)
            if pause is None:
                return
            self.endpoint.waiting_for(f"its restart in {pause:g} s, after: {describe(failure)}")
            del failure  # its frames hold the instance that failed, and all that this one held
            self._supervisor.observer.restarting(self.name, pause)
            if await self._told_to_stop_within(pause):
                return
            self.restarts += 1

    async def _live(self) -> BaseException | None:
        """One life; how it ended, or None when it was told to end."""
        life = asyncio.timeout(None)
        try:
            self.module, self._first = self._first or self.make(), None
            async with life:
                if self.restarts:
                    self._end_if_hung(life, self.endpoint.readied, asyncio.get_running_loop().time())
                await self.module.run(self.endpoint)
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return cancelled
        except Exception as error:
            return self._not_ready() if isinstance(error, TimeoutError) and life.expired() else error
        if self.endpoint.inbox.closed:
            return None
        return RuntimeError("it ended without being told to")

    def _end_if_hung(self, life: asyncio.Timeout, readied: int, begun: float) -> None:
        """A restart, like the first start, must be ready in time; looks again whenever that time could be over."""
        if self.endpoint.readied > readied or self._ending.is_set():
            return
        loop = asyncio.get_running_loop()
        limit = max(begun, self.endpoint.last_sign) + self.start_timeout
        if limit > loop.time():
            loop.call_at(limit, self._end_if_hung, life, readied, begun)
        else:
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                life.reschedule(loop.time())

    def _not_ready(self) -> Unavailable:
        return Unavailable(f"it was not ready after {self.start_timeout:g} s; it waits for {self.endpoint.waits_for}")

    def _after(self, failure: BaseException) -> float | None:
        """Account for the failure; how long to pause, or None to end. Raises RuntimeFailed when the process should."""
        now = asyncio.get_running_loop().time()
        self.failures = [when for when in self.failures if now - when < self._supervisor.policy.period] + [now]
        self.failed += 1
        text = describe(failure)
        dropped = self.endpoint.inbox.drop_in_hand(text)
        fatal = _leaf(failure)
        if fatal is not None and not self._ending.is_set():
            raise fatal
        self._supervisor.observer.failed(self.name, failure, dropped)
        self._supervisor.bus.broadcast(ModuleFailed(module=self.name, reason=text))
        if self._ending.is_set():
            return None
        if not self._supervisor.was_ready:
            raise self._never_ready(text)
        decision = decide(self._supervisor.policy, self.failures, now)
        if isinstance(decision, GiveUp):
            raise RuntimeFailed(f"{self.name} was given up: {decision.reason}; the last time: {text}")
        return decision.after

    def _never_ready(self, why: str) -> RuntimeFailed:
        return RuntimeFailed(f"{self.name} failed before the process was ready: {why}")

    async def _told_to_stop_within(self, seconds: float) -> bool:
        """Pause, but no longer than until it is told to stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._ending.wait()
        except TimeoutError:
            return False
        return True

    async def started(self) -> None:
        """Returns when the module is ready, or its task is over. Raises RuntimeFailed when it takes too long."""
        loop = asyncio.get_running_loop()
        task, begun = self.task, loop.time()
        assert task is not None
        ready = loop.create_task(self.endpoint.is_ready.wait())
        try:
            while not (ready.done() or task.done()):
                left = max(begun, self.endpoint.last_sign) + self.start_timeout - loop.time()
                if left <= 0:
                    limit, missing = f"{self.start_timeout:g} s", self.endpoint.waits_for
                    raise RuntimeFailed(f"{self.name} was not ready after {limit}; it waits for {missing}")
                await asyncio.wait((ready, task), timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()

    async def stop(self) -> None:
        """Let it end: its messages end, then it has `stop_timeout`, then it is cancelled."""
        self._ending.set()
        self.endpoint.inbox.close()
        if self.task is None:
            self.release()
            return
        await asyncio.wait((self.task,), timeout=self.stop_timeout)
        if not self.task.done():
            self._supervisor.observer.stuck(self.name, self.stop_timeout)
            self.task.cancel()
            await asyncio.wait((self.task,), timeout=min(_CANCEL_GRACE, self.stop_timeout))
        if not self.task.done():
            self._supervisor.observer.left_behind(self.name)
            self._supervisor.left_behind.append(self.name)
        self.endpoint.inbox.drop_in_hand("it was stopped")
        self.endpoint.inbox.empty("has stopped")


class Supervisor:
    """Keeps all modules of a process; `run` is its whole life."""

    def __init__(self, bus: Bus, world: World, policy: Policy | None = None, observer: Observer | None = None) -> None:
        self.bus = bus
        self.world = world
        self.policy = policy or Policy()
        self.observer = observer or LogObserver()
        self.keepers: list[Keeper] = []
        self.left_behind: list[str] = []
        """Modules whose tasks did not end."""
        self.was_ready = False
        """Every module has been ready at least once."""
        self.when_ready: Callable[[], None] = lambda: None
        """Called then."""

    def add(
        self, name: str, make: Callable[[], Module], start_timeout: float = 30.0, stop_timeout: float = 10.0
    ) -> None:
        """The next module in the order of starting."""
        keeper = Keeper(Endpoint(name, self.bus, self.world), make, self)
        keeper.start_timeout, keeper.stop_timeout = start_timeout, stop_timeout
        self.keepers.append(keeper)

    def waits(self) -> dict[str, str]:
        """What each module waits for; empty text for one that is ready."""
        return {keeper.name: keeper.endpoint.waits_for for keeper in self.keepers}

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set, or a module can't be kept: then RuntimeFailed is raised after all were stopped."""
        stopping = asyncio.get_running_loop().create_task(stop.wait())
        try:
            for keeper in self.keepers:
                keeper.claim()
            await self._start(stopping)
            self.was_ready = not stopping.done()
            if all(keeper.endpoint.is_ready.is_set() for keeper in self.keepers):
                self.when_ready()
            tasks = [keeper.task for keeper in self.keepers if keeper.task]
            await asyncio.wait((stopping, *tasks), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await self._stop()
        self._raise_what_failed()

    async def _start(self, stopping: "asyncio.Task[bool]") -> None:
        for keeper in self.keepers:
            keeper.start()
            started = asyncio.get_running_loop().create_task(keeper.started())
            await asyncio.wait((started, stopping), return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                started.cancel()
                return
            await started
            if keeper.task and keeper.task.done():
                return

    async def _stop(self) -> None:
        self.bus.broadcast(Draining())
        for keeper in reversed(self.keepers):
            await keeper.stop()

    def _raise_what_failed(self) -> None:
        for keeper in self.keepers:
            task = keeper.task
            if task and task.done() and not task.cancelled() and (error := task.exception()):
                raise error


def _leaf(error: BaseException) -> RuntimeFailed | ConfigError | None:
    """The first error, in a tree of exception groups, after which starting again is no use."""
    if isinstance(error, RuntimeFailed | ConfigError):
        return error
    inside: Sequence[BaseException] = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((found for one in inside if (found := _leaf(one))), None)
