"""The causal story of one message, and how things are told."""

import asyncio

import pytest

from beehive.bus import Bus
from beehive.errors import Refused
from beehive.module import Endpoint
from beehive.observe import describe
from beehive.record import Record, told
from beehive.router import Declaration
from tests.kernel.talk import Do, Done, settle

pytestmark = pytest.mark.virtual_time


async def relay(endpoint: Endpoint) -> None:
    """Takes Do, says Done for each."""
    async for envelope in endpoint.messages():
        if isinstance(envelope.body, Do):
            endpoint.publish(Done(n=envelope.body.n))


async def test_a_story_tells_what_came_before_and_what_followed() -> None:
    bus = Bus(
        (
            Declaration("a", sends=(Do,)),
            Declaration("b", accepts=(Do,), sends=(Done,)),
            Declaration("c", accepts=(Done,)),
        ),
        {"a": 8, "b": 8, "c": 8},
    )
    a, b = Endpoint("a", bus), Endpoint("b", bus)
    record = Record(clock=asyncio.get_running_loop().time)
    bus.trace(record)
    relaying = asyncio.create_task(relay(b))
    await a.send(Do(n=1))
    await a.send(Do(n=2))
    await settle()
    whole = [
        '#1 +0.000s a -> b  Do {"type":"talk.do","n":1}',
        '  #3 +0.000s b -> c  Done {"type":"talk.done","n":1}  (not taken)',
    ]
    assert record.story(1) == whole
    assert record.story(3) == whole
    b.inbox.close()
    await relaying


def test_a_record_is_bounded() -> None:
    record = Record(most=3)
    from beehive.message import Envelope  # noqa: PLC0415

    for n in range(10):
        record.posted("b", Envelope("a", Do(n=n), None, n + 1, n))
    assert len(record.entries) == 3
    assert record.story(10)[0] == "#7 (no longer in the record)"


def test_told_leaves_out_what_is_default() -> None:
    assert told(Done(n=0)) == '{"type":"talk.done"}'


def test_an_error_is_described_by_its_leaf() -> None:
    assert describe(ExceptionGroup("two", [ExceptionGroup("one", [Refused("no such image")])])) == "no such image"
    assert describe(KeyError("x")) == "KeyError: 'x'"
    assert describe(ValueError()) == "ValueError: no further text"
