"""Is the event loop turning, and how long do messages wait? Found out from a thread, at no cost to any message.

Once a second the thread asks the loop to turn. A loop that does not is held by somebody: the task that is running and
the stack of the loop's thread tell by whom and where.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from types import FrameType

from beehive.inbox import Inbox
from beehive.notify import ServiceManager
from beehive.supervisor import Supervisor


class Ages:
    """How old the oldest message of each inbox is, without a time in any message.

    A mark says how many messages had ever been put into an inbox at a moment. If one of them is still there, then the
    oldest is at least as old as that mark; so a figure is short by at most the time between two marks.
    """

    def __init__(self, inboxes: Mapping[str, Inbox]) -> None:
        self._inboxes = inboxes
        self._marks: dict[str, list[tuple[float, int]]] = {name: [] for name in inboxes}

    def mark(self, now: float) -> None:
        """Remember how much has come; at most one mark for each message that waits is kept."""
        for name, inbox in self._inboxes.items():
            marks = [(when, come) for when, come in self._marks[name] if come > inbox.gone]
            come = inbox.gone + len(inbox.queue)
            if inbox.queue and (not marks or come > marks[-1][1]):
                marks.append((now, come))
            self._marks[name] = marks

    def oldest(self, now: float) -> dict[str, float]:
        """Seconds, 0 for an inbox where nothing waits."""
        return {
            name: next((now - when for when, come in marks if come > self._inboxes[name].gone), 0.0)
            for name, marks in self._marks.items()
        }


class Watchdog:
    """Watches one loop until it is closed. Must be made on the loop's own thread.

    As long as the loop turns it tells `manager` so, which ends a process that is silent for too long.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        loop: asyncio.AbstractEventLoop,
        limit: float = 2.0,
        every: float | None = None,
        manager: ServiceManager | None = None,
    ) -> None:
        self.ages = Ages(supervisor.bus.inboxes)
        self.stalls = 0
        """How often the loop did not turn for `limit` seconds."""
        self.stalled = 0.0
        """Seconds of those stalls in all."""
        self.delay = 0.0
        """Seconds that the loop took for its last turn that was asked for."""
        self._supervisor, self._loop = supervisor, loop
        self._manager = manager or ServiceManager()
        every = every or min(1.0, limit / 2)
        self._limit, self._every = limit, min(every, self._manager.every or every)
        self._said = 0.0
        self._loops_thread = threading.get_ident()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching; the thread ends by itself, for it may be waiting for a turn of the loop."""
        self._end.set()

    def _watch(self) -> None:
        while not self._end.wait(self._every):
            turned = threading.Event()
            begun = time.monotonic()
            try:
                self._loop.call_soon_threadsafe(self._turn, turned)
            except RuntimeError:  # the loop is closed
                return
            if not turned.wait(self._limit) and not self._end.is_set():
                self._stall(begun, turned)
            self.delay = time.monotonic() - begun
            self._say_that_it_turns()

    def _say_that_it_turns(self) -> None:
        now = time.monotonic()
        if self._manager.every and now - self._said >= self._manager.every - self._every:
            self._said = now
            self._manager.say("WATCHDOG=1")

    def _turn(self, turned: threading.Event) -> None:
        self.ages.mark(time.monotonic())
        turned.set()

    def _stall(self, begun: float, turned: threading.Event) -> None:
        """Say once who it is, and wait until it is over."""
        self.stalls += 1
        module, where = self._who()
        self._supervisor.observer.blocked(module, time.monotonic() - begun, where)
        before = begun
        while not self._end.is_set():
            over = turned.wait(0.2)
            self.stalled, before = self.stalled + time.monotonic() - before, time.monotonic()
            if over:
                return

    def _who(self) -> tuple[str, str]:
        """The module, and where it stands: its own innermost line, and the innermost of all if that is another."""
        frames = list(_stack(sys._current_frames().get(self._loops_thread)))
        if not frames:
            return "?", "?"
        task = asyncio.current_task(self._loop)
        packages = {keeper.name: _package(keeper.module) for keeper in self._supervisor.keepers if keeper.module}
        name = task.get_name() if task else ""
        if name not in packages:
            found = (one for frame in frames for one, package in packages.items() if _is_in(frame, package))
            name = next(found, name or "?")
        own = next((frame for frame in frames if _is_in(frame, packages.get(name, "?"))), frames[0])
        inside = "" if own is frames[0] else f" (in {_place(frames[0])})"
        return name, _place(own) + inside


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    """Innermost first."""
    while frame:
        yield frame
        frame = frame.f_back


def _package(module: object) -> str:
    """`modules.taskmanager` for whatever lies below it."""
    return ".".join(type(module).__module__.split(".")[:2])


def _is_in(frame: FrameType, package: str) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name == package or name.startswith(f"{package}.")


def _place(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}"
