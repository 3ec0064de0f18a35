"""What the plan looks at, and what it says."""

from collections.abc import Mapping

from msgspec import Struct

from beehive.api.node import Node
from beehive.api.nodeupgradejob import JobStatus, NodeUpgradeJob
from beehive.messages.tasks import TaskReport


class Fleet(Struct, frozen=True):
    """The sessions, as this leader knows them."""

    online: Mapping[str, bool] = {}
    """Connected nodes; True: a real EdgeCore."""
    lost: Mapping[str, float] = {}
    """When the session of a node ended that was seen to end, in seconds since the epoch."""
    open_since: float = 0.0
    """Since when sessions could be seen by this leader; 0.0: not yet."""
    offline_after: float = 90.0

    def gone_since(self, node: str) -> float | None:
        """Since when it has had no session, as far as this leader can know; None while it has one."""
        return None if node in self.online else max(self.open_since, self.lost.get(node, 0.0))


class News(Struct, frozen=True):
    """What is known and stands in no status yet."""

    reports: Mapping[str, Mapping[str, tuple[TaskReport, ...]]] = {}
    """Job uid -> node -> what it said, in any order."""
    cordons: Mapping[str, str] = {}
    """Node -> why its cordon is refused."""
    free: frozenset[str] = frozenset()
    """Nodes that were busy and said that they are free."""
    critical: frozenset[str] = frozenset()
    """Nodes whose loss now would cost the etcd quorum."""
    digests: Mapping[str, Mapping[str, str] | str] = {}
    """Job uid -> what its registry answered: digests by architecture, or why there are none."""
    unanswered: Mapping[str, tuple[JobStatus, ...]] = {}
    """Job uid -> statuses whose writes were not answered: each may stand in the API server, or not."""
    held: frozenset[str] = frozenset()
    """Uids of jobs whose status may not be written now; their nodes are taken all the same."""


class Start(Struct, frozen=True):
    """This node may be told to start: its mark stands in the API server."""

    uid: str
    node: str
    attempt: int


class Plan(Struct, frozen=True):
    """What follows."""

    statuses: Mapping[str, JobStatus]
    """Job uid -> its new status; only where it differs from the one that stands."""
    start: tuple[Start, ...]
    look_again: float | None
    """When time alone changes something, in seconds since the epoch; None: never."""


class Holder(Struct, frozen=True):
    """The job that has a node."""

    uid: str
    name: str


class Scene:
    """What the planning of one job reads of the others, and what it leaves for those after it."""

    def __init__(self, nodes: Mapping[str, Node], fleet: Fleet, news: News, now: float) -> None:
        self.nodes = nodes
        self.fleet = fleet
        self.news = news
        self.now = now
        self.taken: dict[str, Holder] = {}
        """Node -> the job for which it is in flight, as written, as may be written, or as just planned."""
        self.wanted: dict[str, Holder] = {}
        """Node -> the oldest job that would start it."""
        self.alarms: list[float] = []

    def taken_by_other(self, node: str, job: NodeUpgradeJob) -> str:
        """Name of another job that has this node in flight."""
        return _other(self.taken.get(node), job)

    def wanted_by_older(self, node: str, job: NodeUpgradeJob) -> str:
        """Name of another job that has the first right to this node."""
        return _other(self.wanted.get(node), job)


def _other(holder: Holder | None, job: NodeUpgradeJob) -> str:
    return holder.name if holder and holder.uid != job.metadata.uid else ""
