"""No entry ever passes its share of the object, so that 5,000 of them stay under 1 MiB (product.md 3.2).

There is no pass that shortens later: what stands in an entry when it is written fits, whatever the others become.
"""

import msgspec

from beehive.api.nodeupgradejob import FAILURE, IN_PROGRESS, SUCCESSFUL, UNKNOWN, NodeEntry, NodeUpgradeJob
from beehive.api.size import LARGEST_OBJECT, RESERVE
from beehive.api.version import same

_LARGE = 500
"""Jobs with more nodes keep the flow of those only that failed or were silent."""
_replace = msgspec.structs.replace
_encode = msgspec.json.encode


def share_of(job: NodeUpgradeJob, total: int) -> int:
    """Bytes that each entry may have."""
    return (LARGEST_OBJECT - RESERVE - beside(job)) // max(1, total)


def beside(job: NodeUpgradeJob) -> int:
    """Bytes of the object beside its status."""
    return len(_encode(job.spec)) + len(_encode(job.metadata))


def fitted(entry: NodeEntry, job: NodeUpgradeJob, total: int, share: int) -> NodeEntry:
    """The entry without what is too much: the flow first, the version where it is the job's, then the sentence."""
    if total > _LARGE and entry.phase not in (FAILURE, UNKNOWN):
        entry = _replace(entry, action_flow=None)
        if entry.phase == SUCCESSFUL:
            entry = _replace(entry, reason="")
    if size(entry) <= share:
        return entry
    entry = _replace(entry, action_flow=None)
    if size(entry) > share and entry.current_version and same(entry.current_version, job.spec.version):
        entry = _replace(entry, current_version="")
    over = size(entry) - share
    return entry if over <= 0 else _cut(entry, over, share)


def size(entry: NodeEntry) -> int:
    """Bytes of an entry as it is stored, with the numbers that the schema shows always and a comma."""
    zeros = (not entry.revision) * len(',"revision":0') + (not entry.attempt) * len(',"attempt":0')
    return len(_encode(entry)) + zeros + 1


def _cut(entry: NodeEntry, over: int, share: int) -> NodeEntry:
    kept = entry.reason.encode()[: max(0, len(entry.reason.encode()) - over - 3)].decode(errors="ignore")
    entry = _replace(entry, reason=f"{kept}…" if kept else "")
    if size(entry) > share:
        entry = _replace(entry, reason="", current_version="", historic_version="")
    if size(entry) > share and entry.phase == IN_PROGRESS:
        entry = _replace(entry, wait_seconds=0)
    return entry
