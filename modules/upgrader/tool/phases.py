"""The phases of the tool, and where a restarted tool goes on. Pure.

Forward: prepare, stop, save the database, swap, start, verify. Back: stop, restore, start, verify. Until the swap
nothing of the host has changed but that the service may stand still: then going back is to start it.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct


class Phase(enum.Enum):
    """What is begun; the last three are ends."""

    PREPARE = "prepare"
    STOP = "stop"
    SAVE = "save"
    SWAP = "swap"
    START = "start"
    VERIFY = "verify"
    UNDO_STOP = "undo-stop"
    UNDO_RESTORE = "undo-restore"
    UNDO_START = "undo-start"
    UNDO_VERIFY = "undo-verify"
    DONE = "done"
    ROLLED_BACK = "rolled-back"
    ROLLBACK_FAILED = "rollback-failed"


ENDS = frozenset({Phase.DONE, Phase.ROLLED_BACK, Phase.ROLLBACK_FAILED})
UNDO = frozenset({Phase.UNDO_STOP, Phase.UNDO_RESTORE, Phase.UNDO_START, Phase.UNDO_VERIFY})
BEFORE_SWAP = frozenset({Phase.PREPARE, Phase.STOP, Phase.SAVE})
MOST_INTERRUPTIONS = 3

NEXT: Mapping[Phase, tuple[Phase, Phase]] = MappingProxyType(
    {
        # phase: (after success, after failure)
        Phase.PREPARE: (Phase.STOP, Phase.UNDO_START),
        Phase.STOP: (Phase.SAVE, Phase.UNDO_START),
        Phase.SAVE: (Phase.SWAP, Phase.UNDO_START),
        Phase.SWAP: (Phase.START, Phase.UNDO_STOP),
        Phase.START: (Phase.VERIFY, Phase.UNDO_STOP),
        Phase.VERIFY: (Phase.DONE, Phase.UNDO_STOP),
        # A rollback goes on as far as it can: a program that will not stop must not keep the old one off the disk.
        Phase.UNDO_STOP: (Phase.UNDO_RESTORE, Phase.UNDO_RESTORE),
        Phase.UNDO_RESTORE: (Phase.UNDO_START, Phase.UNDO_START),
        Phase.UNDO_START: (Phase.UNDO_VERIFY, Phase.ROLLBACK_FAILED),
        Phase.UNDO_VERIFY: (Phase.ROLLED_BACK, Phase.ROLLBACK_FAILED),
    }
)


class Standing(Struct, frozen=True):
    """What a restarted tool knows: its record."""

    phase: Phase
    starts: int
    """With this one."""
    restore_failed: bool = False


class Found(Struct, frozen=True):
    """What a restarted tool finds: whose complete program lies at the target's place, and how its service is."""

    old: bool
    new: bool
    """Both, when an attempt brings the very program that is there."""
    ended: bool = False
    """The service has ended by itself: its manager knows how, or saw it start after the old version stood still."""
    started: bool = False
    """The service was started, by whomever, after the old version stood still."""


def after(phase: Phase, *, ok: bool, undo_failed: bool = False) -> Phase:
    """The next phase. A rollback in which something could not be put back ends as failed, whatever runs then."""
    following = NEXT[phase][0 if ok else 1]
    return Phase.ROLLBACK_FAILED if following is Phase.ROLLED_BACK and undo_failed else following


def resume(standing: Standing, found: Found) -> Phase:
    """Where a restarted tool goes on; evidence first, never a guess (architecture.md 6, Resume)."""
    phase = standing.phase
    if phase in ENDS:
        return phase
    if phase in UNDO:
        return _resume_undo(standing, found)
    if standing.starts > MOST_INTERRUPTIONS:
        return Phase.UNDO_START if phase in BEFORE_SWAP and found.old else Phase.UNDO_STOP
    if phase is Phase.PREPARE:
        return phase
    if phase in (Phase.STOP, Phase.SAVE):
        return Phase.STOP if found.old else Phase.UNDO_STOP
    if found.new:
        # No second swap, no second copy of data that the new version may have changed, and no second start of one that
        # is known to have ended.
        tried = found.ended and (found.started or phase is Phase.VERIFY)
        return Phase.VERIFY if tried else Phase.START
    return Phase.STOP if found.old and phase is Phase.SWAP else Phase.UNDO_STOP


def _resume_undo(standing: Standing, found: Found) -> Phase:
    started = standing.phase in (Phase.UNDO_START, Phase.UNDO_VERIFY)
    return Phase.UNDO_START if started and (found.old or standing.restore_failed) else Phase.UNDO_STOP
