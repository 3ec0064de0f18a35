"""Plays messages to the rules of a node's task manager, and reads what they decided."""

from typing import Any

import msgspec

from beehive.api.nodeupgradejob import BACK_UP, CHECK
from beehive.message import Message
from beehive.messages.host import RunStep, StepDone
from beehive.messages.tasks import CancelTask, Hello, StartTask, TaskReport, TaskSpec
from beehive.messages.uplink import Say
from modules.taskmanager.hearing import step
from modules.taskmanager.record import Attempt, Decision, Moment, Policy, Record

POLICY = Policy()
NOW = Moment(wall=1_767_225_600.0, boot="boot-1", uptime=100.0)
SPEC = TaskSpec(version="v1.23.0", image="a/b")


def later(seconds: float, boot: str = "boot-1") -> Moment:
    """NOW, `seconds` later."""
    return Moment(NOW.wall + seconds, boot, NOW.uptime + seconds)


def start(uid: str = "u1", attempt: int = 1, lease: float = 300.0, **spec: Any) -> StartTask:
    return StartTask(
        job=f"job-{uid}", uid=uid, attempt=attempt, spec=msgspec.structs.replace(SPEC, **spec), lease_seconds=lease
    )


def done(step_: str, ok: bool = True, **more: Any) -> StepDone:
    return StepDone(uid=more.pop("uid", "u1"), attempt=more.pop("attempt", 1), step=step_, ok=ok, **more)


def play(*messages: Message | None, record: Record | None = None, now: Moment = NOW) -> Decision:
    """The decision about the last of these messages, after all before it."""
    decision = Decision(record or Record())
    for message in messages:
        decision = step(decision.record, message, now, POLICY)
    return decision


def ran(decision: Decision) -> list[str]:
    """Actions that are begun."""
    return [one.step for one in decision.effects if isinstance(one, RunStep)]


def reports(decision: Decision) -> list[TaskReport]:
    """Reports that are said."""
    bodies = [one.body for one in decision.effects if isinstance(one, Say)]
    return [body for body in bodies if isinstance(body, TaskReport)]


def report(decision: Decision) -> TaskReport:
    """The one report."""
    (one,) = reports(decision)
    return one


def attempt(decision: Decision) -> Attempt:
    assert decision.record.attempt
    return decision.record.attempt


TO_UPGRADE = (start(), done(CHECK, from_version="v1.22.0"), done(BACK_UP))


def hellos(decision: Decision) -> int:
    return sum(isinstance(one, Say) and isinstance(one.body, Hello) for one in decision.effects)


def start_task_cancel() -> CancelTask:
    """Stop the first attempt of the first job."""
    return CancelTask(job="job-u1", uid="u1", attempt=1)
