"""Whatever senders, askers, the owner and time do in whatever order: what the bus promises holds."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from beehive.bus import Bus
from beehive.endpoint import Endpoint, Sender
from beehive.errors import InboxFull, NoAnswer, PeerFailed, Undeliverable
from beehive.message import Envelope, Lagged
from beehive.record import Record
from beehive.router import Declaration
from tests.fakes.virtual_time import VirtualLoop
from tests.kernel.talk import Do, Done, Double

SENDERS = ("ann", "bob")
PATIENCE = st.sampled_from([1.0, 30.0])
ENDS = {None, InboxFull, NoAnswer, PeerFailed, Undeliverable, asyncio.CancelledError}


class Talk(RuleBasedStateMachine):
    """Two senders and one owner; every step runs until nothing can run any more."""

    @initialize(capacity=st.integers(1, 4))
    def begin(self, capacity: int) -> None:
        self.loop = VirtualLoop()
        declared = [Declaration(name, sends=(Do, Done), asks=(Double,)) for name in SENDERS]
        owns = Declaration("owner", accepts=(Do, Done, Double, Lagged))
        self.capacity = capacity
        self.bus = Bus((*declared, owns), {**dict.fromkeys(SENDERS, 4), "owner": capacity})
        self.owner = Endpoint("owner", self.bus)
        self.ends = {name: Endpoint(name, self.bus) for name in SENDERS}
        self.senders: dict[str, Sender[Do]] = {}
        self.run(self._bind())
        self.last, self.published = 0, 0
        self.deadlines: dict[int, float] = {}
        self.sent: dict[int, asyncio.Task[Any]] = {}
        self.asked: dict[int, asyncio.Task[Any]] = {}
        self.in_order: dict[str, deque[int]] = {name: deque() for name in SENDERS}
        self.taken: set[int] = set()
        self.heard_events, self.told_missed = 0, 0
        self.open: list[Envelope] = []
        self.answered: dict[int, int] = {}

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            try:
                self.close()
                self.run(self._all_end())
            finally:
                self.loop.close()

    async def _all_end(self) -> None:
        """With the inbox closed and emptied and time passed, everything that was begun has ended."""
        self._take(1000)
        self.owner.inbox.empty("has stopped")
        await asyncio.sleep(1000)
        for task in (*self.sent.values(), *self.asked.values()):
            assert task.done()
            assert self._end_of(task) in ENDS
        assert len(self.bus.questions) == 0
        assert self.owner.inbox.statistics().waiting == 0
        assert self.heard_events + self.told_missed == self.published

    async def _bind(self) -> None:
        self.senders = {name: end.sender(Do) for name, end in self.ends.items()}

    def run(self, work: Any) -> None:
        self.loop.run_until_complete(work)

    async def _settle(self) -> None:
        for _ in range(12):
            await asyncio.sleep(0)

    def settle(self) -> None:
        self.run(self._settle())

    # ---- what they do ------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(SENDERS), many=st.integers(1, 4), bound=st.booleans(), patience=PATIENCE)
    def send(self, name: str, many: int, bound: bool, patience: float) -> None:
        async def say(n: int) -> None:
            await (self.senders[name] if bound else self.ends[name].send)(Do(n=n), patience)

        for _ in range(many):
            self._begins(name, patience)
            self.sent[self.last] = self.loop.create_task(say(self.last), name=name)
        self.settle()

    def _begins(self, name: str, patience: float) -> None:
        self.last += 1
        self.in_order[name].append(self.last)
        self.deadlines[self.last] = self.loop.time() + patience

    @rule(name=st.sampled_from(SENDERS), many=st.integers(1, 4), timeout=PATIENCE)
    def ask(self, name: str, many: int, timeout: float) -> None:
        async def ask(n: int) -> int:
            return await self.ends[name].ask(Double(n=n), timeout)

        for _ in range(many):
            self._begins(name, timeout)
            self.asked[self.last] = self.loop.create_task(ask(self.last), name=name)
        self.settle()

    @rule(name=st.sampled_from(SENDERS), many=st.integers(1, 3))
    def publish(self, name: str, many: int) -> None:
        async def say() -> None:
            for _ in range(many):
                self.ends[name].publish(Done(n=0))

        if not self.owner.inbox.closed:
            self.published += many
        self.run(say())

    @precondition(lambda self: self.sent or self.asked)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        tasks = {**self.sent, **self.asked}
        tasks[data.draw(st.sampled_from(sorted(tasks)))].cancel()
        self.settle()

    @rule(many=st.integers(1, 4))
    def take(self, many: int) -> None:
        async def some() -> None:
            self._take(many)

        self.run(some())
        self.settle()

    @rule(many=st.integers(1, 4))
    def take_one_by_one(self, many: int) -> None:
        """As a module does, which is given up in the middle of its work now and then."""

        async def some() -> None:
            messages = self.owner.messages()
            assert isinstance(messages, AsyncGenerator)
            try:
                for _ in range(many):
                    self._check(await asyncio.wait_for(anext(messages), 0.001))
            except (TimeoutError, StopAsyncIteration):
                assert not self.owner.inbox.queue
            finally:
                await messages.aclose()

        self.run(some())
        self.settle()

    def _take(self, many: int) -> None:
        batch = self.owner.inbox.take()
        for envelope in (one for _, one in zip(range(many), batch, strict=False)):
            self._check(envelope)

    def _check(self, envelope: Envelope) -> None:
        body = envelope.body
        if isinstance(body, Lagged):
            assert body.missed > 0
            self.told_missed += body.missed
        elif isinstance(body, Done):
            self.heard_events += 1
        else:
            assert body.n not in self.taken, "delivered twice"
            self.taken.add(body.n)
            line = self.in_order[envelope.source]
            while line[0] != body.n:  # what came before it from the same sender was withdrawn
                assert self._end_of(self._task(line.popleft())) is not None, "overtaken"
            line.popleft()
            if isinstance(body, Double):
                self.open.append(envelope)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def reply(self, data: st.DataObject) -> None:
        envelope = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))

        async def answer() -> None:
            waits = not self.asked[envelope.body.n].done()
            assert self.owner.reply(envelope, envelope.body.n * 2) is waits

        self.run(answer())
        self.settle()

    @rule()
    def fail_in_hand(self) -> None:
        async def drop() -> None:
            dropped = self.owner.inbox.drop_in_hand("on purpose")
            self.open = [one for one in self.open if one is not dropped]

        self.run(drop())
        self.settle()

    @rule(seconds=st.sampled_from([0.5, 2.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))
        self.settle()

    @rule(on=st.booleans())
    def trace(self, on: bool) -> None:
        self.bus.trace(Record() if on else None)

    @precondition(lambda self: self.last > 30)
    @rule()
    def close(self) -> None:
        async def end() -> None:
            self.owner.inbox.close()

        self.run(end())
        self.settle()

    # ---- what always holds -------------------------------------------------------------------------------------

    def _task(self, n: int) -> "asyncio.Task[Any]":
        return self.sent.get(n) or self.asked[n]

    def _end_of(self, task: "asyncio.Task[Any]") -> type[BaseException] | None:
        if task.cancelled():
            return asyncio.CancelledError
        error = task.exception() if task.done() else None
        return type(error) if error else None

    @invariant()
    def memory_is_bounded(self) -> None:
        if hasattr(self, "owner"):
            assert len(self.owner.inbox.queue) <= self.capacity + 1

    @invariant()
    def every_end_is_one_of_those_promised_and_answers_are_right(self) -> None:
        if not hasattr(self, "owner"):
            return
        for n, task in self.asked.items():
            assert self._end_of(task) in ENDS - {InboxFull}
            if task.done() and self._end_of(task) is None:
                assert task.result() == n * 2
        for n, task in self.sent.items():
            end = self._end_of(task)
            assert end in ENDS - {NoAnswer, PeerFailed}
            assert not (n in self.taken and end in (InboxFull, Undeliverable)), "refused and delivered"

    @invariant()
    def nobody_waits_past_the_deadline(self) -> None:
        if hasattr(self, "owner"):
            late = [n for n, when in self.deadlines.items() if self.loop.time() > when + 0.01]
            assert all(self._task(n).done() for n in late)

    @invariant()
    def nobody_waits_while_there_is_a_place(self) -> None:
        if hasattr(self, "owner"):
            seen = self.owner.inbox.statistics()
            waits = sum(not task.done() for task in self.sent.values())
            assert waits <= seen.waiting
            assert not seen.waiting or seen.depth >= self.capacity


TestTalk = Talk.TestCase
TestTalk.settings = settings(max_examples=30, stateful_step_count=35, deadline=None)
