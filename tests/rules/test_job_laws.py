"""The laws of the plan, against orders that nobody thought of (architecture.md 6).

Two jobs want the same nodes. Reports of any attempt come in any order and more than once, sessions come and go, Node
objects change and vanish, operators suspend, abort and retry, the clock jumps, writes get lost or stand unanswered, and
the planner restarts with nothing but the statuses. After every single write all laws hold.
"""

from collections import Counter
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from beehive.api.node import Node
from beehive.api.nodeupgradejob import COMPLETED, FAILURE, IN_PROGRESS, PENDING, UNKNOWN, JobStatus, NodeUpgradeJob
from beehive.api.tolerance import tolerance
from beehive.messages.tasks import TaskReport
from modules.taskmanager import codes
from modules.taskmanager.job import Fleet, News, Plan, plan
from tests.fakes.jobs import NEW, OLD, START, a_job, a_node, a_report, rolled_back, success, with_spec, with_status

NAMES = ("a", "b", "c", "d")
OPEN = (PENDING, IN_PROGRESS)
ENDED = (COMPLETED, FAILURE)
UIDS = ("uid-north", "uid-south")
Words = dict[str, dict[str, tuple[TaskReport, ...]]]


def exceeded(job: NodeUpgradeJob, status: JobStatus) -> bool:
    entries = status.node_status or ()
    failed = sum(entry.phase in (FAILURE, UNKNOWN) for entry in entries)
    cut = any(entry.reason_code == codes.BUDGET_EXCEEDED for entry in entries)
    return cut or tolerance(job.spec.failure_tolerate).exceeded(failed, len(entries))


def obeys(job: NodeUpgradeJob, after: JobStatus) -> None:
    """Laws of one write."""
    before, old, new = job.status, job.status.node_status or (), after.node_status or ()
    retried = after.observed_retry > before.observed_retry
    flying = [entry.node_name for entry in new if entry.phase == IN_PROGRESS]
    assert len(flying) <= job.spec.concurrency
    if before.phase:
        assert [entry.node_name for entry in old] == [entry.node_name for entry in new]
    for former, entry in zip(old, new, strict=False):
        if codes.is_own_word(former.phase, former.reason_code) and entry.phase in OPEN:
            assert retried, f"{former} opened by itself"
        marked = entry.phase == IN_PROGRESS and former.phase != IN_PROGRESS
        if marked:
            assert not job.spec.suspend
            assert not job.spec.abort
            assert retried or not exceeded(job, before), "a mark beyond the budget"
        assert entry.attempt >= former.attempt
        assert entry.attempt == former.attempt or retried
    for entry in new:
        assert entry.since
        assert entry.phase in (PENDING, "Successful", IN_PROGRESS) or entry.reason_code
    open_ = [entry for entry in new if entry.phase in OPEN]
    if after.phase != "Init":
        assert (after.phase in ENDED) is not bool(open_), "it ends iff nothing is open"
        if job.spec.abort or exceeded(job, after):
            assert not [entry for entry in new if entry.phase == PENDING]
    if before.phase in ENDED and not retried:
        kept = ("phase", "reason", "conditions", "completion_time")
        assert all(getattr(after, name) == getattr(before, name) for name in kept)
    counts = Counter(entry.phase for entry in new)
    counted = (after.pending, after.in_progress, after.successful, after.failed, after.skipped, after.unknown)
    assert counted == tuple(counts[one] for one in (PENDING, IN_PROGRESS, "Successful", FAILURE, "Skipped", UNKNOWN))
    assert after.done == f"{len(new) - len(open_)}/{len(new)}"


class Laws(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.jobs: dict[str, NodeUpgradeJob] = {}
        self.nodes: dict[str, Node] = {name: a_node(name) for name in NAMES}
        self.online: set[str] = set(NAMES)
        self.lost: dict[str, float] = {}
        self.open_since = START - 3600
        self.words: Words = {}
        self.perhaps: dict[str, list[JobStatus]] = {uid: [] for uid in UIDS}
        """Writes that were not answered; the last entry tells whether it stands."""
        self.critical: frozenset[str] = frozenset()
        self.free: frozenset[str] = frozenset()

    @initialize(
        concurrency=st.integers(1, 3),
        tolerate=st.sampled_from(["0", "0.25", "0.5", "1"]),
        policies=st.tuples(*[st.sampled_from(["Skip", "Wait", "Fail"])] * 2),
    )
    def two_jobs(self, concurrency: int, tolerate: str, policies: tuple[str, str]) -> None:
        more: dict[str, Any] = {"concurrency": concurrency, "failure_tolerate": tolerate, "timeout_seconds": 60}
        north = a_job("a", "b", "c", "ghost", on_offline=policies[0], **more)
        south = a_job("d", "c", "b", name="south", created=START + 1, on_offline=policies[1], version="v1.24.0", **more)
        self.jobs = {one.metadata.uid: one for one in (north, south)}

    # ---- the world ---------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1.0, 31.0, 61.0, 91.0, 4000.0, -600.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(name=st.sampled_from(NAMES))
    def session_comes_or_goes(self, name: str) -> None:
        if name in self.online:
            self.online.discard(name)
            self.lost[name] = self.now
        else:
            self.online.add(name)

    @rule(name=st.sampled_from(NAMES), what=st.sampled_from(["gone", "old", "new", "down", "no edge"]))
    def node_changes(self, name: str, what: str) -> None:
        self.nodes.pop(name, None)
        if what != "gone":
            version = NEW if what == "new" else OLD
            self.nodes[name] = a_node(name, version, ready=what != "down", edge=what != "no edge")

    @rule(critical=st.sets(st.sampled_from(NAMES), max_size=2), free=st.sets(st.sampled_from(NAMES), max_size=2))
    def news(self, critical: set[str], free: set[str]) -> None:
        self.critical, self.free = frozenset(critical), frozenset(free)

    @rule(
        uid=st.sampled_from(UIDS),
        name=st.sampled_from(NAMES),
        back=st.integers(-1, 2),
        revision=st.integers(0, 6),
        kind=st.sampled_from(["progress", "wait", "busy", "free", "success", "rolled back", "rejected", "aborted"]),
    )
    def node_speaks(self, uid: str, name: str, back: int, revision: int, kind: str) -> None:
        entry = self._entry(uid, name)
        if entry is None:
            return
        more = {"uid": uid, "attempt": entry - back}
        said = {
            "progress": lambda: a_report(revision, action="BackUp", **more),
            "wait": lambda: a_report(revision, code="WaitingConfirmation", wait_seconds=120.0, **more),
            "busy": lambda: a_report(revision, code="Busy", **more),
            "free": lambda: a_report(revision, **{**more, "action": ""}),
            "success": lambda: success(revision, **more),
            "rolled back": lambda: rolled_back(revision, **more),
            "rejected": lambda: a_report(revision, final=True, code="Rejected", **more),
            "aborted": lambda: a_report(revision, final=True, code="Aborted", **more),
        }[kind]()
        words = self.words.setdefault(uid, {})
        words[name] = (*words.get(name, ()), said)

    def _entry(self, uid: str, name: str) -> int | None:
        entries = self.jobs[uid].status.node_status or ()
        return next((one.attempt for one in entries if one.node_name == name), None)

    # ---- operators ---------------------------------------------------------------------------------------------

    @rule(uid=st.sampled_from(UIDS), suspend=st.booleans())
    def suspends(self, uid: str, suspend: bool) -> None:
        self.jobs[uid] = with_spec(self.jobs[uid], suspend=suspend)

    @rule(uid=st.sampled_from(UIDS))
    def retries(self, uid: str) -> None:
        self.jobs[uid] = with_spec(self.jobs[uid], retry=self.jobs[uid].spec.retry + 1)

    @rule(uid=st.sampled_from(UIDS), sure=st.integers(0, 3))
    def aborts(self, uid: str, sure: int) -> None:
        if sure == 0:
            self.jobs[uid] = with_spec(self.jobs[uid], abort=True)

    # ---- the planner -------------------------------------------------------------------------------------------

    @rule()
    def restarts(self) -> None:
        """Nothing is left but what is written. What was said and not written is said again, or not."""
        self.words = {}
        self.open_since = self.now
        self.online = set()
        self.lost = {}

    @rule(fate=st.sampled_from(["stands", "stands", "stands", "lost", "unanswered"]))
    def looks(self, fate: str) -> None:
        found = self._plan()
        for uid, status in found.statuses.items():
            obeys(self.jobs[uid], status)
            if fate == "unanswered":
                self.perhaps[uid].append(status)
            elif fate == "stands":
                self._stands(uid, status)

    @rule(uid=st.sampled_from(UIDS), stood=st.booleans())
    def answer_comes_in(self, uid: str, stood: bool) -> None:
        """What became of unanswered writes is known: at most one of them can stand (resourceVersion)."""
        if self.perhaps[uid] and stood:
            self._stands(uid, self.perhaps[uid][-1])
        self.perhaps[uid] = []

    @rule()
    def comes_to_rest(self) -> None:
        """Without news the plan has a fixpoint, and is there within a few writes."""
        self.perhaps = {uid: [] for uid in UIDS}
        for _ in range(8):
            found = self._plan()
            if not found.statuses:
                return
            for uid, status in found.statuses.items():
                obeys(self.jobs[uid], status)
                self._stands(uid, status)
        raise AssertionError("the plan never comes to rest")

    def _plan(self) -> Plan:
        online = Fleet(dict.fromkeys(self.online, False), dict(self.lost), self.open_since)
        unanswered = {uid: tuple(statuses) for uid, statuses in self.perhaps.items() if statuses}
        news = News(reports=self.words, free=self.free, critical=self.critical, unanswered=unanswered)
        found = plan(self.jobs, self.nodes, online, news, self.now)
        assert found.look_again is None or found.look_again > self.now, "an alarm in the past would never let it rest"
        for one in found.start:
            entries = {entry.node_name: entry for entry in self.jobs[one.uid].status.node_status or ()}
            assert entries[one.node].phase == IN_PROGRESS, "start without a written mark"
        return found

    def _stands(self, uid: str, status: JobStatus) -> None:
        self.jobs[uid] = with_status(self.jobs[uid], status)
        self.words.pop(uid, None)
        self.perhaps[uid] = []

    @invariant()
    def one_job_has_a_node(self) -> None:
        holders: dict[str, set[str]] = {}
        for uid, job in self.jobs.items():
            for status in (job.status, *self.perhaps[uid]):
                for entry in status.node_status or ():
                    if entry.phase == IN_PROGRESS:
                        holders.setdefault(entry.node_name, set()).add(uid)
        assert all(len(uids) == 1 for uids in holders.values()), holders

    @invariant()
    def everything_is_written_as_it_is(self) -> None:
        for job in self.jobs.values():
            assert msgspec.json.decode(msgspec.json.encode(job), type=NodeUpgradeJob) == job


Laws.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLaws = Laws.TestCase
