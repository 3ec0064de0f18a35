"""Hands an attempt over to the tool in its own unit, and watches its record until the verdict (product.md 6.1)."""

from collections.abc import Callable

import anyio
import anyio.to_thread

from beehive.api.version import same
from beehive.errors import EXIT_BUSY, Unavailable
from beehive.messages.host import RunStep, Verdict, WatchStep
from modules.upgrader import artefact, evidence
from modules.upgrader.host.host import Host
from modules.upgrader.host.lock import Busy, Holder, who_holds
from modules.upgrader.host.names import attempt_key, checked_version
from modules.upgrader.host.service import Status, ended
from modules.upgrader.sentences import with_last_words
from modules.upgrader.tool.orders import how_to_mend, last_backup
from modules.upgrader.tool.record import Record, load_record
from modules.upgrader.tool.request import Request, settings_of, write_request
from modules.upgrader.tool.verdict import ROLLBACK_FAILED, ROLLED_BACK, with_mend

_POLL = 0.1
_LOOKS_PER_STATUS = 5
_PAUSE = 0.5
_LONGEST_WAIT = 900.0
_MOST_STARTS = 3
"""How often the unit is started before the tool counts as unable to run; within a unit its manager starts it again."""


def needs_image(host: Host, tool: str) -> bool:
    """Some providers bring the program themselves."""
    provider = host.config.providers.get(tool)
    return provider is None or provider.image


class Handover:
    """One attempt, as the agent sees it."""

    def __init__(self, host: Host, task: RunStep | WatchStep, now: Callable[[], float]) -> None:
        self._host = host
        self._task = task
        self._now = now
        self._key = attempt_key(task.uid, task.attempt)
        self._unit = host.tool_unit(task.uid, task.attempt)
        self._version = checked_version(task.spec.version)
        self._refusal = ""
        """Why the unit's last start failed; empty: it did not."""

    async def upgrade(self) -> Verdict:
        """The tool's word. Raises Busy, Unavailable, Refused."""
        record = self._record()
        if record and record.verdict:
            return record.verdict
        if not (await self._status()).active:
            refusal = await anyio.to_thread.run_sync(self._ask_for_upgrade)
            if refusal:
                return refusal
        return await self._watched()

    async def roll_back(self) -> Verdict:
        """The recorded outcome of the upgrade; without one, a rollback now."""
        record = self._record()
        if record and record.verdict:
            return record.verdict
        if not (await self._status()).active:
            await self._until_free()
            done = await anyio.to_thread.run_sync(self._ask_for_rollback)
            if done:
                return done
        verdict, status = await self._watch(changed=True)
        return await self._or_gave_up(verdict, status)

    async def _until_free(self) -> None:
        """What another tool is doing just now is no state to judge by; it ends by itself."""
        with anyio.move_on_after(_LONGEST_WAIT):
            while True:
                holder = who_holds(self._host.layout.lock)
                if not evidence.busy_with(holder, self._task.uid, self._task.attempt, self._now()):
                    return
                await anyio.sleep(_PAUSE)

    # ---- asking ---------------------------------------------------------------------------------------------------

    def _ask_for_upgrade(self) -> Verdict | None:
        """Write the request and start the unit; a verdict when there is nothing to ask for."""
        record = self._record()
        if record is None:
            installed = self._host.installed_or_none()
            if same(installed, self._version) and evidence.is_healthy(self._host):
                return Verdict("Upgrade", True, "", "", "", installed)
            extracted = artefact.load_extracted(self._host.layout, self._version)
            is_there = extracted is not None or not needs_image(self._host, self._task.spec.upgrade_tool)
            if not is_there or not installed:
                lacks = "the installed program answers no version" if is_there else "the new program is not there whole"
                reason = f"{lacks} (run the check again); nothing was changed"
                return Verdict("RollBack", True, ROLLED_BACK, reason, installed, installed)
            self._write(installed, extracted.program if extracted else "", undo=False)
        else:
            self._write(record.order.from_version, record.order.new_digest, undo=False)
        self._start()
        return None

    def _ask_for_rollback(self) -> Verdict | None:
        record = self._record()
        installed = self._host.installed_or_none()
        if record is None:
            if installed and not same(installed, self._version) and self._is_good(record):
                return Verdict("RollBack", True, ROLLED_BACK, "nothing was changed", installed, installed)
            self._write(last_backup(self._host, self._version), "", undo=True)
        else:
            self._write(record.order.from_version, record.order.new_digest, undo=True)
        self._start()
        return None

    def _is_good(self, record: Record | None) -> bool:
        return evidence.is_complete(self._host, record) and evidence.is_healthy(self._host)

    def _write(self, from_version: str, digest: str, *, undo: bool) -> None:
        request = Request(
            job=self._task.job,
            uid=self._task.uid,
            attempt=self._task.attempt,
            undo=undo,
            from_version=from_version,
            to_version=self._version,
            digest=digest,
            tool=self._task.spec.upgrade_tool,
            image=self._task.spec.image,
            settings=settings_of(self._host.config),
        )
        write_request(self._host.files, self._host.layout, request)

    def _start(self) -> None:
        """One that fails counts as one without a word: it may have been killed too."""
        self._refusal = ""
        try:
            self._host.services.start(self._unit)
        except Unavailable as error:
            self._refusal = error.reason

    # ---- watching -------------------------------------------------------------------------------------------------

    async def _watched(self) -> Verdict:
        """The tool's word on the upgrade; on the rollback, when it ended again and again without one."""
        verdict, status = await self._watch()
        if verdict is None and self._record():
            await anyio.to_thread.run_sync(self._ask_to_undo)
            verdict, status = await self._watch()
        return await self._or_gave_up(verdict, status)

    async def _watch(self, *, changed: bool = False) -> tuple[Verdict | None, Status]:
        """The verdict; None when the tool ended too often without one, and how it ended last. Raises Busy."""
        starts = 1
        while True:
            for _ in range(_LOOKS_PER_STATUS):
                record = self._record()
                if record and record.verdict:
                    return record.verdict, Status()
                await anyio.sleep(_POLL)
            status = await self._status()
            if status.active:
                continue
            record = self._record()  # its last act, between our look and its end
            if record and record.verdict:
                return record.verdict, status
            if status.exit_code == EXIT_BUSY and await self._is_held(changed=changed or record is not None):
                continue
            if starts == _MOST_STARTS:
                return None, status
            starts += 1
            await anyio.to_thread.run_sync(self._start)

    async def _is_held(self, *, changed: bool) -> bool:
        """The tool was turned away. Does whoever holds the host hold it still?

        It may be this very attempt that somebody (`keadm recover`) brings to its end; and whoever else holds it brings
        one that is begun to its end first. Busy when nothing is begun.
        """
        holder = who_holds(self._host.layout.lock)
        if not changed and evidence.busy_with(holder, self._task.uid, self._task.attempt, self._now()):
            raise Busy(holder or Holder(), self._now())
        if holder:
            await anyio.sleep(_PAUSE)
        return holder is not None

    def _ask_to_undo(self) -> None:
        """As `beehive-recover` does where systemd calls it: nobody else is left to bring the old version back."""
        record = self._record()
        if record is None or record.verdict:
            return
        self._write(record.order.from_version, record.order.new_digest, undo=True)
        self._start()

    async def _or_gave_up(self, verdict: Verdict | None, status: Status) -> Verdict:
        if verdict:
            return verdict
        return await anyio.to_thread.run_sync(self._gave_up, status)

    def _gave_up(self, status: Status) -> Verdict:
        """The tool ends again and again without a word."""
        record = self._record()
        try:
            log = self._host.services.log_tail(self._unit, 20)
        except Unavailable:
            log = []
        installed = self._host.installed_or_none()
        how = f"could not be started: {self._refusal}" if self._refusal else f"{ended(status)}, {_MOST_STARTS} times"
        reason = with_last_words(f"the tool {how}", log)
        if record is None and self._is_good(None):
            return Verdict("RollBack", True, ROLLED_BACK, reason, installed, installed)
        # What is begun is brought to its end; whatever else a person does would do that first.
        mend = "keadm recover edge" if record else how_to_mend(self._host, "")
        explained = with_mend(reason, installed, self._host.running_or_none(), mend)
        return Verdict(
            "RollBack", False, ROLLBACK_FAILED, explained, record.order.from_version if record else "", installed
        )

    async def _status(self) -> Status:
        return await anyio.to_thread.run_sync(self._host.services.status, self._unit)

    def _record(self) -> Record | None:
        return load_record(self._host.layout, self._key)
