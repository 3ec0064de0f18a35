"""How an attempt goes on after a restart (architecture.md 6, 11 B). Evidence first; pure.

In this order: a verdict on this attempt is its word · its unit still runs: watch it · it was upgrading, no tool has
taken it up, and the target is installed and healthy: success · neither old nor new is complete: roll back · cut off too
often: roll back · else run the action again, for every action may be run twice.
"""

import msgspec

from beehive.api.nodeupgradejob import ROLL_BACK, UPGRADE, WAITING_CONFIRMATION
from beehive.api.version import same
from beehive.message import Command
from beehive.messages.host import Evidence, StepDone, StopStep, WatchStep
from modules.taskmanager.flow import (
    SWAPS,
    end,
    enter,
    finished,
    give_back,
    has_leave,
    roll_back,
    with_result,
)
from modules.taskmanager.record import Attempt, Deadline, Decision, Moment, Policy, Record
from modules.taskmanager.words import hello, run, snapshot, times, unseen

INTERRUPTED = "Interrupted"
_replace = msgspec.structs.replace


def resume(record: Record, evidence: Evidence | None, now: Moment, policy: Policy, restarted: bool = True) -> Decision:
    """Go on. `evidence` is about `record.attempt`, None when there is none.

    `restarted` is False when only messages were missed: then nothing was interrupted, and an action inside this process
    still goes on.
    """
    if record.attempt is None or evidence is None:
        return Decision(record, unseen(record))
    decision = _resumed(record, record.attempt, evidence, now, policy, restarted)
    again = tuple(word for word in unseen(decision.record) if word not in decision.effects)
    return Decision(decision.record, (*again, *decision.effects))


def _resumed(
    record: Record, attempt: Attempt, evidence: Evidence, now: Moment, policy: Policy, restarted: bool
) -> Decision:
    if not attempt.begun:
        return ask_for_leave(record, attempt, now, policy)
    if attempt.cancelled and attempt.step not in SWAPS:
        if not restarted:
            return Decision(record, stop_again(attempt))
        back = give_back(record, attempt)
        return Decision(back.record, (stop(attempt), *back.effects))
    word = _word(attempt, evidence)
    if word is not None:
        return finished(record, word, now, policy)
    if evidence.unit_runs:
        return Decision(record, (_watch(attempt), snapshot(attempt, policy)))
    if attempt.step == UPGRADE and not evidence.complete:
        return roll_back(record, attempt, "interrupted, and neither version is complete on disk", now, policy)
    return _again(record, attempt, now, policy, restarted)


def _word(attempt: Attempt, evidence: Evidence) -> StepDone | None:
    """What the host itself says of the action in hand."""
    verdict, upgrading = evidence.verdict, attempt.step == UPGRADE
    same_step = verdict is not None and (
        verdict.step == attempt.step or (verdict.step in SWAPS and attempt.step in SWAPS)
    )
    if verdict is not None and same_step:
        return StepDone(
            uid=attempt.uid,
            attempt=attempt.attempt,
            step=verdict.step,
            ok=verdict.ok,
            code=verdict.code,
            reason=verdict.reason,
            from_version=verdict.from_version,
            to_version=verdict.to_version,
        )
    runs_target = evidence.healthy and evidence.complete and same(evidence.installed, attempt.spec.version)
    if upgrading and runs_target and not evidence.unit_runs and not evidence.undecided:
        return StepDone(uid=attempt.uid, attempt=attempt.attempt, step=UPGRADE, ok=True, to_version=evidence.installed)
    return None


def _again(record: Record, attempt: Attempt, now: Moment, policy: Policy, restarted: bool) -> Decision:
    if attempt.step == WAITING_CONFIRMATION:
        if attempt.owner is None or attempt.owner.boot != now.boot:  # a reboot gives the owner the whole time again
            attempt = _replace(attempt, owner=Deadline(now.boot, now.uptime + policy.confirmation_limit))
    elif restarted:
        attempt = _replace(attempt, interruptions=attempt.interruptions + 1, revision=attempt.revision + 1)
    if attempt.interruptions >= policy.most_interruptions and attempt.step != ROLL_BACK:
        return _too_often(record, attempt, now, policy)
    return Decision(_replace(record, attempt=attempt), (run(attempt), snapshot(attempt, policy)))


def _too_often(record: Record, attempt: Attempt, now: Moment, policy: Policy) -> Decision:
    reason = f"interrupted {times(attempt.interruptions)} in {attempt.step}"
    if attempt.step == UPGRADE:
        return roll_back(record, attempt, reason, now, policy)
    attempt = with_result(attempt, attempt.step, False, reason, now)
    return end(record, attempt, INTERRUPTED, f"{reason}; nothing was changed")


def ask_for_leave(record: Record, attempt: Attempt, now: Moment, policy: Policy) -> Decision:
    """It stands before `Upgrade`: begin if it may by now, else ask (again)."""
    if has_leave(attempt, now):
        return enter(record, attempt, UPGRADE, now, policy)
    return Decision(record, (hello(attempt), snapshot(attempt, policy)))


def stop(attempt: Attempt) -> Command:
    """End the action in hand."""
    return StopStep(uid=attempt.uid, attempt=attempt.attempt)


def stop_again(attempt: Attempt) -> tuple[Command, ...]:
    """End it once more, where the word of its end may be lost: it is begun first, for only what runs can say that it
    ended. An action that still runs is not begun twice."""
    return (run(attempt), stop(attempt))


def _watch(attempt: Attempt) -> Command:
    return WatchStep(job=attempt.job, uid=attempt.uid, attempt=attempt.attempt, step=attempt.step, spec=attempt.spec)
