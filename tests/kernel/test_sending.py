"""`sender`, which binds a route once, is `send` in every other way."""

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable

import pytest

from beehive.bus import Bus
from beehive.endpoint import Endpoint
from beehive.errors import InboxFull, Undeliverable
from beehive.record import Record
from beehive.router import Declaration
from tests.kernel.talk import Do, Done, Double, Unsaid, drain, pair, settle

pytestmark = pytest.mark.virtual_time


async def test_a_sender_and_send_share_one_order() -> None:
    caller, owner, _ = pair(capacity=3)
    send = caller.sender(Do)
    taking = asyncio.create_task(drain(owner))
    for n in range(50):
        await (send(Do(n=n)) if n % 2 else caller.send(Do(n=n)))
    owner.inbox.close()
    assert await taking == [Do(n=n) for n in range(50)]


async def test_a_sender_waits_in_line_and_is_impatient_like_send() -> None:
    caller, owner, _ = pair(capacity=1)
    send = caller.sender(Do)
    await send(Do(n=0))
    waiting = asyncio.ensure_future(send(Do(n=1), patience=50))
    await settle()
    with pytest.raises(InboxFull, match="stayed full for 3 s"):
        await send(Do(n=2), patience=3)
    owner.inbox.close()
    with pytest.raises(Undeliverable, match="owner has stopped"):
        await waiting
    with pytest.raises(Undeliverable, match="owner has stopped"):
        await send(Do(n=3))
    assert await drain(owner) == [Do(n=0)]


async def test_a_sender_of_what_is_not_declared_is_refused_at_once() -> None:
    caller, owner, _ = pair()
    with pytest.raises(Undeliverable, match="caller does not declare that it says Unsaid"):
        caller.sender(Unsaid)
    with pytest.raises(Undeliverable, match="owner does not declare that it says Do"):
        owner.sender(Do)


async def test_who_was_left_out_of_the_process_is_told_from_who_was_never_declared() -> None:
    bus = Bus((Declaration("caller", sends=(Do,), asks=(Double,)),), {"caller": 4})
    caller = Endpoint("caller", bus)
    for say in (lambda: caller.sender(Do), lambda: caller.send(Do(n=1)), lambda: caller.ask(Double(n=1))):
        with pytest.raises(Undeliverable, match=r"the module that would take .* was left out of this process"):
            say()


async def test_a_tracer_sees_what_a_sender_that_was_bound_before_says() -> None:
    caller, owner, bus = pair()
    send = caller.sender(Do)
    await send(Do(n=1))
    record = Record()
    bus.trace(record)
    await send(Do(n=2))
    assert [entry.text for entry in record.entries] == ['Do {"type":"talk.do","n":2}']
    bus.trace(None)
    await send(Do(n=3))
    owner.inbox.close()
    assert await drain(owner) == [Do(n=n) for n in (1, 2, 3)]


async def test_batches_give_all_that_is_there_and_remember_what_is_in_hand() -> None:
    caller, owner, _ = pair(capacity=8)
    for n in range(5):
        await caller.send(Do(n=n))
    batch = await anext(aiter(owner.batches()))
    assert [next(batch).body for _ in range(3)] == [Do(n=n) for n in range(3)]
    assert in_hand(owner) == Do(n=2)
    assert owner.inbox.taken == 3
    assert [envelope.body for envelope in batch] == [Do(n=3), Do(n=4)]
    assert in_hand(owner) is None
    assert owner.inbox.taken == 5


async def test_a_batch_leaves_out_questions_that_nobody_asks_any_more_and_gives_their_place_away() -> None:
    caller, owner, _ = pair(capacity=2)
    gone = asyncio.ensure_future(caller.ask(Double(n=1)))
    await caller.send(Do(n=2))
    waiting = asyncio.ensure_future(caller.send(Do(n=3)))
    await settle()
    gone.cancel()
    await settle()
    assert [envelope.body for envelope in owner.inbox.take()] == [Do(n=2)]
    await waiting
    assert [envelope.body for envelope in owner.inbox.take()] == [Do(n=3)]
    assert (owner.inbox.stale, owner.inbox.taken, owner.inbox.gone) == (1, 2, 3)


async def test_nothing_is_in_hand_while_a_module_waits_for_messages() -> None:
    """What it does between two messages, an alarm or an end, was not caused by the last one, nor spoils it."""
    caller, owner, _ = pair()
    taking = asyncio.create_task(drain(owner))
    assert await caller.ask(Double(n=1)) == 2
    await settle()
    assert in_hand(owner) is None
    assert owner.inbox.drop_in_hand("on purpose") is None
    owner.inbox.close()
    await taking


def in_hand(endpoint: Endpoint) -> object:
    return endpoint.inbox.in_hand and endpoint.inbox.in_hand.body


async def test_what_is_counted_as_taken_is_exact_in_the_middle_of_a_batch() -> None:
    caller, owner, _ = pair(capacity=8)
    for n in range(8):
        await caller.send(Do(n=n))
    for seen, _ in enumerate(owner.inbox.take(), start=1):
        assert owner.inbox.taken == seen
        if seen == 3:
            break
    await caller.send(Do(n=8))
    for seen, _ in enumerate(owner.inbox.take(), start=4):
        assert owner.inbox.taken == seen
    assert owner.inbox.taken == 9
    assert owner.inbox.statistics().depth == 0


async def test_one_turn_of_the_loop_is_all_that_a_talkative_module_takes() -> None:
    """A module that sends to itself must not keep others from running."""
    bus = Bus((Declaration("one", accepts=(Do,), sends=(Do,)),), {"one": 4})
    one = Endpoint("one", bus)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while turns < 100:
            turns += 1
            await asyncio.sleep(0)
        one.inbox.close()

    ticking = asyncio.create_task(others())
    await one.send(Do(n=0))
    taken = 0
    async for _ in one.messages():
        taken += 1
        if not one.inbox.closed:
            await one.send(Do(n=taken))
    await ticking
    assert 50 <= taken <= 200


async def test_an_owner_cancelled_in_its_sleep_leaves_a_gate_that_opens_again() -> None:
    caller, owner, _ = pair(capacity=2)
    first = asyncio.create_task(drain(owner))
    await settle()
    first.cancel()
    await settle()
    await caller.send(Do(n=1))
    await caller.send(Do(n=2))
    with pytest.raises(InboxFull):
        await caller.send(Do(n=3), patience=1)
    owner.inbox.close()
    assert await drain(owner) == [Do(n=1), Do(n=2)]


@pytest.mark.parametrize("say", ["send", "sender", "publish", "ask"])
async def test_an_owner_asleep_is_woken_also_when_tracing_was_switched_meanwhile(say: str) -> None:
    caller, owner, bus = pair()
    taking = asyncio.create_task(drain(owner))
    await settle()
    bus.trace(Record())
    bus.trace(None)
    if say == "publish":
        caller.publish(Done(n=1))
    elif say == "ask":
        assert await caller.ask(Double(n=1), timeout=1) == 2
    else:
        await (caller.send if say == "send" else caller.sender(Do))(Do(n=1))
    await settle()
    assert owner.inbox.taken == 1
    owner.inbox.close()
    await taking


@pytest.mark.parametrize(
    "say",
    [
        lambda caller, n: caller.send(Do(n=n), patience=1000),
        lambda caller, n: caller.ask(Double(n=n), timeout=1000),
    ],
    ids=["send", "ask"],
)
async def test_a_long_line_costs_each_who_stands_in_it_no_more_than_a_short_one(
    say: Callable[[Endpoint, int], Awaitable[object]],
) -> None:
    """Thousands of nodes may speak to one module at once; medians, for others use this machine, too.

    Without the garbage collector, whose work grows with all that the other tests left.
    """

    async def cost(many: int) -> float:
        caller, owner, _ = pair(capacity=4)
        begun = time.process_time()
        tasks = [asyncio.ensure_future(say(caller, n)) for n in range(many)]
        await settle()
        assert owner.inbox.statistics().waiting == many - 4
        taking = asyncio.create_task(drain(owner))
        await asyncio.gather(*tasks)
        owner.inbox.close()
        assert len(await taking) == many
        return (time.process_time() - begun) / many

    gc.disable()
    try:
        few, most = zip(*[(await cost(400), await cost(6400)) for _ in range(3)], strict=True)
    finally:
        gc.enable()
    assert statistics.median(most) < 2 * statistics.median(few)


@pytest.mark.parametrize("ends", ["emptied", "begun anew"])
async def test_a_batch_that_somebody_still_goes_through_ends_when_its_messages_are_gone(ends: str) -> None:
    caller, owner, _ = pair(capacity=8)
    for n in range(5):
        await caller.send(Do(n=n))
    old = owner.inbox.take()
    assert next(old).body == Do(n=0)
    if ends == "emptied":
        owner.inbox.empty("has stopped")
        assert owner.inbox.taken == 1
    else:
        assert [envelope.body for envelope in owner.inbox.take()] == [Do(n=n) for n in range(1, 5)]
        assert owner.inbox.taken == 5
    assert list(old) == []
