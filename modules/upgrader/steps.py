"""What each step of an upgrade means on a host. Each is idempotent, and ends in a StepDone."""

import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from beehive.api.nodeupgradejob import BACK_UP, CHECK, ROLL_BACK, UPGRADE, WAITING_CONFIRMATION
from beehive.errors import Refused, Unavailable
from beehive.messages.host import OwnerSaid, RunStep, StepDone, Verdict, Waiting, WatchStep
from modules.upgrader import artefact, checks, confirmation, evidence
from modules.upgrader.checks import Objection
from modules.upgrader.handover import Handover, needs_image
from modules.upgrader.host import measures
from modules.upgrader.host.host import Host
from modules.upgrader.host.lock import Busy, Holder, held, who_holds
from modules.upgrader.host.names import attempt_key, checked_version
from modules.upgrader.host.process import boot_id
from modules.upgrader.room import rooms
from modules.upgrader.sentences import reason as sentence

Task: TypeAlias = RunStep | WatchStep
STOPPABLE = (CHECK, WAITING_CONFIRMATION, BACK_UP)
"""The steps that change nothing of what runs here; the others are the tool's, and end by themselves."""
_LOOK_AGAIN = 2.0


class Outcome(Struct, frozen=True):
    """How a step ended, before it becomes a message."""

    ok: bool = True
    code: str = ""
    reason: str = ""
    from_version: str = ""
    to_version: str = ""


class Steps:
    """The steps of this host. Raises nothing but bugs and cancellation."""

    def __init__(self, host: Host, publish: Callable[[OwnerSaid], None], now: Callable[[], float] = time.time) -> None:
        self._host = host
        self._publish = publish
        self._now = now
        self._spoke = anyio.Event()
        self._meaning: dict[str, Callable[[Task], Awaitable[Outcome]]] = {
            CHECK: self._check,
            WAITING_CONFIRMATION: self._wait,
            BACK_UP: self._back_up,
            UPGRADE: self._upgrade,
            ROLL_BACK: self._roll_back,
        }

    async def run(self, task: Task) -> StepDone:
        """Do it, or find that it is done."""
        try:
            attempt_key(task.uid, task.attempt)
            checked_version(task.spec.version)
            meaning = self._meaning.get(task.step)
            outcome = await meaning(task) if meaning else _failed(f"{task.step[:32]!r} is not a step", task)
        except Busy as error:
            outcome = Outcome(ok=False, code="Busy", reason=error.holder.phrase(self._now()))
        except (Refused, Unavailable) as error:
            outcome = _failed(error.reason, task)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            outcome = _failed(f"{where}{error.strerror or error}", task)
        return StepDone(
            uid=task.uid,
            attempt=task.attempt,
            step=task.step,
            ok=outcome.ok,
            code=outcome.code,
            reason=sentence(outcome.reason),
            from_version=outcome.from_version,
            to_version=outcome.to_version,
        )

    # ---- Check ----------------------------------------------------------------------------------------------------

    async def _check(self, task: Task) -> Outcome:
        spec, version = task.spec, checked_version(task.spec.version)
        await anyio.to_thread.run_sync(self._check_free, task)
        await anyio.to_thread.run_sync(self._host.check_unit)
        installed = await anyio.to_thread.run_sync(self._host.installed)
        objection = (
            checks.judge_tool(spec.upgrade_tool, self._host.config.providers)
            or checks.judge_version(installed, version, allow_downgrade=spec.allow_downgrade)
            or checks.unknown_items(spec.check_items)
        )
        if objection is None:
            objection = checks.judge_load(
                await anyio.to_thread.run_sync(self._measured, spec.check_items), self._host.config.limits
            )
        if objection is None and needs_image(self._host, spec.upgrade_tool):
            objection = await self._bring(task, version)
        if objection:
            return Outcome(False, objection.code, objection.reason, installed, version)
        return Outcome(from_version=installed, to_version=version)

    def _check_free(self, task: Task) -> None:
        holder = who_holds(self._host.layout.lock)
        if evidence.busy_with(holder, task.uid, task.attempt, self._now()):
            raise Busy(holder or Holder(), self._now())

    def _measured(self, items: tuple[str, ...]) -> dict[str, float]:
        measured: dict[str, float] = {}
        if "cpu" in items:
            measured["cpu"] = measures.cpu_percent()
        if "mem" in items:
            measured["mem"] = measures.mem_percent()
        if "disk" in items:
            for path in self._host.config.limits.disk_paths:
                measured[f"disk {path}"] = measures.disk_percent(self._host.layout.below(path))
        return measured

    async def _bring(self, task: Task, version: str) -> Objection | None:
        request = artefact.image_request(task.spec.image, version, task.spec.digests)
        artefact.check_policy(self._host.config.images, request)
        resolved = await artefact.look_up(self._host, request)
        found = await anyio.to_thread.run_sync(rooms, self._host, resolved.size)
        objection = checks.judge_room(found)
        if objection is None:
            extracted = await artefact.bring(self._host, request)
            if task.spec.upgrade_tool == checks.IMAGE_KEADM and not extracted.keadm:
                raise Refused(f"upgradeTool is {checks.IMAGE_KEADM}, and the image has no {artefact.KEADM_IN_IMAGE}")
            await anyio.to_thread.run_sync(artefact.check_program, self._host, version)
        return objection

    # ---- WaitingConfirmation --------------------------------------------------------------------------------------

    async def _wait(self, task: Task) -> Outcome:
        if not task.spec.require_confirmation:
            return Outcome()
        host, layout = self._host, self._host.layout
        version = checked_version(task.spec.version)
        asked = Waiting(job=task.job, uid=task.uid, attempt=task.attempt, version=version, since=self._now())
        confirmation.wait_for(host.files, layout, asked)
        while (word := confirmation.said(layout, task.uid, task.attempt)) is None:
            with anyio.move_on_after(_LOOK_AGAIN):  # it may be written by another process too
                await self._spoke.wait()
            self._spoke = anyio.Event()
        confirmation.stop_waiting(host.files, layout)
        self._publish(OwnerSaid(uid=task.uid, attempt=task.attempt, confirmed=word.confirmed, reason=word.reason))
        if word.confirmed:
            return Outcome()
        return Outcome(False, "Rejected", word.reason or "rejected by the node's owner")

    def owner_spoke(self) -> None:
        """There may be a word for the upgrade that waits."""
        self._spoke.set()

    def stopped(self, task: Task) -> None:
        """It was called off: nobody is asked any more. (An agent that merely ends takes up the same wait again.)"""
        layout = self._host.layout
        asked = confirmation.waiting(layout)
        if asked and (asked.uid, asked.attempt) == (task.uid, task.attempt):
            with contextlib.suppress(OSError):
                confirmation.stop_waiting(self._host.files, layout)

    # ---- BackUp ---------------------------------------------------------------------------------------------------

    async def _back_up(self, task: Task) -> Outcome:
        return await anyio.to_thread.run_sync(self._back_up_now, task)

    def _back_up_now(self, task: Task) -> Outcome:
        host = self._host
        host.files.directory(host.layout.etc)
        with held(host.layout.lock, self._holder(task)):
            installed = host.installed()
            made = host.back_up(installed)
        return Outcome(True, "", f"backed up {made.summary()}", installed, checked_version(task.spec.version))

    def _holder(self, task: Task) -> Holder:
        return Holder(
            job=task.job,
            uid=task.uid,
            attempt=task.attempt,
            step=task.step,
            boot=boot_id(),
            since=self._now(),
        )

    # ---- Upgrade, RollBack ----------------------------------------------------------------------------------------

    async def _upgrade(self, task: Task) -> Outcome:
        outcome = _of_verdict(UPGRADE, await Handover(self._host, task, self._now).upgrade())
        record = evidence.record_of(self._host, task.uid, task.attempt)
        if not (outcome.ok and record and record.down):
            return outcome
        return replace(outcome, reason=f"{self._host.service.name} was down for {record.down:.1f} s")

    async def _roll_back(self, task: Task) -> Outcome:
        return _of_verdict(ROLL_BACK, await Handover(self._host, task, self._now).roll_back())


def _of_verdict(step: str, verdict: Verdict) -> Outcome:
    """A rollback that went well is a failed `Upgrade`, and a successful `RollBack`."""
    ok = verdict.ok and step in (verdict.step, ROLL_BACK)
    return Outcome(ok, verdict.code, verdict.reason, verdict.from_version, verdict.to_version)


def _failed(text: str, task: Task) -> Outcome:
    code = "CheckFailed" if task.step == CHECK else f"{task.step[:32]}Failed"
    return Outcome(ok=False, code=code, reason=text, to_version=task.spec.version)
