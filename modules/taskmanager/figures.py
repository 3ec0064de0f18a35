"""What an operator watches of the work itself. Pure."""

from collections.abc import Iterable, Iterator

from beehive.api.nodeupgradejob import BACK_UP, CHECK, ROLL_BACK, UPGRADE, WAITING_CONFIRMATION, ActionResult
from beehive.figures import COUNTER, GAUGE, HISTOGRAM, Metric
from beehive.world import from_rfc3339

STEP = Metric(
    "beehive_step_seconds", HISTOGRAM,
    "Seconds that a step took on a node, by the node's clock and in whole seconds; of each attempt that ended",
    ("step", "result"), (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0),
)  # fmt: skip
PENDING_REPORTS = Metric("beehive_reports_pending", GAUGE, "Reports of nodes that stand in no job's status yet")
ERRORS = Metric(
    "beehive_reconcile_errors", COUNTER,
    "Looks at jobs that came to nothing, by kind: `plan` (a defect: the job was set aside), `refused` (the API server "
    "does not take the status), `unanswered` (a write), `unread` (the list of jobs, nodes and sessions)", ("kind",),
)  # fmt: skip
KINDS = ("plan", "refused", "unanswered", "unread")
ALL = (STEP, PENDING_REPORTS, ERRORS)

_STEPS = (CHECK, WAITING_CONFIRMATION, BACK_UP, UPGRADE, ROLL_BACK)
FROM_THE_START = (
    *((ERRORS, (kind,)) for kind in KINDS),
    *((STEP, (step, result)) for step in _STEPS for result in ("ok", "failed")),
)


def steps(results: Iterable[ActionResult], told: float | None) -> Iterator[tuple[str, str, float]]:
    """(step, result, seconds); `told`: when the node was told to start, None where another process did that."""
    results = tuple(results)
    before = told if results and results[0].action == CHECK else None  # the tool's own word tells the end alone
    for one in results:
        try:
            ended = from_rfc3339(one.time)
        except (ValueError, OverflowError):
            before = None
            continue
        if before is not None and one.action in _STEPS:
            yield one.action, "ok" if one.status == "True" else "failed", max(0.0, ended - before)
        before = ended
