"""What a node's report changes in its entry. Pure; commutative and idempotent by (attempt, revision).

A report is a snapshot, so the entry becomes what the newest one says; a final word beats every word that is not, for
nothing can come after it. An entry that is closed is changed by a final word of its own attempt only: always when it
was closed without the node's word, and by a later revision when the node itself had closed it.
A last word is judged before it counts: its code is one that a node may say, and who says that it is at the job's
version names that version (promise 9: a node speaks for itself, and cannot make another version count as ours).
`since` is not touched: it is when the change is written, which the plan knows.
"""

from functools import lru_cache

import msgspec

from beehive.api.nodeupgradejob import (
    BACK_UP,
    CHECK,
    IN_PROGRESS,
    PENDING,
    ROLL_BACK,
    UNKNOWN,
    UPGRADE,
    WAITING_CONFIRMATION,
    ActionResult,
    NodeEntry,
)
from beehive.api.version import agent_version, image_tag
from beehive.messages.tasks import TaskReport
from beehive.world import from_rfc3339, rfc3339
from modules.taskmanager import codes

LEGACY_ATTEMPT = -1
"""A real EdgeCore knows no attempts: its report counts for the entry in flight (product.md 4)."""
_ACTIONS = (CHECK, WAITING_CONFIRMATION, BACK_UP, UPGRADE, ROLL_BACK)
_MOST_RESULTS = 16
_LONGEST_TIME = 40
_LONGEST_WAIT = 7 * 86400
_MOST_REVISION = 2**62
_replace = msgspec.structs.replace


def fold(entry: NodeEntry, report: TaskReport, wanted: str) -> NodeEntry:
    """The entry with the report folded in; the same object when the report changes nothing.

    `wanted` is the version of the job.
    """
    if report.attempt == LEGACY_ATTEMPT:
        return _fold_legacy(entry, report, wanted)
    if report.attempt != entry.attempt or not 0 <= report.revision <= _MOST_REVISION:
        return entry
    if report.final:
        news = report.revision > entry.revision or not _closed_by_node(entry)
        return _closed(entry, report, flow_of(report.results), wanted) if news else entry
    if entry.phase not in (PENDING, IN_PROGRESS) or report.revision <= entry.revision:
        return entry
    return _in_flight(entry, report)


def is_free(report: TaskReport) -> bool:
    """A node that was busy says that it may be told to start."""
    return not (report.final or report.code or report.action or report.results)


def flow_of(results: tuple[ActionResult, ...]) -> tuple[ActionResult, ...]:
    """The results as they can be stored: known actions, True or False, one line, a real time."""
    return tuple(_clean(one) for one in results[:_MOST_RESULTS] if one.action in _ACTIONS)


def _clean(one: ActionResult) -> ActionResult:
    status = "True" if one.status == "True" else "False"
    return ActionResult(action=one.action, status=status, reason=codes.sentence(one.reason), time=_time(one.time))


@lru_cache(maxsize=4096)
def _time(text: str) -> str:
    """In whole seconds, or empty; the nodes of a wave say the same ones."""
    if len(text) > _LONGEST_TIME:
        return ""
    try:
        return rfc3339(from_rfc3339(text))
    except (ValueError, OverflowError, OSError):
        return ""


def _closed_by_node(entry: NodeEntry) -> bool:
    return codes.is_own_word(entry.phase, entry.reason_code)


def _closed(entry: NodeEntry, report: TaskReport, flow: tuple[ActionResult, ...], wanted: str) -> NodeEntry:
    code, reason = _judged(report, wanted)
    return _replace(
        entry,
        phase=codes.phase_of(code),
        reason_code=code,
        reason=codes.sentence(reason),
        action_flow=flow or None,
        historic_version=codes.version_word(report.from_version) or entry.historic_version,
        current_version=codes.version_word(report.to_version),
        revision=report.revision,
        wait_seconds=0,
    )


def _judged(report: TaskReport, wanted: str) -> tuple[str, str]:
    """Code and sentence of a last word, as far as it is believed."""
    code, own = report.code, f"; it says: {report.reason}" if report.reason else ""
    if not codes.is_final(code):
        return codes.UNEXPLAINED, f"ended with {codes.quoted(code)}, which is no code that a node may give{own}"
    if code in ("", codes.ALREADY_AT_VERSION) and not _is_there(report, wanted):
        runs = f"names {codes.quoted(report.to_version)}" if report.to_version else "names no version"
        what = "a successful upgrade" if not code else codes.ALREADY_AT_VERSION
        return codes.UNEXPLAINED, f"reports {what} but {runs}; the job wants {wanted}{own}"
    return code, report.reason


def _is_there(report: TaskReport, wanted: str) -> bool:
    """Does it name the job's version? A real EdgeCore that was not restarted names none (spec/kubeedge.md 7.3), nor
    does a node that ended before it looked."""
    if not report.to_version:
        return report.attempt == LEGACY_ATTEMPT or report.code == codes.ALREADY_AT_VERSION
    return image_tag(agent_version(report.to_version)) == image_tag(wanted)


def _in_flight(entry: NodeEntry, report: TaskReport) -> NodeEntry:
    busy, waiting = report.code == codes.BUSY, report.code == codes.WAITING
    return _replace(
        entry,
        phase=PENDING if busy or is_free(report) else IN_PROGRESS,
        reason_code=report.code if busy or waiting else "",
        reason=codes.sentence(report.reason),
        action_flow=flow_of(report.results) or None,
        historic_version=codes.version_word(report.from_version) or entry.historic_version,
        current_version=codes.version_word(report.to_version),
        revision=report.revision,
        wait_seconds=_wait(report.wait_seconds) if waiting else 0,
    )


def _wait(seconds: float) -> int:
    return int(min(seconds, _LONGEST_WAIT)) if seconds > 0 else 0


# ---- a real EdgeCore ---------------------------------------------------------------------------------------------


def _fold_legacy(entry: NodeEntry, report: TaskReport, wanted: str) -> NodeEntry:
    """Each of its reports tells one action; they are gathered in the order of the flow (spec/kubeedge.md 4.5)."""
    if entry.phase not in (IN_PROGRESS, UNKNOWN) or not _later_than_dispatch(entry, report):
        return entry
    known = {one.action: one for one in entry.action_flow or ()}
    told = {one.action: one for one in flow_of(report.results) if one.action not in known}
    merged = {**known, **told}
    flow = tuple(merged[action] for action in _ACTIONS if action in merged)
    if report.final:
        return _closed(entry, _renumbered(report, entry.revision + 1), flow, wanted)
    if not told or entry.phase == UNKNOWN:
        return entry
    return _replace(entry, action_flow=flow, reason_code="", reason="", revision=entry.revision + len(told))


def _later_than_dispatch(entry: NodeEntry, report: TaskReport) -> bool:
    if entry.revision or not report.results:
        return True
    try:
        return from_rfc3339(report.results[-1].time) >= from_rfc3339(entry.since)
    except (ValueError, OverflowError, OSError):
        return True


def _renumbered(report: TaskReport, revision: int) -> TaskReport:
    return _replace(report, revision=revision)
