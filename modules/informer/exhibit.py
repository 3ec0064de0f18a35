"""What the informer shows to operators beside its answers: numbers, and a word where somebody else writes our jobs."""

import logging
from collections.abc import Callable, Iterable

from beehive.api.nodeupgradejob import KIND, NodeUpgradeJob
from beehive.figures import Figures
from beehive.messages.objects import RecordEvent
from beehive.world import World
from modules.informer import figures as shown
from modules.informer.cache import Change, Gone
from modules.informer.client import Client
from modules.informer.contest import ANOTHER, Contest, warning
from modules.informer.recorder import Recorder

log = logging.getLogger("beehive.informer")


class Exhibit:
    """Of one run. A scrape reads it from another thread, so what it reads is replaced, never changed."""

    def __init__(
        self, figures: Figures, contest: Contest, recorder: Recorder, world: World, leads: Callable[[], bool]
    ) -> None:
        self._figures, self._contest, self._recorder = figures, contest, recorder
        self._world, self._leads = world, leads
        self._jobs: tuple[NodeUpgradeJob, ...] = ()
        self._complained: set[str] = set()
        """Uids of jobs whose foreign writer was told of."""

    def derive(self, client: Client) -> None:
        """Set up what a scrape finds out by itself."""
        derived, count = self._figures.derived, shown.NodeCount()
        derived(shown.JOBS, lambda: shown.by_phase(self._jobs))
        derived(shown.SUSPENDED, lambda: shown.suspended(self._jobs))
        derived(shown.NODES, lambda: count(self._jobs))
        derived(shown.BUDGET, lambda: shown.budgets(self._jobs))
        derived(shown.UNANSWERED, lambda: shown.unanswered(self._jobs, self._world.now()))
        derived(shown.CALLS, lambda: {labels: float(number) for labels, number in tuple(client.calls.items())})
        derived(shown.CONTESTED, lambda: float(len(self._contest.standing(self._world.now()))))
        derived(shown.EVENTS_DROPPED, lambda: float(self._recorder.dropped))

    def jobs_changed(self, jobs: tuple[NodeUpgradeJob, ...], changes: Iterable[Change[NodeUpgradeJob]]) -> None:
        """All jobs as they are, and which of them are news."""
        self._jobs = jobs
        for change in changes:
            if isinstance(change, Gone):
                self._contest.forget(change.name)
                self._complained.discard(change.uid)
            elif self._leads():
                self._complain(change.object)

    def _complain(self, job: NodeUpgradeJob) -> None:
        """Say on a job, once, that somebody else writes its status."""
        meta, others = job.metadata, self._contest.standing(self._world.now())
        if meta.name not in others or meta.uid in self._complained:
            return
        self._complained.add(meta.uid)
        note = warning({meta.name: others[meta.name]})
        log.warning("%s", note)
        self._recorder.record(
            RecordEvent(kind=KIND, name=meta.name, uid=meta.uid, warning=True, reason=ANOTHER, note=note)
        )
