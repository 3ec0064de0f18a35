"""What the planner knows: the jobs with what is pending for each, the nodes, the sessions. No memory of its own:
everything here is read from the API server and the hub, or is about to be written there."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from beehive.api.node import Node
from beehive.api.nodeupgradejob import COMPLETED, FAILURE, FINALIZER, IN_PROGRESS, JobStatus, NodeEntry, NodeUpgradeJob
from beehive.backoff import doubling
from beehive.messages.fleet import Heard, NodeOffline, NodeOnline, Online, Session
from beehive.messages.tasks import TaskReport
from modules.taskmanager.bucket import Bucket
from modules.taskmanager.config import CloudConfig
from modules.taskmanager.cordon import is_ours
from modules.taskmanager.job import Fleet

MOST_SAID = 64
"""Unwritten words kept for one node of one job; what is more is not acknowledged, so the node repeats it."""


class Said(Struct, frozen=True):
    """A report that stands in no status yet, and what it came in."""

    report: TaskReport
    heard: Heard


class JobDesk:
    """One job, and what is pending for it."""

    def __init__(self, job: NodeUpgradeJob, config: CloudConfig, now: float) -> None:
        self.job = job
        self.bucket = Bucket(config.burst, config.flush, now)
        self.not_before = 0.0
        """On the loop's clock: no write before that, because the last one was not answered."""
        self.base = job.status
        """What stood when the last write began; the watch may show it before its answer comes."""
        self.writing = False
        """A write is under way; the job is not planned until its answer is in."""
        self.unanswered: list[JobStatus] = []
        """Statuses that may stand in the API server, or not."""
        self.said: dict[str, deque[Said]] = {}
        self.in_write: dict[str, int] = {}
        """Node -> how many of its words the write under way holds."""
        self.denied: JobStatus | None = None
        """What the API server refused for good: it is not asked to take the same again."""
        self.trouble = ""
        """Why the last write did not stand, as far as somebody should look; empty when it did."""
        self.aside = -1
        """Generation for which the plan failed; -1: none."""
        self._config = config
        self._delays = doubling(config.retry_first, config.retry_cap)
        self._refusal = ""
        self._places: dict[str, int] | None = None

    @property
    def uid(self) -> str:
        return self.job.metadata.uid

    @property
    def deleting(self) -> bool:
        return self.job.metadata.deletion_timestamp is not None

    @property
    def is_ours(self) -> bool:
        """It carries our finalizer."""
        return FINALIZER in (self.job.metadata.finalizers or ())

    @property
    def open(self) -> bool:
        return self.job.status.phase not in (COMPLETED, FAILURE)

    def entry(self, node: str) -> NodeEntry | None:
        """The node's entry as it stands."""
        entries = self.job.status.node_status or ()
        if self._places is None:
            self._places = {entry.node_name: index for index, entry in enumerate(entries)}
        place = self._places.get(node)
        return None if place is None else entries[place]

    def in_flight(self) -> list[NodeEntry]:
        """Its entries in flight, as they stand."""
        entries = self.job.status.node_status or () if self.open else ()
        return [entry for entry in entries if entry.phase == IN_PROGRESS]

    def adopt(self, job: NodeUpgradeJob) -> bool:
        """Take the object if it is not older than what we have."""
        if is_older(job, self.job):
            return False
        if job.status.node_status is not self.job.status.node_status:
            self._places = None
        self.job = job
        return True

    def hear(self, said: Said) -> bool:
        """Keep it until it is written; False when there is no room. A repetition takes the place of the first: one
        acknowledgement is enough for both, and an outage of hours costs no memory."""
        words = self.said.setdefault(said.heard.node, deque())
        for index, one in enumerate(words):
            if one.report == said.report and not (one.heard.ticket or said.heard.ticket):
                words[index] = said
                return True
        if len(words) >= MOST_SAID:
            return False
        words.append(said)
        return True

    def reports(self) -> dict[str, tuple[TaskReport, ...]]:
        """What the nodes said and no status holds."""
        return {node: tuple(one.report for one in words) for node, words in self.said.items()}

    def begin_write(self, status: JobStatus) -> None:
        """The write of this status is under way, with everything that was heard so far."""
        self.writing = True
        self.base = self.job.status
        self.in_write = {node: len(words) for node, words in self.said.items()}
        if not self.unanswered or self.unanswered[-1] != status:
            self.unanswered.append(status)

    def written(self) -> list[Said]:
        """The write was answered: it stands. What it held, to be acknowledged."""
        seen = []
        for node, count in self.in_write.items():
            words = self.said[node]
            seen += [words.popleft() for _ in range(count)]
            if not words:
                del self.said[node]
        self.settled()
        self.denied, self._refusal, self.trouble = None, "", ""
        self._delays = doubling(self._config.retry_first, self._config.retry_cap)
        return seen

    def settled(self) -> None:
        """What the last writes came to is known."""
        self.writing = False
        self.in_write = {}
        self.unanswered = []

    def unknown(self, now: float) -> None:
        """It is not known whether the last write stands: try again later."""
        self.writing = False
        self.in_write = {}
        self.not_before = now + next(self._delays)

    def refused(self, now: float, why: str, for_good: bool) -> bool:
        """The last write was refused. True when it is the first time that this is said."""
        self.denied = self.unanswered[-1] if self.unanswered and for_good else None
        self.settled()
        self.not_before = now + next(self._delays)
        news, self._refusal = why != self._refusal, why
        return news

    def drop_said(self) -> list[Said]:
        """Everything unwritten, which nobody will write any more."""
        everything = [one for words in self.said.values() for one in words]
        self.said = {}
        self.in_write = {}
        return everything


def is_older(one: NodeUpgradeJob | Node, other: NodeUpgradeJob | Node) -> bool:
    """By resourceVersion, where both are numbers; otherwise the newcomer is believed, and a 409 would tell."""
    mine, theirs = one.metadata.resource_version, other.metadata.resource_version
    return mine.isdecimal() and theirs.isdecimal() and int(mine) < int(theirs)


class Books:
    """All of it."""

    def __init__(self, config: CloudConfig) -> None:
        self.desks: dict[str, JobDesk] = {}
        self.nodes: dict[str, Node] = {}
        self.ours: dict[str, None] = {}
        """Nodes that carry our annotation, in the order in which that was seen."""
        self.sessions: dict[str, Session] = {}
        self._online: dict[str, bool] = {}
        """Of the sessions, who is legacy: kept as the plan wants it, which looks at thousands again and again."""
        self.critical: frozenset[str] = frozenset()
        self.open_since = 0.0
        self._watching_since = 0.0
        self._lost: dict[str, float] = {}
        self._config = config

    # ---- jobs --------------------------------------------------------------------------------------------------

    def adopt_job(self, job: NodeUpgradeJob, now: float) -> JobDesk:
        """The desk of this job with the newer of both objects; `now` on the loop's clock."""
        desk = self.desks.get(job.metadata.uid)
        if desk is None:
            desk = self.desks[job.metadata.uid] = JobDesk(job, self._config, now)
        else:
            desk.adopt(job)
        return desk

    def named(self, name: str) -> JobDesk | None:
        """The newest job of this name."""
        found = [desk for desk in self.desks.values() if desk.job.metadata.name == name]
        return max(found, key=lambda desk: desk.job.metadata.creation_timestamp or "") if found else None

    def jobs(self) -> dict[str, NodeUpgradeJob]:
        return {uid: desk.job for uid, desk in self.desks.items()}

    # ---- nodes -------------------------------------------------------------------------------------------------

    def adopt_node(self, node: Node) -> None:
        name = node.metadata.name
        known = self.nodes.get(name)
        if known is not None and known.metadata.uid == node.metadata.uid and is_older(node, known):
            return
        self.nodes[name] = node
        if is_ours(node):
            self.ours.setdefault(name)
        else:
            self.ours.pop(name, None)

    def drop_node(self, name: str, uid: str = "") -> None:
        """It is gone; with `uid`, only if it is still that one."""
        known = self.nodes.get(name)
        if known is not None and uid in ("", known.metadata.uid):
            del self.nodes[name]
            self.ours.pop(name, None)

    def replace_nodes(self, nodes: Iterable[Node]) -> None:
        """The sum, after a start or after Lagged."""
        old, self.nodes, self.ours = self.nodes, {}, {}
        for node in nodes:
            former = old.get(node.metadata.name)
            same = former is not None and former.metadata.uid == node.metadata.uid and is_older(node, former)
            self.adopt_node(former if former is not None and same else node)

    # ---- sessions ----------------------------------------------------------------------------------------------

    def went_online(self, event: NodeOnline, now: float) -> None:
        """A new session. Events come in order, so the last one is right, whatever a list said meanwhile."""
        known = self.sessions.get(event.node)
        if known is None or known.epoch != event.epoch:
            self.sessions[event.node] = Session(event.node, event.epoch, now, event.legacy)
            self._online[event.node] = event.legacy
        self._lost.pop(event.node, None)

    def went_offline(self, event: NodeOffline, now: float) -> None:
        """The end of an older session means nothing."""
        known = self.sessions.get(event.node)
        if known is not None and known.epoch <= event.epoch:
            del self.sessions[event.node], self._online[event.node]
            self._lost[event.node] = now

    def replace_sessions(self, online: Online, now: float) -> None:
        """The sum, after a start or after Lagged; who is not in it was lost at the latest now."""
        found = {one.node: one for one in online.sessions}
        for node in self.sessions:
            if node not in found:
                self._lost[node] = now
        self.sessions = found
        self._online = {one.node: one.legacy for one in online.sessions}
        if online.open_since and not self.open_since:
            self._watching_since = now
        self.open_since = online.open_since

    def fleet(self) -> Fleet:
        """For the plan. Nobody is called offline before we ourselves have looked on for a while."""
        since = max(self.open_since, self._watching_since) if self.open_since else 0.0
        return Fleet(self._online, self._lost, since, self._config.offline_after)

    def in_flight(self) -> Iterator[tuple[JobDesk, NodeEntry]]:
        """Every entry in flight, as it stands."""
        for desk in self.desks.values():
            for entry in desk.in_flight():
                yield desk, entry

    def unwritten(self) -> float:
        """Words of nodes that stand in no status yet; asked by a scrape, in a thread of its own."""
        return sum(len(words) for desk in tuple(self.desks.values()) for words in tuple(desk.said.values()))

    def reports(self) -> Mapping[str, Mapping[str, tuple[TaskReport, ...]]]:
        return {uid: desk.reports() for uid, desk in self.desks.items() if desk.said}
