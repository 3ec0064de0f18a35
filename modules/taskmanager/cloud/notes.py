"""What taskmanager says to itself: the answers to work that it began and did not wait for.

Each carries the term in which the work began: what comes back after leadership was lost meant another time.
"""

from beehive.api.nodeupgradejob import NodeUpgradeJob
from beehive.message import Command
from beehive.messages.images import DigestsAnswer
from beehive.messages.objects import WriteAnswer


class StatusWritten(Command, frozen=True, kw_only=True, gc=False, tag="taskmanager.status-written"):
    """The answer to a PatchJobStatus. If lost: the module ended, and reads every job again at its next start."""

    term: int
    uid: str
    answer: WriteAnswer
    took: float
    """Seconds."""


class JobWritten(Command, frozen=True, kw_only=True, gc=False, tag="taskmanager.job-written"):
    """The answer to a PatchJob (finalizer). If lost: as StatusWritten."""

    term: int
    uid: str
    answer: WriteAnswer


class NodeWritten(Command, frozen=True, kw_only=True, gc=False, tag="taskmanager.node-written"):
    """The answer to a PatchNode (cordon, uncordon, history). If lost: as StatusWritten."""

    term: int
    node: str
    answer: WriteAnswer


class DigestsFound(Command, frozen=True, kw_only=True, gc=False, tag="taskmanager.digests-found"):
    """The answer to a LookUpDigests. If lost: as StatusWritten."""

    term: int
    uid: str
    answer: DigestsAnswer


class LookedUp(Command, frozen=True, kw_only=True, gc=False, tag="taskmanager.looked-up"):
    """All jobs as the API server has them now; None: it did not answer. If lost: the edge repeats its report."""

    term: int
    jobs: tuple[NodeUpgradeJob, ...] | None
