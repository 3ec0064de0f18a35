"""Carries one attempt out: performs a phase, writes down what follows, performs that, until an end."""

import contextlib
import logging
import time
from collections.abc import Callable

from msgspec.structs import replace

from beehive.errors import BeehiveError, Refused, Unavailable
from beehive.messages.host import Verdict
from modules.upgrader.host.backup import Backup, give_back, load_backup
from modules.upgrader.host.database import copy_database, restore_database, set_aside
from modules.upgrader.host.files import digest_of
from modules.upgrader.host.host import Host
from modules.upgrader.host.process import boot_id, uptime
from modules.upgrader.host.service import Status
from modules.upgrader.host.units import is_current, restore_unit
from modules.upgrader.sentences import of_error
from modules.upgrader.sentences import reason as sentence
from modules.upgrader.tool.announcing import announced
from modules.upgrader.tool.orders import how_to_mend
from modules.upgrader.tool.phases import BEFORE_SWAP, ENDS, UNDO, Found, Phase, Standing, after, resume
from modules.upgrader.tool.providers import is_ours, replace_program
from modules.upgrader.tool.record import Record, save_record
from modules.upgrader.tool.verdict import verdict_of
from modules.upgrader.tool.verify import verify

_log = logging.getLogger("beehive.tool")
_SAVE_TRIES = 20
_SAVE_PAUSE = 0.25


class Tool:
    """One run of the tool for one attempt; whoever makes it holds the host's lock."""

    def __init__(self, host: Host, key: str, record: Record, now: Callable[[], float] = time.time) -> None:
        self.host = host
        self.layout = host.layout
        self.files = host.files
        self.program = host.program
        self.key = key
        self.record = record
        self.now = now
        self._phases: dict[Phase, Callable[[], None]] = {
            Phase.PREPARE: self._prepare,
            Phase.STOP: self._stop,
            Phase.SAVE: self._save_database,
            Phase.SWAP: self._swap,
            Phase.START: self._start,
            Phase.VERIFY: self._verify_new,
            Phase.UNDO_STOP: self._stop,
            Phase.UNDO_RESTORE: self._restore,
            Phase.UNDO_START: self._start,
            Phase.UNDO_VERIFY: self._verify_old,
        }

    def run(self, *, undo: bool = False) -> Verdict:
        """Finish or undo the attempt. Raises OSError only when not even its first record can be written."""
        if self.record.verdict:
            return self._clean_up(self.record.verdict)
        self._take_up(undo)
        while self.record.phase not in ENDS:
            phase = self.record.phase
            problem = self._perform(phase)
            self._go_on(phase, problem)
        return self._end()

    # ---- from phase to phase --------------------------------------------------------------------------------------

    def save(self) -> None:
        """Store the record; a phase begins only after this."""
        save_record(self.files, self.layout, self.key, self.record)

    def _take_up(self, undo: bool) -> None:
        found = self._look()
        starts = self.record.starts + 1
        phase = resume(Standing(self.record.phase, starts, bool(self.record.undo_problem)), found)
        reason = self.record.reason
        if undo and phase not in UNDO:
            untouched = self.record.phase in BEFORE_SWAP and found.old
            phase, reason = Phase.UNDO_START if untouched else Phase.UNDO_STOP, reason or "a rollback was asked for"
        if phase in UNDO and not reason:
            reason = _why_undo(self.record, starts)
        self.record = replace(
            self.record, phase=phase, starts=starts, reason=reason, began=self.record.began or self.now()
        )
        self.save()

    def _look(self) -> Found:
        digest, order = self.program.digest(), self.record.order
        try:
            status = self.host.services.status(self.host.service)
        except Unavailable:
            status = Status()
        started = bool(status.run) and self.record.last_run not in (None, status.run)
        ended = not status.active and (status.exit_code is not None or status.signal > 0 or started)
        old, new = (bool(digest) and digest == one for one in (order.old_digest, order.new_digest))
        return Found(old=old, new=new, ended=ended, started=started)

    def _perform(self, phase: Phase) -> str:
        """Do what the phase means; its problem, or an empty text."""
        _log.info("%s begins", phase.value)
        try:
            self._phases[phase]()
        except (BeehiveError, OSError) as error:
            problem = of_error(error)
        except Exception as error:  # a bug of ours must not leave the host between two versions
            _log.exception("a fault in %s", phase.value)
            problem = f"a fault of the tool in {phase.value}: {type(error).__name__}: {error}"
        else:
            return ""
        problem = sentence(problem)
        _log.warning("%s failed: %s", phase.value, problem)
        return problem

    def _go_on(self, phase: Phase, problem: str) -> None:
        if phase is Phase.UNDO_RESTORE and problem:
            self.record = replace(self.record, undo_problem=problem)
        following = after(phase, ok=not problem, undo_failed=bool(self.record.undo_problem))
        if self.record.order.event == "Rollback" and phase is Phase.PREPARE:
            following = Phase.ROLLBACK_FAILED if problem else Phase.UNDO_STOP
        self._enter(phase, following, problem)
        try:
            if following not in ENDS:
                self.save()
        except OSError as error:
            if following not in UNDO:
                self._enter(
                    following, after(following, ok=False), f"the tool's record cannot be written: {error.strerror}"
                )
            self._save_if_possible()

    def _enter(self, phase: Phase, following: Phase, problem: str) -> None:
        record = self.record
        reason = problem if problem and phase not in UNDO and not record.reason else record.reason
        undo = record.undo_problem
        if following is Phase.ROLLBACK_FAILED and problem and not undo:
            undo = problem
        self.record = replace(record, phase=following, reason=reason, undo_problem=undo)

    def _save_if_possible(self) -> None:
        with contextlib.suppress(OSError):
            self.save()

    def _end(self) -> Verdict:
        mend = how_to_mend(self.host, self.record.order.backup) if self.record.phase is Phase.ROLLBACK_FAILED else ""
        verdict = verdict_of(self.record, self.host.installed_or_none(), self.host.running_or_none(), mend)
        self.record = replace(self.record, verdict=verdict)
        for last in range(_SAVE_TRIES, 0, -1):
            try:
                self.save()
                break
            except OSError as error:
                _log.warning("the verdict cannot be written: %s", error)
                if last > 1:
                    time.sleep(_SAVE_PAUSE)
        return self._clean_up(verdict)

    def _clean_up(self, verdict: Verdict) -> Verdict:
        saved = self.layout.saved_database(self.key)
        if saved.exists():
            with contextlib.suppress(OSError):
                self.files.discard(saved)
        return verdict

    # ---- forward --------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        order = self.record.order
        if order.event == "Rollback":
            backup = load_backup(self.layout, order.backup)
            self.program.bring(self.layout.backup(order.backup) / backup.executable.name, order.backup)
            return
        if self.program.digest() != order.old_digest:
            raise Refused(f"{self.layout.executable} changed since the upgrade was asked for")
        self._check_artefact()
        backup = self._backup_of(order.from_version)
        unit = self.host.services.unit(self.host.service)
        if backup.executable.sha256 != order.old_digest or not is_current(self.layout, backup, unit.files):
            self.host.back_up(order.from_version)
        if is_ours(order):
            self.program.bring(self.layout.artefact(order.to_version), order.to_version)

    def _backup_of(self, version: str) -> Backup:
        try:
            return load_backup(self.layout, version)
        except Refused:
            return self.host.back_up(version)

    def _check_artefact(self) -> None:
        order = self.record.order
        if not order.new_digest:  # its provider brings it
            return
        artefact = self.layout.artefact(order.to_version)
        if self.program.digest_of(artefact) != order.new_digest:
            raise Refused(f"{artefact} is not the program that was checked; start the upgrade anew")

    def _stop(self) -> None:
        if not self.record.stopped_at:
            self.record = replace(self.record, stopped_at=uptime(), stopped_boot=boot_id())
        self._stand_still()

    def _stand_still(self) -> None:
        """Whatever is started from now on is what lies on the disk from now on."""
        services, service = self.host.services, self.host.service
        services.stop(service)
        self.record = replace(self.record, last_run=services.status(service).run)

    def _save_database(self) -> None:
        database, saved = self.layout.database, self.layout.saved_database(self.key)
        if database is None or not database.is_file():
            self.files.discard(saved)
            self.record = replace(self.record, saved_database="")
            return
        copy_database(self.files, database, saved)
        self.record = replace(self.record, saved_database=digest_of(saved))

    def _swap(self) -> None:
        self._check_artefact()
        status = self.host.services.status(self.host.service)
        if status.active or status.run != self.record.last_run:  # somebody started the old one meanwhile
            self._stand_still()
            self.save()
        self.record = replace(self.record, order=replace_program(self.host, self.record.order))

    def announce(self) -> None:
        """Say in the report file what will be true after the coming start; that it cannot be said stops nothing."""
        with contextlib.suppress(OSError):
            record = announced(self.files, self.layout, self.record)
            if record != self.record:
                self.record = record
                self.save()

    def _start(self) -> None:
        self.announce()
        services, service = self.host.services, self.host.service
        status = services.status(service)
        if status.active and not self.host.runs_installed(status):
            self._stand_still()
            self.save()
        services.start(service)

    def _verify_new(self) -> None:
        if not self.record.down:
            self._note_downtime()
        verify(self.host, self.record.order.to_version)

    def _note_downtime(self) -> None:
        if self.record.stopped_at:
            since = self.record.stopped_at if self.record.stopped_boot == boot_id() else 0.0
            self.record = replace(self.record, down=max(0.0, uptime() - since))

    # ---- back -----------------------------------------------------------------------------------------------------

    def _restore(self) -> None:
        order = self.record.order
        backup = load_backup(self.layout, order.backup)
        place = self.layout.backup(order.backup)
        program, config, tool = backup.executable, backup.file("config"), backup.file("tool")
        if self.program.digest() != program.sha256:
            self.program.swap(place / program.name, order.backup, like_installed=False)
        if config and self.layout.config and digest_of(self.layout.config) != config.sha256:
            self.files.directory(self.layout.config.parent)
            self.files.install(place / config.name, self.layout.config)
        if tool and digest_of(self.layout.keadm) != tool.sha256:
            self.files.install(place / tool.name, self.layout.keadm)
        self._restore_database(backup)
        give_back(self.files, self.layout, backup)
        services, service, aside = self.host.services, self.host.service, order.event == "Upgrade"
        restore_unit(self.files, self.layout, backup, services, service, aside=aside)

    def _restore_database(self, backup: Backup) -> None:
        database, saved = self.layout.database, self.layout.saved_database(self.key)
        if database is None:
            return
        copy = backup.file("database")
        if self.record.saved_database and digest_of(saved) == self.record.saved_database:
            self.files.directory(database.parent)
            restore_database(self.files, saved, database)
        elif copy:
            self.files.directory(database.parent)
            restore_database(self.files, self.layout.backup(self.record.order.backup) / copy.name, database)
        else:
            set_aside(self.files, database)

    def _verify_old(self) -> None:
        self._note_downtime()
        verify(self.host, self.record.order.backup)


def _why_undo(record: Record, starts: int) -> str:
    if record.order.event == "Rollback":
        return ""
    if starts > 1 and record.phase not in UNDO:
        return f"the upgrade was interrupted {starts - 1} times, last in {record.phase.value}"
    return "the upgrade was interrupted"
