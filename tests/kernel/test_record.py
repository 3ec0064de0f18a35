"""The causal story of one message, and how things are told."""

import asyncio

import pytest
from msgspec import Struct

from beehive.bus import Bus
from beehive.errors import Refused
from beehive.message import Command, Envelope
from beehive.module import Endpoint
from beehive.observe import describe
from beehive.record import Record, told
from beehive.router import Declaration
from tests.kernel.talk import Do, Done, pair, settle

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


# ---- what stays secret, and what is bounded ------------------------------------------------------------------------


class Credentials(Struct, frozen=True, gc=False):
    token: str
    host: str


class Keep(Command, frozen=True, kw_only=True, gc=False, tag="record.keep"):
    data: dict[str, bytes] | None = None
    registry: Credentials | None = None
    names: tuple[str, ...] = ()
    text: str = ""


def test_bytes_and_what_stands_under_a_secret_name_are_struck_out() -> None:
    kept = Keep(data={"ca.key": b"-----BEGIN"}, registry=Credentials(token="hunter2", host="registry"))
    assert told(kept) == (
        '{"type":"record.keep","data":{"ca.key":"(10 bytes)"},"registry":{"token":"(struck out)","host":"registry"}}'
    )


@pytest.mark.parametrize("name", ["token", "Password", "clientSecret", "Authorization", "privateKey", "joinTokens"])
def test_secret_names(name: str) -> None:
    assert "hunter2" not in told({"outer": [{name: "hunter2"}, {name: ["hunter2"]}]})


def test_an_entry_is_short_whatever_the_message_is() -> None:
    record = Record()
    for body in (Keep(names=tuple(f"node-{n}" for n in range(5000))), Keep(text="x" * 100_000)):
        record.posted("b", Envelope("a", body, None, 1, 0))
        assert len(record.entries[-1].text) <= 1000
    assert "… 4980 more" in record.entries[0].text


def chain(record: Record, long: int, cause: int = 0) -> None:
    """Each message causes the next."""
    for n in range(cause + 1, cause + long + 1):
        record.posted("b", Envelope("a", Do(n=n), None, n, n - 1))


def test_a_module_that_talks_to_itself_for_ever_has_a_story_too() -> None:
    record = Record()
    chain(record, 10_000)
    middle = record.story(5_000)
    assert middle[0].startswith("#4980 ")
    assert middle[20].lstrip().startswith("#5000 ")
    assert len(middle) == 501
    assert middle[-1] == "… and at least 1 more"


def test_a_story_tells_of_the_message_and_not_of_its_siblings() -> None:
    record = Record(clock=iter(range(100)).__next__)
    for number, cause in ((1, 0), (2, 1), (3, 1), (4, 2), (5, 3), (6, 2)):
        record.posted("b", Envelope("a", Do(n=number), None, number, cause))
    lines = [line.partition(" a ")[0] for line in record.story(2)]
    assert lines == ["#1 +0.000s", "  #2 +1.000s", "    #4 +3.000s", "    #6 +5.000s"]


def test_a_message_of_which_nothing_is_known() -> None:
    assert Record().story(7) == ["#7 (no longer in the record)"]


async def test_lagged_has_its_number_like_every_other_message() -> None:
    caller, owner, bus = pair(capacity=1)
    record = Record()
    bus.trace(record)
    for n in range(3):
        caller.publish(Done(n=n))
    assert [envelope.id for envelope in owner.inbox.take()] == [1, 2]
    posted = [entry.text for entry in record.entries if entry.what == "posted"]
    assert posted[-1] == 'Lagged {"type":"runtime.lagged","missed":2}'
