"""The word that ends an attempt. Pure."""

from beehive.messages.host import Verdict
from modules.upgrader.sentences import LONGEST, reason, shortened
from modules.upgrader.tool.phases import Phase
from modules.upgrader.tool.record import Record

ROLLED_BACK = "RolledBack"
ROLLBACK_FAILED = "RollbackFailed"


def verdict_of(record: Record, installed: str, running: str = "", mend: str = "") -> Verdict:
    """What the record's last phase means. `installed` and `running` are what the program at the target's place and the
    one that runs answer now; empty: there is none that does. `mend` is what a person types.

    `from_version` is the version before the attempt, `to_version` the one that is there after it.
    """
    order = record.order
    before, step = order.from_version, "RollBack"
    if record.phase is Phase.DONE:
        return Verdict("Upgrade", True, "", "", before, order.to_version)
    if record.phase is Phase.ROLLED_BACK:
        return Verdict(step, True, ROLLED_BACK, reason(record.reason), before, order.backup)
    return Verdict(step, False, ROLLBACK_FAILED, _explained(record, installed, running, mend), before, installed)


def _explained(record: Record, installed: str, running: str, mend: str) -> str:
    undo = record.undo_problem or "unknown"
    problem = f"rollback failed: {undo}" if not record.reason else f"{record.reason}; rollback failed: {undo}"
    return with_mend(problem, installed, running, mend or rollback_to(record.order.backup))


def rollback_to(backup: str) -> str:
    """The command that restores a backup."""
    return f"keadm rollback edge --historical-version {backup}" if backup else "keadm rollback edge"


def with_mend(problem: str, installed: str, running: str, command: str) -> str:
    """What went wrong, what runs, what lies on the disk, what a person types; all but the first are never cut off."""
    there = f"runs: {running or 'nothing'}; on disk: {installed or 'no program that answers'}"
    mend = f"{there}; mend it: {command}"
    return f"{shortened(reason(problem), LONGEST - len(mend) - 2)}; {mend}"
