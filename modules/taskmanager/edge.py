"""The task manager of one node: hears, saves, then acts.

All memory is one record in the journal. `_do` is the only place where anything happens, and there the record is saved
first; so whatever is unplugged when, a restart finds out what was begun.
"""

import asyncio
import logging
from collections.abc import Callable

from beehive.journal import Journal
from beehive.message import Lagged
from beehive.messages.attempts import ListAttempts
from beehive.messages.host import Evidence, Inspect, OwnerSaid, RunStep, StepDone, StopStep, WatchStep
from beehive.messages.tasks import CancelTask, ReportSeen, SendSnapshot, StartTask, TaskReport
from beehive.messages.uplink import CloudReached, Say
from beehive.module import Endpoint
from beehive.world import World
from modules.taskmanager.clock import host_moment
from modules.taskmanager.config import EdgeConfig
from modules.taskmanager.hearing import pause, step
from modules.taskmanager.record import SCHEMA, Decision, Moment, Policy, Record
from modules.taskmanager.resume import resume
from modules.taskmanager.words import remembered

RECORD = "attempt"
"""Key of the record in the journal."""

_log = logging.getLogger(__name__)


class EdgeTaskManager:
    """See `hearing`, `flow` and `resume` for what it decides."""

    accepts = (
        StartTask, CancelTask, SendSnapshot, ReportSeen, StepDone, OwnerSaid, CloudReached, Lagged, ListAttempts,
    )  # fmt: skip
    sends = (RunStep, WatchStep, StopStep, Say)
    asks = (Inspect,)

    def __init__(
        self,
        config: EdgeConfig,
        world: World,
        journal: Journal,
        moment: Callable[[float], Moment] = host_moment,
    ) -> None:
        self._config, self._world, self._journal, self._moment = config, world, journal, moment
        self._policy = Policy(
            confirmation_limit=config.confirmation_limit, ask_again=config.ask_again, stop_again=config.stop_again
        )
        self._record = Record()
        self._saved: Record | None = None
        self._look_at: float | None = None

    async def run(self, endpoint: Endpoint) -> None:
        """Resume what was begun, then do what is heard."""
        self._record = self._load()
        endpoint.ready()
        await self._resume(endpoint, restarted=True)
        async for envelope in endpoint.messages(until=self._wake_at):
            body = envelope.body if envelope else None
            if envelope and isinstance(body, ListAttempts):
                endpoint.reply(envelope, remembered(self._record, self._now()))
            elif isinstance(body, Lagged):
                await self._resume(endpoint, restarted=False)
            else:
                await self._do(endpoint, step(self._record, body, self._now(), self._policy))

    def _load(self) -> Record:
        """What was known; a record that is of no use is set aside, and the next attempt tells of it."""
        record = self._journal.load(RECORD, Record)
        if record and record.schema > SCHEMA:
            where = f"{RECORD}.json in {self._journal.directory}"
            self._journal.set_aside(RECORD, f"{where} was written by a newer version (schema {record.schema})")
            record = None
        if not self._journal.faults:
            self._saved = record
            return record or Record()
        fault = self._journal.faults[-1]
        _log.warning("the journal had a fault, this node begins anew: %s", fault)
        return Record(fault=fault)

    async def _resume(self, endpoint: Endpoint, restarted: bool) -> None:
        evidence: Evidence | None = None
        if attempt := self._record.attempt:
            question = Inspect(uid=attempt.uid, attempt=attempt.attempt, version=attempt.spec.version)
            evidence = await endpoint.ask(question, timeout=self._config.inspect_timeout)
        await self._do(endpoint, resume(self._record, evidence, self._now(), self._policy, restarted))

    async def _do(self, endpoint: Endpoint, decision: Decision) -> None:
        if decision.record != self._saved:
            await self._save(endpoint, decision.record)
        _tell(self._record, decision)
        self._record = decision.record
        for effect in decision.effects:
            await endpoint.send(effect)
        seconds = pause(self._record, self._now(), self._policy)
        self._look_at = None if seconds is None else self._now().uptime + seconds

    async def _save(self, endpoint: Endpoint, record: Record) -> None:
        """Nothing is done that could not be remembered: a full disk is waited for, visibly."""
        while True:
            try:
                self._journal.save(RECORD, record)
            except OSError as error:
                endpoint.waiting_for(f"the journal in {self._journal.directory}: {error.strerror or error}")
                _log.warning("cannot save what comes next, so nothing is done: %s", error)
                await asyncio.sleep(self._config.save_again)
            else:
                endpoint.ready()
                self._saved = record
                return

    def _now(self) -> Moment:
        return self._moment(self._world.now())

    def _wake_at(self) -> float | None:
        """The next look as a wall-clock time, made anew from the boot clock each time: the wall clock may be set."""
        if self._look_at is None:
            return None
        now = self._now()
        return now.wall + max(0.0, self._look_at - now.uptime)


def _tell(before: Record, decision: Decision) -> None:
    """Log what an operator would act on: beginnings and ends."""
    old, new = before.attempt, decision.record.attempt
    if new is not None and (old is None or not old.is_of(new.uid, new.attempt)):
        _log.info("upgrade begun", extra={"job": new.job, "attempt": new.attempt, "version": new.spec.version})
    for effect in decision.effects:
        word = effect.body if isinstance(effect, Say) else None
        if old is not None and new is None and isinstance(word, TaskReport) and word.final and word.uid == old.uid:
            about = {"job": word.job, "attempt": word.attempt, "code": word.code, "reason": word.reason}
            _log.info("upgrade ended", extra={key: value for key, value in about.items() if value != ""})
