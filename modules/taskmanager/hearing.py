"""What a node does about each thing that it hears: the one door to its rules. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from beehive.api.nodeupgradejob import WAITING_CONFIRMATION
from beehive.message import Message
from beehive.messages.host import OwnerSaid, StepDone
from beehive.messages.tasks import CancelTask, ReportSeen, SendSnapshot, StartTask, TaskReport
from beehive.messages.uplink import CloudReached, Say
from modules.taskmanager import codes
from modules.taskmanager.flow import SWAPS, begin, end, finished, give_back, lease_of, with_result
from modules.taskmanager.record import Attempt, Decision, Kept, Moment, Policy, Record
from modules.taskmanager.resume import ask_for_leave, stop, stop_again
from modules.taskmanager.words import busy, found, free, hello, kept, snapshot, unseen

CONFIRMATION_EXPIRED = "ConfirmationExpired"
_replace = msgspec.structs.replace


def step(record: Record, message: Message | None, now: Moment, policy: Policy) -> Decision:
    """What to save and then to do about this message; None: it is time (see `pause`)."""
    if message is None:
        return _alarm(record, now, policy)
    return _HEARD[type(message)](record, message, now, policy)


def pause(record: Record, now: Moment, policy: Policy) -> float | None:
    """Seconds until this node must look again by itself; None when it only waits for words."""
    attempt = record.attempt
    if attempt is None:
        return None
    if attempt.cancelled:
        return policy.stop_again
    if not attempt.begun:
        return policy.ask_again
    return attempt.owner.left(now) if attempt.owner else None


def _alarm(record: Record, now: Moment, policy: Policy) -> Decision:
    attempt = record.attempt
    if attempt is None:
        return Decision(record)
    if attempt.cancelled:
        return Decision(record, stop_again(attempt))
    if not attempt.begun:
        return ask_for_leave(record, attempt, now, policy)
    if attempt.owner is None or attempt.owner.left(now) > 0:
        return Decision(record)
    reason = f"its owner did not answer within {policy.confirmation_limit:g} s"
    attempt = with_result(attempt, WAITING_CONFIRMATION, False, reason, now)
    return end(record, attempt, CONFIRMATION_EXPIRED, reason, stop(attempt))


# ---- the cloud ---------------------------------------------------------------------------------------------------


def _start(record: Record, task: StartTask, now: Moment, policy: Policy) -> Decision:
    attempt = record.attempt
    if attempt is not None and attempt.is_of(task.uid, task.attempt):
        renewed = _replace(attempt, lease=lease_of(task.attempt, task.lease_seconds, now))
        return _renewed(record, renewed, now, policy)
    word = found(record.finished, task.uid, task.attempt)
    if word is not None:
        return Decision(record, (Say(body=word.report),))
    if _is_outlived(record, task):
        return Decision(record)
    before = found(record.refused, task.uid, task.attempt)
    revision = before.report.revision if before else 0
    if attempt is None:
        return begin(record, task, revision, now, policy)
    refusal = busy(task.job, task.uid, task.attempt, revision + 1, _holder(attempt))
    return Decision(_replace(record, refused=kept(record.refused, refusal)), (Say(body=refusal),))


def _renewed(record: Record, attempt: Attempt, now: Moment, policy: Policy) -> Decision:
    record = _replace(record, attempt=attempt)
    if not attempt.begun and attempt.lease is not None and attempt.lease.left(now) > 0:
        return ask_for_leave(record, attempt, now, policy)
    return Decision(record, (snapshot(attempt, policy),))


def _is_outlived(record: Record, task: StartTask) -> bool:
    """A word about an attempt that a later one of the same job has replaced: it was under way for very long."""
    known = [one.report for one in (*record.finished, *record.refused)]
    later = any(one.uid == task.uid and one.attempt > task.attempt for one in known)
    attempt = record.attempt
    return later or (attempt is not None and attempt.uid == task.uid and attempt.attempt > task.attempt)


def _holder(attempt: Attempt) -> str:
    return f"busy with job {attempt.job}, attempt {attempt.attempt}, in {attempt.step}"


def _cancel(record: Record, task: CancelTask, now: Moment, policy: Policy) -> Decision:
    attempt = record.attempt
    if attempt is not None and attempt.is_of(task.uid, task.attempt):
        return _call_off(record, attempt, policy)
    return _say_again(record, task.job, task.uid, task.attempt)


def _call_off(record: Record, attempt: Attempt, policy: Policy) -> Decision:
    if not attempt.begun:
        return give_back(record, attempt)
    if attempt.cancelled:
        return Decision(record, (stop(attempt),))
    if attempt.step not in SWAPS:
        attempt = _replace(attempt, cancelled=True, revision=attempt.revision + 1)
        return Decision(_replace(record, attempt=attempt), (stop(attempt), snapshot(attempt, policy)))
    if attempt.cancel_answered == attempt.revision:
        return Decision(record)
    attempt = _replace(attempt, cancel_answered=attempt.revision)
    return Decision(_replace(record, attempt=attempt), (snapshot(attempt, policy),))


def _send_snapshot(record: Record, task: SendSnapshot, now: Moment, policy: Policy) -> Decision:
    attempt = record.attempt
    if attempt is not None and attempt.is_of(task.uid, task.attempt):
        return Decision(record, (snapshot(attempt, policy),))
    return _say_again(record, task.job, task.uid, task.attempt)


def _say_again(record: Record, job: str, uid: str, attempt: int) -> Decision:
    """The last word about an attempt that this node does not work on; `free` where it never heard of it."""
    word = found(record.finished, uid, attempt) or found(record.refused, uid, attempt)
    report = word.report if word else None
    if report is None or (report.code == codes.BUSY and record.attempt is None):
        report = free(job, uid, attempt, report.revision + 1 if report else 1)
        record = _replace(record, refused=kept(record.refused, report))
    return Decision(record, (Say(body=report),))


def _seen(record: Record, seen: ReportSeen, now: Moment, policy: Policy) -> Decision:
    attempt = record.attempt
    if attempt is not None and attempt.is_of(seen.uid, seen.attempt):
        if seen.lease_seconds <= 0 or attempt.lease is None:
            return Decision(record)
        attempt = _replace(attempt, lease=lease_of(attempt.attempt, seen.lease_seconds, now))
        record = _replace(record, attempt=attempt)
        return Decision(record) if attempt.begun else ask_for_leave(record, attempt, now, policy)
    return Decision(_replace(record, finished=_marked(record.finished, seen), refused=_marked(record.refused, seen)))


def _marked(words: tuple[Kept, ...], seen: ReportSeen) -> tuple[Kept, ...]:
    return tuple(_replace(one, seen=True) if _is_seen(one.report, seen) else one for one in words)


def _is_seen(report: TaskReport, seen: ReportSeen) -> bool:
    return (report.uid, report.attempt) == (seen.uid, seen.attempt) and report.revision <= seen.revision


def _reached(record: Record, _: CloudReached, now: Moment, policy: Policy) -> Decision:
    attempt = record.attempt
    if attempt is None:
        return Decision(record, unseen(record))
    asked = () if attempt.begun else (hello(attempt),)
    return Decision(record, (*unseen(record), snapshot(attempt, policy), *asked))


# ---- the host ----------------------------------------------------------------------------------------------------


def _owner(record: Record, said: OwnerSaid, now: Moment, policy: Policy) -> Decision:
    """The owner's word is the end of the wait; a second word, or one about another attempt, changes nothing."""
    done = StepDone(
        uid=said.uid,
        attempt=said.attempt,
        step=WAITING_CONFIRMATION,
        ok=said.confirmed,
        code="" if said.confirmed else codes.REJECTED,
        reason=said.reason if said.confirmed else said.reason or "its owner rejected the upgrade",
    )
    return finished(record, done, now, policy)


_HEARD: Mapping[type[Message], Callable[[Record, Any, Moment, Policy], Decision]] = {
    StartTask: _start,
    CancelTask: _cancel,
    SendSnapshot: _send_snapshot,
    ReportSeen: _seen,
    CloudReached: _reached,
    StepDone: finished,
    OwnerSaid: _owner,
}
