"""Why a job is where it is, in sentences. Pure: an object in, sentences out."""

from collections import Counter
from collections.abc import Iterator, Sequence

from beehive.api.meta import condition
from beehive.api.nodeupgradejob import (
    CHECK,
    COMPLETED,
    DEFAULT_TIMEOUT,
    FAILURE,
    IN_PROGRESS,
    UNKNOWN,
    WAITING_CONFIRMATION,
    NodeEntry,
    NodeUpgradeJob,
)  # fmt: skip
from beehive.api.reasons import REASONS
from beehive.api.tolerance import tolerance
from modules.console.times import moment, nodes, spoken
from modules.taskmanager.job.summary import step_of

_MOST_REMEDIES = 3
_IGNORED_AFTER = 30.0
"""Seconds after which a job that nobody has looked at says that no controller runs."""


def head(job: NodeUpgradeJob, now: float) -> str:
    """`north   v1.22.0 → v1.23.0   InProgress for 4m   7/10 done, 1 failed, 2 in flight, about 3m to go`."""
    return "   ".join((title(job, now), ", ".join(_counts(job, now))))


def title(job: NodeUpgradeJob, now: float) -> str:
    """`north   v1.22.0 → v1.23.0   InProgress for 4m`."""
    return "   ".join((job.metadata.name, _versions(job), _phase(job, now)))


def _versions(job: NodeUpgradeJob) -> str:
    olds = {entry.historic_version for entry in job.status.node_status or () if entry.historic_version}
    before = olds.pop() if len(olds) == 1 else f"{len(olds)} versions" if olds else ""
    return f"{before} → {job.spec.version}".strip()


def _phase(job: NodeUpgradeJob, now: float) -> str:
    status = job.status
    start, end = moment(status.start_time), moment(status.completion_time)
    if not status.phase or start is None:
        return status.phase or "new"
    if ended(job) and end is not None:
        return f"{status.phase} after {spoken(end - start)}, {spoken(now - end)} ago"
    return f"{status.phase} for {spoken(now - start)}"


def _counts(job: NodeUpgradeJob, now: float) -> Iterator[str]:
    status = job.status
    yield f"{status.done or '0/0'} done"
    failed = status.failed + status.unknown
    if failed:
        yield f"{failed:,} failed"
    if status.skipped:
        yield f"{status.skipped:,} skipped"
    if status.in_progress:
        yield f"{status.in_progress:,} in flight"
    left = remaining(job, now)
    if left is not None:
        yield f"about {spoken(left)} to go"


def ended(job: NodeUpgradeJob) -> bool:
    """Its phase is one that only `retry` leaves."""
    return job.status.phase in (COMPLETED, FAILURE)


def remaining(job: NodeUpgradeJob, now: float) -> float | None:
    """Seconds until the end at the pace so far; None while there is no pace, and where the job stands still."""
    status, start = job.status, moment(job.status.start_time)
    tried = status.successful + status.failed + status.unknown
    open_ = status.pending + status.in_progress
    if start is None or not tried or not open_ or ended(job) or not status.in_progress:
        return None
    return max(1.0, (now - start) / tried * open_)


def reasons(job: NodeUpgradeJob, now: float) -> list[str]:
    """Why it is not done, or how it ended, and what to do about it."""
    if ended(job):
        return [*_end(job), *_remedies(job)]
    return [*_waiting(job, now), budget(job), *_remedies(job)] if job.status.phase else list(_unseen(job, now))


def _remedies(job: NodeUpgradeJob) -> Iterator[str]:
    """What to do about each kind of failure, the most frequent first."""
    failed = [entry for entry in job.status.node_status or () if entry.phase in (FAILURE, UNKNOWN)]
    for code, count in Counter(entry.reason_code for entry in failed).most_common(_MOST_REMEDIES):
        if code in REASONS:
            node = next(entry.node_name for entry in failed if entry.reason_code == code)
            yield f"{code} ({count:,}): {REASONS[code].remedy.format(job=job.metadata.name, node=node)}"


def _unseen(job: NodeUpgradeJob, now: float) -> Iterator[str]:
    created = moment(job.metadata.creation_timestamp)
    if created is not None and now - created > _IGNORED_AFTER:
        yield (
            f"No controller has looked at it for {spoken(now - created)}: does the cloud side run, and lead? "
            "kubectl -n kubeedge get lease beehive"
        )
    else:
        yield "It is new; the controller looks at it in a moment."


def _end(job: NodeUpgradeJob) -> Iterator[str]:
    status, name = job.status, job.metadata.name
    accepted = condition(status.conditions or (), "Accepted")
    if accepted and accepted.status == "False":
        yield f"It could not be carried out: {accepted.message}. Make a new job with that mended."
        return
    if status.reason == "Aborted":
        yield "It was aborted, which is final: nodes that had begun to swap finished, the others run what they ran."
        return
    if status.reason == "NothingSelected":
        yield "No node was selected. Look at the labels: kubectl get nodes --show-labels"
        return
    if status.reason == "BudgetExceeded":
        yield f"It stopped itself: {budget(job)}"
    again = status.failed + status.unknown
    if again:
        yield f"Mend {nodes(again)} (the table says why), then try again: beehive job retry {name}"
    elif status.skipped:
        yield f"Skipped: {nodes(status.skipped)}. Those that were away are tried again by: beehive job retry {name}"


def _waiting(job: NodeUpgradeJob, now: float) -> Iterator[str]:
    status, spec, name = job.status, job.spec, job.metadata.name
    flying = [entry for entry in status.node_status or () if entry.phase == IN_PROGRESS]
    asked = [entry for entry in flying if step_of(entry) == WAITING_CONFIRMATION]
    if job.metadata.deletion_timestamp:
        yield "It is being deleted: no further node is started, and nodes in flight are told to stop."
    elif spec.abort:
        yield f"Aborted: no further node is started; it ends with those in flight ({nodes(len(flying))})."
    elif spec.suspend and status.pending:
        yield f"Suspended, with {nodes(status.pending)} to start. Go on: beehive job resume {name}"
    elif status.pending and len(flying) >= spec.concurrency:
        slots = "the only slot is" if spec.concurrency == 1 else f"all {spec.concurrency} slots are"
        behind = slowest(flying, spec.timeout_seconds, now)
        yield f"Why not faster: concurrency is {spec.concurrency} and {slots} busy; {behind}."
    elif flying:
        yield f"In flight: {nodes(len(flying))}; {slowest(flying, spec.timeout_seconds, now)}."
    if asked:
        names = ", ".join(entry.node_name for entry in asked[:3])
        more = f" and {len(asked) - 3} more" if len(asked) > 3 else ""
        yield f"Waits for the owners of {names}{more}: on the host, beehive edge confirm {name}, or reject."
    if status.pending and not spec.suspend and len(flying) < spec.concurrency and status.waiting:
        yield f"Waits: {status.waiting}."


def slowest(flying: Sequence[NodeEntry], limit: int, now: float) -> str:
    """`the slowest is edge-8, in Upgrade for 40s (limit 5m)`."""
    entry = min(flying, key=lambda one: moment(one.since) or now)
    silent = spoken(now - (moment(entry.since) or now))
    step = step_of(entry) if entry.action_flow or entry.reason_code else CHECK
    return f"the slowest is {entry.node_name}, in {step} for {silent} (limit {spoken(limit or DEFAULT_TIMEOUT)})"


def budget(job: NodeUpgradeJob) -> str:
    """`Tolerates 1 failure, stops at the second (1 so far).`"""
    try:
        most = tolerance(job.spec.failure_tolerate).most(job.status.total)
    except ValueError:
        return f'failureTolerate "{job.spec.failure_tolerate}" cannot be read.'
    so_far = sum(entry.phase in (FAILURE, UNKNOWN) for entry in job.status.node_status or ())
    return f"{tolerates(most)} ({so_far:,} so far)."


def tolerates(most: int) -> str:
    """`Tolerates 1 failure, stops at the second`."""
    if most == 0:
        return "Tolerates no failure, stops at the first"
    return f"Tolerates {most:,} {'failure' if most == 1 else 'failures'}, stops at the {ordinal(most + 1)}"


def ordinal(number: int) -> str:
    """`first`, `second`, `third`, `4th`."""
    words = {1: "first", 2: "second", 3: "third"}
    ends = {1: "st", 2: "nd", 3: "rd"}
    teen = number % 100 in (11, 12, 13)
    return words.get(number) or f"{number:,}{'th' if teen else ends.get(number % 10, 'th')}"
