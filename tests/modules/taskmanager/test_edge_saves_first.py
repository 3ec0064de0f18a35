"""The node's task manager never acts before it saved: whatever it hears, and whenever saving fails."""

import asyncio
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.journal import Journal
from beehive.message import Message
from beehive.messages.host import Evidence, RunStep, StopStep, WatchStep
from beehive.messages.tasks import TaskReport
from beehive.messages.uplink import Say
from modules.taskmanager.config import EdgeConfig
from modules.taskmanager.edge import EdgeTaskManager
from modules.taskmanager.hearing import step
from modules.taskmanager.record import Moment, Policy, Record
from modules.taskmanager.resume import resume
from tests.fakes.virtual_time import virtual_world
from tests.rules.test_flow_any_order import in_hand_ends, messages


class Memory(Journal):
    """A journal that shows what would survive a power cut at this moment."""

    def __init__(self) -> None:
        self.stands = Record()

    def load(self, key: str, kind: Any) -> Any:
        return None

    def keys(self) -> list[str]:
        return []

    def save(self, key: str, record: object) -> None:
        assert isinstance(record, Record)
        self.stands = msgspec.json.decode(msgspec.json.encode(record), type=Record)


class Watching:
    """Stands for the endpoint: judges each effect by what stands on disk at that moment."""

    def __init__(self, journal: Memory) -> None:
        self.journal = journal
        self.acted = 0

    def ready(self) -> None: ...

    def waiting_for(self, what: str) -> None: ...

    async def send(self, effect: Message) -> None:
        self.acted += 1
        await asyncio.sleep(0)
        record = self.journal.stands
        attempt = record.attempt
        if isinstance(effect, RunStep | WatchStep):
            assert attempt is not None, "it acts before it saved"
            assert (attempt.uid, attempt.attempt, attempt.step) == (effect.uid, effect.attempt, effect.step)
            assert attempt.begun, "it acts before it saved that the action begins"
        elif isinstance(effect, StopStep):
            assert attempt is None or attempt.cancelled, "it stops before it saved that it was cancelled"
        elif isinstance(effect, Say) and isinstance(effect.body, TaskReport):
            told = [one.report for one in (*record.finished, *record.refused)]
            in_flight = attempt is not None and attempt.is_of(effect.body.uid, effect.body.attempt)
            assert effect.body in told or (
                in_flight and attempt is not None and attempt.revision == effect.body.revision
            ), "it says what it could not say again"


evidence = st.builds(
    Evidence,
    installed=st.sampled_from(["v1.22.0", "v1.23.0", ""]),
    healthy=st.booleans(),
    complete=st.booleans(),
    unit_runs=st.booleans(),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(messages, evidence), max_size=30))
def test_it_saves_before_it_acts(heard: list[object]) -> None:
    journal = Memory()
    module = EdgeTaskManager(EdgeConfig(), virtual_world(), journal, lambda wall: Moment(wall, "boot", 1.0))
    endpoint: Any = Watching(journal)

    async def play() -> None:
        for word in heard:
            record = journal.stands
            now = Moment(0.0, "boot", 1.0)
            if isinstance(word, Evidence):
                known = word if record.attempt else None
                await module._do(endpoint, resume(record, known, now, Policy()))
                continue
            message = in_hand_ends(record, word == "it goes well") if isinstance(word, str) else word
            await module._do(endpoint, step(record, message, now, Policy()))  # type: ignore[arg-type]

    asyncio.run(play())
