"""What `beehive job` does with a job, and what it says before it does it."""

import asyncio
import contextlib
import sys
from typing import Any

from rich.console import Console

from beehive.api.nodeupgradejob import COMPLETED, FAILURE, SKIPPED, UNKNOWN, NodeEntry, NodeUpgradeJob
from beehive.errors import Refused
from modules.console import jobs_plan
from modules.console.jobs import Jobs
from modules.console.jobs_made import Manifest, job_of
from modules.console.jobs_words import ended
from modules.console.times import nodes
from modules.taskmanager import codes

Change = dict[str, Any]


def suspend(job: NodeUpgradeJob) -> Change:
    """Raises Refused where there is nothing to suspend."""
    _must_be_open(job, "suspend")
    return {} if job.spec.suspend else {"suspend": True}


def resume(job: NodeUpgradeJob) -> Change:
    """An ended job may be resumed too: then `retry` finds it open."""
    return {"suspend": False} if job.spec.suspend else {}


def abort(job: NodeUpgradeJob) -> Change:
    """Raises Refused where there is nothing to abort."""
    _must_be_open(job, "abort")
    return {} if job.spec.abort else {"abort": True}


def retry(job: NodeUpgradeJob) -> Change:
    """Raises Refused where nothing would be tried again."""
    if job.spec.abort:
        raise Refused(f"Job {job.metadata.name} was aborted, which is final. Make a new job for those that are left.")
    if not again(job):
        raise Refused(f"Job {job.metadata.name} has no node to try again: none failed, was away or was left out.")
    return {"retry": job.spec.retry + 1}


def again(job: NodeUpgradeJob) -> list[NodeEntry]:
    """The entries that `retry` opens (product.md 3.1)."""
    return [
        entry
        for entry in job.status.node_status or ()
        if entry.phase in (FAILURE, UNKNOWN) or (entry.phase == SKIPPED and entry.reason_code in codes.RETRIED)
    ]


def would_abort(job: NodeUpgradeJob) -> list[str]:
    """What an abort touches. Raises Refused as `abort` does."""
    abort(job)
    status = job.status
    return [
        f"Job {job.metadata.name} to {job.spec.version}: {status.done or '0/0'} done.",
        f"  {nodes(status.pending)} will not be started.",
        f"  {nodes(status.in_progress)} in flight will stop if they have not begun to swap, and finish if they have.",
        "An abort cannot be taken back; beehive job suspend can.",
    ]


def would_retry(job: NodeUpgradeJob) -> list[str]:
    """What a retry touches. Raises Refused as `retry` does."""
    retry(job)
    tried = again(job)
    names = ", ".join(entry.node_name for entry in tried[:3])
    more = f" and {len(tried) - 3:,} more" if len(tried) > 3 else ""
    pace = f"{job.spec.concurrency:,} at a time"
    return [f"Job {job.metadata.name} will try again {nodes(len(tried))}, {pace}: {names}{more}."]


def _must_be_open(job: NodeUpgradeJob, verb: str) -> None:
    if ended(job):
        word = "Completed" if job.status.phase == COMPLETED else FAILURE
        raise Refused(f"Job {job.metadata.name} has ended ({word}); there is nothing to {verb}.")


async def preview(jobs: Jobs, manifest: Manifest, now: float) -> jobs_plan.Preview:
    """What this job would do. Raises Refused with all that is wrong with it."""
    job = job_of(manifest)
    others, known = await asyncio.gather(jobs.all(), jobs.nodes())
    return jobs_plan.preview(job, [one.job for one in others], known, now)


async def watch(jobs: Jobs, name: str, timeout: float | None) -> bool:
    """Look on until the job has ended; was it Completed? Raises Refused when that was not within `timeout` seconds."""
    from modules.console.jobs_watch import last_word, screen  # noqa: PLC0415 - rich only where it is drawn

    console = Console(highlight=False)
    last: NodeUpgradeJob | None = None
    try:
        async with asyncio.timeout(timeout):
            with screen(console) as shown:
                async with contextlib.aclosing(jobs.follow(name, _say)) as following:
                    async for found in following:
                        last = found.job
                        shown.look(last)
                        if ended(last) and last.status.observed_retry >= last.spec.retry:
                            break
    except TimeoutError:
        raise Refused(
            f"Job {name} has not ended within {timeout:g} s; it goes on. See why: beehive job describe {name}"
        ) from None
    if last is None:
        return False
    console.print(last_word(last), soft_wrap=True, markup=False)
    return last.status.phase == COMPLETED


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
