"""What a node says of its attempts: every report is a snapshot of all it knows (architecture.md 1). Pure."""

import msgspec

from beehive.api.nodeupgradejob import WAITING_CONFIRMATION
from beehive.messages.attempts import Attempts, InHand
from beehive.messages.host import RunStep
from beehive.messages.tasks import Hello, TaskReport
from beehive.messages.uplink import Say
from modules.taskmanager import codes
from modules.taskmanager.record import MOST_KEPT, Attempt, Kept, Moment, Policy, Record

_replace = msgspec.structs.replace


def run(attempt: Attempt) -> RunStep:
    """Do the action that the attempt is in."""
    return RunStep(job=attempt.job, uid=attempt.uid, attempt=attempt.attempt, step=attempt.step, spec=attempt.spec)


def snapshot(attempt: Attempt, policy: Policy) -> Say:
    """All of an attempt that is under way."""
    waits = attempt.step == WAITING_CONFIRMATION
    return Say(
        body=TaskReport(
            job=attempt.job,
            uid=attempt.uid,
            attempt=attempt.attempt,
            revision=attempt.revision,
            action=attempt.step,
            results=attempt.results,
            code=codes.WAITING if waits else "",
            reason=_under_way(attempt),
            from_version=attempt.from_version,
            to_version=attempt.to_version,
            wait_seconds=policy.confirmation_limit if waits else 0.0,
        )
    )


def _under_way(attempt: Attempt) -> str:
    if attempt.cancelled:
        return "is being stopped"
    if not attempt.begun:
        return "its lease ended before the upgrade began; it asks the cloud whether it may begin"
    if attempt.interruptions:
        return f"was interrupted {times(attempt.interruptions)}"
    return codes.sentence(attempt.note)


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def final(attempt: Attempt, code: str, reason: str) -> TaskReport:
    """The last word about an attempt."""
    return TaskReport(
        job=attempt.job,
        uid=attempt.uid,
        attempt=attempt.attempt,
        revision=attempt.revision + 1,
        action=attempt.results[-1].action if attempt.results else attempt.step,
        results=attempt.results,
        final=True,
        code=code,
        reason=codes.sentence(reason),
        from_version=attempt.from_version,
        to_version=attempt.to_version,
    )


def busy(job: str, uid: str, attempt: int, revision: int, holder: str) -> TaskReport:
    """Another holds this node, and `holder` says who; nothing was begun."""
    return TaskReport(
        job=job, uid=uid, attempt=attempt, revision=revision, action="", code=codes.BUSY, reason=codes.sentence(holder)
    )


def free(job: str, uid: str, attempt: int, revision: int) -> TaskReport:
    """This node does not work on that attempt, nothing was changed for it, and it may be told to start."""
    return TaskReport(job=job, uid=uid, attempt=attempt, revision=revision, action="")


def hello(attempt: Attempt) -> Say:
    """May the upgrade begin?"""
    return Say(body=Hello(job=attempt.job, uid=attempt.uid, attempt=attempt.attempt, action=attempt.step))


def unseen(record: Record) -> tuple[Say, ...]:
    """Everything about other attempts that the cloud did not acknowledge."""
    return tuple(Say(body=one.report) for one in (*record.finished, *record.refused) if not one.seen)


def kept(words: tuple[Kept, ...], report: TaskReport) -> tuple[Kept, ...]:
    """The list with this word as its newest; the oldest are forgotten."""
    others = (one for one in words if (one.report.uid, one.report.attempt) != (report.uid, report.attempt))
    return (*others, Kept(report))[-MOST_KEPT:]


def found(words: tuple[Kept, ...], uid: str, attempt: int) -> Kept | None:
    """The word about this attempt."""
    return next((one for one in words if (one.report.uid, one.report.attempt) == (uid, attempt)), None)


def freed(record: Record) -> tuple[Record, tuple[Say, ...]]:
    """This node works on nothing any more: whoever was refused because of that is told."""
    news = [
        free(one.report.job, one.report.uid, one.report.attempt, one.report.revision + 1)
        for one in record.refused
        if one.report.code == codes.BUSY
    ]
    refused = record.refused
    for report in news:
        refused = kept(refused, report)
    return _replace(record, refused=refused), tuple(Say(body=report) for report in news)


def remembered(record: Record, now: Moment) -> Attempts:
    """For who asks on the host itself."""
    unacknowledged = sum(not one.seen for one in (*record.finished, *record.refused))
    attempt = record.attempt
    if attempt is None:
        return Attempts(None, unacknowledged, record.fault)
    in_hand = InHand(
        job=attempt.job,
        uid=attempt.uid,
        attempt=attempt.attempt,
        version=attempt.spec.version,
        step=attempt.step,
        begun=attempt.begun,
        from_version=attempt.from_version,
        reason=_under_way(attempt),
        owner_left=attempt.owner.left(now) if attempt.owner else 0.0,
    )
    return Attempts(in_hand, unacknowledged, record.fault)
