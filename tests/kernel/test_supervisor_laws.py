"""A house whose modules ask downhill and send uphill through tiny inboxes, fail on poison, are stopped at any moment.

It never locks up, every ask ends, what was taken in is handled once and in order, and a stop ends everything.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from beehive.bus import Bus
from beehive.endpoint import Endpoint
from beehive.errors import InboxFull, NoAnswer, PeerFailed, RuntimeFailed, Undeliverable
from beehive.message import Command, Message, Request
from beehive.restart import Policy
from beehive.router import Declaration, Kinds, complaints
from beehive.supervisor import Supervisor
from tests.fakes.virtual_time import VirtualLoop, virtual_world
from tests.kernel.test_supervisor import Heard

NAMES = ("back", "middle", "front")
"""In the order of starting: each asks the one before it."""


class ToBack(Command, frozen=True, kw_only=True, gc=False, tag="house.to-back"):
    n: int
    poison: bool = False


class ToMiddle(Command, frozen=True, kw_only=True, gc=False, tag="house.to-middle"):
    n: int
    poison: bool = False


class ToFront(Command, frozen=True, kw_only=True, gc=False, tag="house.to-front"):
    n: int
    poison: bool = False


class AskBack(Request[int], frozen=True, kw_only=True, gc=False, tag="house.ask-back"):
    n: int
    poison: bool = False


class AskMiddle(Request[int], frozen=True, kw_only=True, gc=False, tag="house.ask-middle"):
    n: int
    poison: bool = False


class AskFront(Request[int], frozen=True, kw_only=True, gc=False, tag="house.ask-front"):
    n: int
    poison: bool = False


TO: dict[str, type[ToBack | ToMiddle | ToFront]] = {"back": ToBack, "middle": ToMiddle, "front": ToFront}
ASK: dict[str, type[AskBack | AskMiddle | AskFront]] = {"back": AskBack, "middle": AskMiddle, "front": AskFront}
BELOW: dict[str, str] = {"middle": "back", "front": "middle"}


class Poisoned(Exception):  # noqa: N818
    """What poison does."""


class Floor:
    """Asks the floor below before it answers; the lowest tells the highest, though that may be full."""

    def __init__(self, name: str, heard: Callable[[str, str, int], None]) -> None:
        self.name, self._heard = name, heard
        below = BELOW.get(name)
        self.accepts: Kinds = (TO[name], ASK[name])
        self.asks: Kinds = (ASK[below],) if below else ()
        self.sends: Kinds = () if below else (ToFront,)

    async def run(self, endpoint: Endpoint) -> None:
        endpoint.ready()
        async for envelope in endpoint.messages():
            body: Any = envelope.body
            self._heard(self.name, envelope.source, body.n)
            if body.poison:
                raise Poisoned
            if envelope.answer_to is None:
                await asyncio.sleep(0.2)
                continue
            endpoint.reply(envelope, await self._find(endpoint, body.n))

    async def _find(self, endpoint: Endpoint, n: int) -> int:
        below = BELOW.get(self.name)
        if below is None:
            with contextlib.suppress(InboxFull, Undeliverable):
                await endpoint.send(ToFront(n=-n), patience=1)
            return n * 2
        try:
            request: Request[int] = ASK[below](n=n)
            return await endpoint.ask(request, timeout=3)
        except (NoAnswer, PeerFailed):
            return -1


class Living(RuleBasedStateMachine):
    @initialize(capacity=st.integers(1, 2))
    def begin(self, capacity: int) -> None:
        self.loop = VirtualLoop()
        self.handled: dict[str, list[int]] = {name: [] for name in NAMES}
        self.said: dict[str, list[int]] = {name: [] for name in NAMES}
        self.poisoned, self.last = 0, 0
        self.sending: dict[int, asyncio.Task[None]] = {}
        self.asking: dict[int, asyncio.Task[int]] = {}
        floors = {name: Floor(name, self._hears) for name in NAMES}
        said: Kinds = tuple(TO.values())
        asked: Kinds = tuple(ASK.values())
        declared = [Declaration(name, one.accepts, one.sends, one.asks) for name, one in floors.items()]
        declared.append(Declaration("caller", sends=said, asks=asked))
        assert complaints(declared) == []
        self.bus = Bus(declared, {**dict.fromkeys(NAMES, capacity), "caller": 1})
        self.observer = Heard()
        policy = Policy(most=3, period=60)
        self.supervisor = Supervisor(self.bus, virtual_world(), policy, self.observer)
        for name in NAMES:
            self.supervisor.add(name, lambda name=name: Floor(name, self._hears))  # type: ignore[misc]
        self.caller = Endpoint("caller", self.bus)
        self.stop = asyncio.Event()
        self.running = self.loop.create_task(self.supervisor.run(self.stop))
        self.passes(0.01)

    def _hears(self, name: str, source: str, n: int) -> None:
        if source == "caller":
            self.handled[name].append(n)

    def passes(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            self.ends()
        finally:
            self.loop.close()

    def ends(self) -> None:
        """Told to stop at this moment, whatever is going on."""
        begun = self.loop.time()
        self.stop.set()
        self.loop.run_until_complete(asyncio.wait((self.running,), timeout=300))
        assert self.running.done(), "it does not stop"
        assert self.loop.time() - begun <= 3 * 15
        assert isinstance(self.running.exception(), RuntimeFailed | None)
        assert self.supervisor.left_behind == []
        self.passes(100)
        for n, asking in self.asking.items():
            assert asking.done(), f"ask {n} never ends"
            assert isinstance(asking.exception(), NoAnswer | PeerFailed | None)
            assert asking.exception() or asking.result() in (n * 2, -1)
        for sending in self.sending.values():
            assert isinstance(sending.exception(), InboxFull | Undeliverable | None)
        assert len(self.bus.questions) == 0
        assert {task.get_name() for task in asyncio.all_tasks(self.loop)} == set()

    # ---- what happens ------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), poison=st.booleans())
    def send(self, name: str, poison: bool) -> None:
        async def say(message: Command) -> None:
            await self.caller.send(message, patience=20)

        self._say(name, poison)
        self.sending[self.last] = self.loop.create_task(say(TO[name](n=self.last, poison=poison)))
        self.passes(0.001)

    @rule(name=st.sampled_from(NAMES), poison=st.booleans(), timeout=st.sampled_from([1.0, 50.0]))
    def ask(self, name: str, poison: bool, timeout: float) -> None:
        async def ask(request: Request[int]) -> int:
            return await self.caller.ask(request, timeout)

        self._say(name, poison)
        self.asking[self.last] = self.loop.create_task(ask(ASK[name](n=self.last, poison=poison)))
        self.passes(0.001)

    def _say(self, name: str, poison: bool) -> None:
        self.last += 1
        self.poisoned += poison
        self.said[name].append(self.last)

    @rule(seconds=st.sampled_from([0.1, 1.0, 7.0, 90.0]))
    def time_passes(self, seconds: float) -> None:
        self.passes(seconds)

    @precondition(lambda self: not self.stop.is_set())
    @rule()
    def told_to_stop(self) -> None:
        self.stop.set()
        self.passes(0.001)

    @rule()
    def quiet(self) -> None:
        """After a long time everything that was taken in was handled, and what is left waits for nothing."""
        self.passes(1000)
        assert all(task.done() for task in (*self.sending.values(), *self.asking.values()))
        if self.running.done():
            return
        handled = {n for many in self.handled.values() for n in many}
        for n, sending in self.sending.items():
            assert (sending.exception() is None) == (n in handled)
        assert set(self.supervisor.waits().values()) == {""}

    # ---- what always holds -------------------------------------------------------------------------------------

    @invariant()
    def handled_once_and_in_order(self) -> None:
        if hasattr(self, "handled"):
            for name, many in self.handled.items():
                assert many == sorted(set(many)), f"{name} took {many}"
                assert set(many) <= set(self.said[name])

    @invariant()
    def each_poison_fails_once(self) -> None:
        if hasattr(self, "observer"):
            assert len(self.observer.failures) <= self.poisoned
            assert all(isinstance(body, Message) and getattr(body, "poison", False)
                       for _, _, body in self.observer.failures)  # fmt: skip


TestLiving = Living.TestCase
TestLiving.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
