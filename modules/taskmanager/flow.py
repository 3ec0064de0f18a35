"""The order of a node's actions, and how an attempt goes on after an interruption (product.md 6.1). Pure.

`begin`, `finished` and `resume` return the record to save and what to do once it stands on disk. What they decide holds
under any power cut: an action is saved before it begins, and after a restart evidence decides, never a guess.
"""

from collections.abc import Mapping

import msgspec

from beehive.api.nodeupgradejob import BACK_UP, CHECK, ROLL_BACK, UPGRADE, WAITING_CONFIRMATION, ActionResult
from beehive.api.version import same
from beehive.message import Command
from beehive.messages.host import StepDone
from beehive.messages.tasks import StartTask
from beehive.messages.uplink import Say
from beehive.world import rfc3339
from modules.taskmanager import codes
from modules.taskmanager.record import Attempt, Deadline, Decision, Moment, Policy, Record
from modules.taskmanager.words import busy, final, free, freed, hello, kept, run, snapshot

FLOW: Mapping[str, tuple[str | None, str | None]] = {
    CHECK: (WAITING_CONFIRMATION, None),
    WAITING_CONFIRMATION: (BACK_UP, None),
    BACK_UP: (UPGRADE, None),
    UPGRADE: (None, ROLL_BACK),
    ROLL_BACK: (None, None),
}
"""Action -> (after success, after failure); None ends the attempt (spec/kubeedge.md 7.2)."""

SWAPS = (UPGRADE, ROLL_BACK)
"""Actions that touch what runs; they cannot be called off."""
LEGACY_ATTEMPT = -1
"""What a real CloudCore starts: it knows no attempts and no leases."""

ROLLED_BACK, ROLLBACK_FAILED = "RolledBack", "RollbackFailed"
_NOT_FAILURES = (codes.ALREADY_AT_VERSION, codes.NEWER)
_FAILED: Mapping[str, str] = {CHECK: "CheckFailed", WAITING_CONFIRMATION: codes.REJECTED, BACK_UP: "BackUpFailed"}
_LONGEST_LEASE = 366 * 86400.0
_replace = msgspec.structs.replace


# ---- begin -------------------------------------------------------------------------------------------------------


def begin(record: Record, task: StartTask, revision: int, now: Moment, policy: Policy) -> Decision:
    """Begin this attempt; `revision` is the last that was said of it, 0 if nothing was."""
    attempt = Attempt(
        job=task.job,
        uid=task.uid,
        attempt=task.attempt,
        spec=task.spec,
        revision=revision,
        lease=lease_of(task.attempt, task.lease_seconds, now),
        note=f"this node's journal had a fault, so it began anew: {record.fault}" if record.fault else "",
    )
    refused = tuple(one for one in record.refused if not attempt.is_of(one.report.uid, one.report.attempt))
    return enter(_replace(record, refused=refused, fault=""), attempt, CHECK, now, policy)


def lease_of(attempt: int, seconds: float, now: Moment) -> Deadline | None:
    """The lease, counted from its receipt."""
    if attempt == LEGACY_ATTEMPT:
        return None
    return Deadline(now.boot, now.uptime + min(max(0.0, seconds), _LONGEST_LEASE))


def has_leave(attempt: Attempt, now: Moment) -> bool:
    """May `Upgrade` begin without asking?"""
    return attempt.lease is None or attempt.lease.left(now) > 0


def enter(record: Record, attempt: Attempt, step: str, now: Moment, policy: Policy) -> Decision:
    """The attempt goes on with `step`, or stands before it and asks for leave."""
    if step == WAITING_CONFIRMATION and not attempt.spec.require_confirmation:
        step = BACK_UP
    attempt = _replace(
        attempt,
        step=step,
        begun=step != UPGRADE or has_leave(attempt, now),
        revision=attempt.revision + 1,
        owner=Deadline(now.boot, now.uptime + policy.confirmation_limit) if step == WAITING_CONFIRMATION else None,
    )
    act = run(attempt) if attempt.begun else hello(attempt)
    return Decision(_replace(record, attempt=attempt), (act, snapshot(attempt, policy)))


# ---- an action ended ---------------------------------------------------------------------------------------------


def finished(record: Record, done: StepDone, now: Moment, policy: Policy) -> Decision:
    """An action ended; a word about another attempt, or about an action that is not in hand, changes nothing."""
    attempt = record.attempt
    if attempt is None or not attempt.is_of(done.uid, done.attempt) or not attempt.begun:
        return Decision(record)
    if attempt.step in SWAPS:
        return (
            _swapped(record, _with_versions(attempt, done), done, now, policy)
            if done.step in SWAPS
            else Decision(record)
        )
    if done.step != attempt.step:
        return Decision(record)
    return _prepared(record, _with_versions(attempt, done), done, now, policy)


def _with_versions(attempt: Attempt, done: StepDone) -> Attempt:
    """The version before the attempt stays what it was when it was first known: a rollback names another.

    Before the upgrade the host names as `to_version` what it is asked for; what runs is still the source.
    """
    if attempt.step in SWAPS:
        return _replace(attempt, to_version=done.to_version or attempt.to_version)
    source = attempt.from_version or done.from_version
    return _replace(attempt, from_version=source, to_version=source)


def _prepared(record: Record, attempt: Attempt, done: StepDone, now: Moment, policy: Policy) -> Decision:
    if attempt.cancelled:
        return give_back(record, attempt)
    if done.code == codes.BUSY:
        return _taken(record, attempt, done.reason)
    good = done.ok or done.code in _NOT_FAILURES
    attempt = with_result(attempt, done.step, good, "" if good else done.reason, now)
    following = FLOW[done.step][0] if good else None
    if done.code in _NOT_FAILURES or following is None:
        return end(record, attempt, done.code or _FAILED[done.step], done.reason)
    return enter(record, attempt, following, now, policy)


def _taken(record: Record, attempt: Attempt, holder: str) -> Decision:
    """Somebody else holds the host, and nothing was changed: the attempt goes back until that has ended."""
    word = busy(attempt.job, attempt.uid, attempt.attempt, attempt.revision + 1, holder or "this node is busy")
    return Decision(_replace(record, attempt=None, refused=kept(record.refused, word)), (Say(body=word),))


def _swapped(record: Record, attempt: Attempt, done: StepDone, now: Moment, policy: Policy) -> Decision:
    if done.code == codes.BUSY:  # never said of a rollback that is in hand: that waits for its turn
        return _taken(record, attempt, done.reason) if attempt.step == UPGRADE else Decision(record)
    target = attempt.spec.version
    stands = done.ok and not done.code and same(done.to_version, target)  # the tool had ended well before it was asked
    if done.code in (ROLLED_BACK, ROLLBACK_FAILED) or (done.step == ROLL_BACK and not stands):
        return _rolled_back(record, attempt, done, now)
    if done.ok and same(done.to_version or target, target):
        attempt = _replace(attempt, results=tuple(one for one in attempt.results if one.action != UPGRADE))
        attempt = with_result(attempt, UPGRADE, True, done.reason, now)
        return end(record, _replace(attempt, to_version=target), "", "")
    if attempt.step == ROLL_BACK:
        return Decision(record)  # a late word of the upgrade that is being undone
    reason = f"{done.to_version} runs instead of {target}" if done.ok else done.reason
    return roll_back(record, attempt, reason, now, policy)


def roll_back(record: Record, attempt: Attempt, reason: str, now: Moment, policy: Policy) -> Decision:
    """The upgrade did not go well, and nothing has undone it yet."""
    return enter(record, with_result(attempt, UPGRADE, False, reason, now), ROLL_BACK, now, policy)


def _rolled_back(record: Record, attempt: Attempt, done: StepDone, now: Moment) -> Decision:
    code = ROLLBACK_FAILED if done.code == ROLLBACK_FAILED or not (done.ok or done.code == ROLLED_BACK) else ROLLED_BACK
    if attempt.step == UPGRADE:
        attempt = with_result(attempt, UPGRADE, False, done.reason, now)
    why = done.reason or attempt.results[-1].reason
    attempt = with_result(attempt, ROLL_BACK, code == ROLLED_BACK, "" if code == ROLLED_BACK else why, now)
    runs = done.to_version or (attempt.from_version if code == ROLLED_BACK else "")
    attempt = _replace(attempt, from_version=attempt.from_version or runs, to_version=runs)
    return end(record, attempt, code, why)


def with_result(attempt: Attempt, action: str, good: bool, reason: str, now: Moment) -> Attempt:
    """One more action that ended."""
    result = ActionResult(
        action=action, status="True" if good else "False", reason=codes.sentence(reason), time=rfc3339(now.wall)
    )
    return _replace(attempt, results=(*attempt.results, result))


# ---- the end -----------------------------------------------------------------------------------------------------


def end(record: Record, attempt: Attempt, code: str, reason: str, *before: Command) -> Decision:
    """The attempt's last word; `code` is empty for success. `before`: what else to do first."""
    word = final(attempt, code, reason)
    refused = tuple(one for one in record.refused if not attempt.is_of(one.report.uid, one.report.attempt))
    record = _replace(record, attempt=None, finished=kept(record.finished, word), refused=refused)
    record, told = freed(record)
    return Decision(record, (*before, Say(body=word), *told))


def give_back(record: Record, attempt: Attempt) -> Decision:
    """Called off before anything was changed: the cloud may close its entry, or start the attempt again."""
    word = free(attempt.job, attempt.uid, attempt.attempt, attempt.revision + 1)
    record = _replace(record, attempt=None, refused=kept(record.refused, word))
    record, told = freed(record)
    return Decision(record, (Say(body=word), *told))
