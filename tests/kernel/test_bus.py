"""Sending, publishing and asking: what is promised to each side, also when an inbox is full or closed."""

import asyncio
import gc

import pytest

from beehive.errors import InboxFull, NoAnswer, PeerFailed, Undeliverable
from beehive.message import Envelope, Lagged
from beehive.record import Record
from tests.kernel.talk import Do, Done, Double, Unsaid, drain, pair, settle

pytestmark = pytest.mark.virtual_time


async def test_messages_come_in_the_order_in_which_they_were_sent() -> None:
    caller, owner, _ = pair(capacity=3)
    taking = asyncio.create_task(drain(owner))
    for n in range(50):
        await caller.send(Do(n=n))
    owner.inbox.close()
    assert await taking == [Do(n=n) for n in range(50)]


async def test_order_is_kept_through_a_full_inbox_with_several_who_wait() -> None:
    caller, owner, _ = pair(capacity=2)
    sending = [asyncio.ensure_future(caller.send(Do(n=n), patience=100)) for n in range(10)]
    await settle()
    assert owner.inbox.statistics().waiting == 8
    taking = asyncio.create_task(drain(owner))
    await asyncio.gather(*sending)
    owner.inbox.close()
    assert await taking == [Do(n=n) for n in range(10)]


async def test_a_later_send_does_not_overtake_one_that_waits() -> None:
    caller, owner, _ = pair(capacity=1)
    await caller.send(Do(n=0))
    first = asyncio.ensure_future(caller.send(Do(n=1)))
    await settle()
    taken = owner.inbox.take()
    assert next(taken).body == Do(n=0)
    late = asyncio.ensure_future(caller.send(Do(n=2)))
    await settle()
    taking = asyncio.create_task(drain(owner))
    await asyncio.gather(first, late)
    owner.inbox.close()
    assert await taking == [Do(n=1), Do(n=2)]


async def test_impatience_withdraws_the_message_and_says_whose_inbox_was_full() -> None:
    caller, owner, _ = pair(capacity=1)
    await caller.send(Do(n=0))
    begun = asyncio.get_running_loop().time()
    with pytest.raises(
        InboxFull, match=r"inbox of owner \(1 messages\) stayed full for 5 s; Do from caller was withdrawn"
    ):
        await caller.send(Do(n=1))
    assert asyncio.get_running_loop().time() - begun == pytest.approx(5)
    owner.inbox.close()
    assert await drain(owner) == [Do(n=0)]


async def test_a_sender_let_in_at_the_very_moment_when_its_patience_ends_is_not_told_that_it_was_refused() -> None:
    caller, owner, _ = pair(capacity=1)
    loop = asyncio.get_running_loop()
    await caller.send(Do(n=0))
    heard: list[object] = []
    sending = asyncio.ensure_future(caller.send(Do(n=1), patience=5))
    await settle()
    loop.call_at(loop.time() + 5 - 1e-10, lambda: heard.append(next(owner.inbox.take()).body))  # in the same turn
    await sending
    assert loop.time() == pytest.approx(5)
    owner.inbox.close()
    assert heard + await drain(owner) == [Do(n=0), Do(n=1)]


async def test_a_cancelled_sender_leaves_nothing_behind() -> None:
    caller, owner, _ = pair(capacity=1)
    await caller.send(Do(n=0))
    waiting = asyncio.ensure_future(caller.send(Do(n=1)))
    await settle()
    waiting.cancel()
    await settle()
    assert owner.inbox.statistics().waiting == 0
    owner.inbox.close()
    assert await drain(owner) == [Do(n=0)]


async def test_a_subscriber_that_was_full_learns_exactly_how_many_events_it_missed() -> None:
    caller, owner, _ = pair(capacity=4)
    for n in range(100):
        caller.publish(Done(n=n))
    owner.inbox.close()
    assert await drain(owner) == [*(Done(n=n) for n in range(4)), Lagged(missed=96)]
    assert owner.inbox.statistics().missed == 96


async def test_after_lagged_the_count_begins_anew() -> None:
    caller, owner, _ = pair(capacity=1)
    caller.publish(Done(n=0))
    caller.publish(Done(n=1))
    heard = [envelope.body for envelope in owner.inbox.take()]
    caller.publish(Done(n=2))
    caller.publish(Done(n=3))
    caller.publish(Done(n=4))
    heard += [envelope.body for envelope in owner.inbox.take()]
    assert heard == [Done(n=0), Lagged(missed=1), Done(n=2), Lagged(missed=2)]


async def test_an_answer_comes_to_who_asked() -> None:
    caller, owner, bus = pair()
    taking = asyncio.create_task(drain(owner))
    assert await asyncio.gather(*(caller.ask(Double(n=n)) for n in range(40))) == [2 * n for n in range(40)]
    assert len(bus.questions) == 0
    owner.inbox.close()
    assert len(await taking) == 40


async def test_no_answer_in_time_is_an_error_at_exactly_that_time() -> None:
    caller, owner, bus = pair()
    loop = asyncio.get_running_loop()
    slow, quick = caller.ask(Double(n=1), timeout=7), caller.ask(Double(n=2), timeout=3)
    with pytest.raises(NoAnswer, match="owner did not answer Double from caller in time"):
        await quick
    assert loop.time() == pytest.approx(3)
    with pytest.raises(NoAnswer):
        await slow
    assert loop.time() == pytest.approx(7)
    assert len(bus.questions) == 0
    assert owner.inbox.statistics().depth == 2


async def test_a_question_that_nobody_waits_for_any_more_is_not_handled() -> None:
    caller, owner, _ = pair()
    with pytest.raises(NoAnswer):
        await caller.ask(Double(n=1), timeout=1)
    await caller.send(Do(n=2))
    owner.inbox.close()
    assert await drain(owner) == [Do(n=2)]


async def test_a_late_answer_is_dropped_and_the_replier_is_told() -> None:
    caller, owner, _ = pair()
    asked = caller.ask(Double(n=1), timeout=1)
    envelope = next(owner.inbox.take())
    with pytest.raises(NoAnswer):
        await asked
    assert owner.reply(envelope, 2) is False


async def test_waiting_for_a_place_counts_against_the_timeout() -> None:
    caller, owner, bus = pair(capacity=1)
    await caller.send(Do(n=0))
    with pytest.raises(NoAnswer):
        await caller.ask(Double(n=1), timeout=2)
    await settle()
    assert owner.inbox.statistics().waiting == 0
    assert asyncio.get_running_loop().time() == pytest.approx(2)
    assert len(bus.questions) == 0


async def test_a_question_that_waited_for_a_place_is_answered() -> None:
    caller, owner, _ = pair(capacity=1)
    await caller.send(Do(n=0))
    asked = asyncio.ensure_future(caller.ask(Double(n=21)))
    await settle()
    taking = asyncio.create_task(drain(owner))
    assert await asked == 42
    owner.inbox.close()
    assert await taking == [Do(n=0), Double(n=21)]


async def test_who_asked_a_module_that_failed_is_told_at_once() -> None:
    caller, owner, _ = pair()
    asked = caller.ask(Double(n=1), timeout=1000)
    for _ in owner.inbox.take():
        break
    owner.inbox.drop_in_hand("division by zero")
    with pytest.raises(PeerFailed, match="owner failed on Double: division by zero"):
        await asked
    assert asyncio.get_running_loop().time() < 1


async def test_nothing_can_be_said_to_a_module_that_has_stopped() -> None:
    caller, owner, _ = pair()
    owner.inbox.close()
    with pytest.raises(Undeliverable, match="owner has stopped"):
        await caller.send(Do(n=1))
    with pytest.raises(PeerFailed, match="owner has stopped"):
        await caller.ask(Double(n=1))
    caller.publish(Done(n=1))
    assert await drain(owner) == []


async def test_who_waits_in_line_is_told_when_the_owner_stops() -> None:
    caller, owner, _ = pair(capacity=1)
    await caller.send(Do(n=0))
    sending = asyncio.ensure_future(caller.send(Do(n=1)))
    asking = asyncio.ensure_future(caller.ask(Double(n=1)))
    await settle()
    owner.inbox.close()
    with pytest.raises(Undeliverable):
        await sending
    with pytest.raises(PeerFailed):
        await asking


async def test_what_was_not_taken_when_the_owner_stopped_fails_for_who_asked() -> None:
    caller, owner, _ = pair()
    asked = caller.ask(Double(n=1))
    owner.inbox.close()
    owner.inbox.empty("has stopped")
    with pytest.raises(PeerFailed, match="owner has stopped"):
        await asked


async def test_an_undeclared_message_is_refused_with_the_senders_name() -> None:
    caller, owner, _ = pair()
    with pytest.raises(Undeliverable, match="caller does not declare that it says Unsaid"):
        await caller.send(Unsaid())
    with pytest.raises(Undeliverable, match="owner does not declare that it says Done"):
        owner.publish(Done(n=1))


async def test_a_command_is_not_a_question() -> None:
    _, owner, _ = pair()
    with pytest.raises(ValueError, match="Do from caller is not a request"):
        owner.reply(Envelope("caller", Do(n=1)), 2)


async def test_ids_and_causes_exist_only_while_a_tracer_looks_on() -> None:
    caller, owner, bus = pair()
    await caller.send(Do(n=0))
    assert next(owner.inbox.take()).id == 0
    record = Record()
    bus.trace(record)
    await caller.send(Do(n=1))
    seen = next(owner.inbox.take())
    assert seen.id == 1
    assert [(entry.what, entry.receiver, entry.text) for entry in record.entries] == [
        ("posted", "owner", 'Do {"type":"talk.do","n":1}'),
        ("delivered", "owner", ""),
    ]
    bus.trace(None)
    await caller.send(Do(n=2))
    assert next(owner.inbox.take()).id == 0


async def test_a_dead_consumer_bounds_the_memory_of_its_inbox() -> None:
    caller, owner, _ = pair(capacity=8)
    for n in range(10_000):
        caller.publish(Done(n=n))
    assert len(owner.inbox.queue) <= 9


async def test_ten_thousand_asks_leave_nothing_for_the_collector() -> None:
    caller, owner, bus = pair(capacity=64)
    taking = asyncio.create_task(drain(owner))
    for n in range(10_000):
        assert await caller.ask(Double(n=n)) == 2 * n
    owner.inbox.close()
    await taking
    gc.collect()
    assert len(bus.questions) == 0
    assert sum(isinstance(one, Envelope) and one.source == "caller" for one in gc.get_objects()) == 0


@pytest.mark.parametrize("ends", ["no answer", "stopped", "failed", "cancelled"])
async def test_a_question_that_waited_for_a_place_in_vain_leaves_nothing(ends: str) -> None:
    """Its error holds the frames that it went through; were its envelope in one of them, nothing could free them."""
    before = errors_alive()
    caller, owner, bus = pair(capacity=1)
    await caller.send(Do(n=0))
    asked = asyncio.ensure_future(caller.ask(Double(n=1), timeout=3))
    await settle()
    if ends == "stopped":
        owner.inbox.close()
    elif ends == "failed":
        assert [envelope.body for envelope in owner.inbox.take()] == [Do(n=0)]
        next(owner.inbox.take())
        owner.inbox.drop_in_hand("on purpose")
    elif ends == "cancelled":
        asked.cancel()
    await asyncio.wait((asked,))
    assert asked.cancelled() or asked.exception()
    del asked
    owner.inbox.close()
    owner.inbox.empty("has stopped")
    await asyncio.sleep(10)  # what failed before its deadline is forgotten then
    assert errors_alive() == before  # those of other tests, whose frames pytest may keep
    assert len(bus.questions) == 0


def errors_alive() -> int:
    gc.collect()
    return sum(isinstance(one, NoAnswer | PeerFailed) for one in gc.get_objects())


async def test_an_alarm_comes_at_its_time_and_not_before() -> None:
    caller, owner, _ = pair()
    from beehive.world import World  # noqa: PLC0415

    loop = asyncio.get_running_loop()
    owner._world = World(now=loop.time)
    heard: list[tuple[float, object]] = []

    async def listen() -> None:
        async for envelope in owner.messages(until=lambda: 90.0 if len(heard) < 2 else None):
            heard.append((loop.time(), envelope and envelope.body))  # noqa: PERF401 - `until` reads it

    listening = asyncio.create_task(listen())
    await asyncio.sleep(10)
    await caller.send(Do(n=1))
    await asyncio.sleep(100)
    owner.inbox.close()
    await listening
    assert [body for _, body in heard] == [Do(n=1), None]
    assert [when for when, _ in heard] == pytest.approx([10, 90])
