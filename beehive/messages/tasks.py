"""Topic `tasks`: what crosses the wire between the cloud's and a node's task manager.

On the edge these travel the bus as commands; in the cloud they are bodies inside `Heard` and `Tell`.
"""

from typing import TypeAlias

from msgspec import Struct

from beehive.api.nodeupgradejob import ActionResult
from beehive.message import Command


class TaskSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What one node must know of a job; never the node list, a registry's host or its token (spec/kubeedge.md S12)."""

    version: str
    image: str
    digests: dict[str, str] | None = None
    """Pins by architecture (`amd64`, `arm64`, …)."""
    check_items: tuple[str, ...] = ()
    require_confirmation: bool = False
    allow_downgrade: bool = False
    upgrade_tool: str = "keadm"
    timeout_seconds: int = 300


class StartTask(Command, frozen=True, kw_only=True, gc=False, tag="tasks.start-task"):
    """The cloud, once the node's mark stands in the API server, and again by a new leader or as the answer to Hello.

    Idempotent by (uid, attempt). If lost: it is said again at the next look, or the deadline ends the attempt.
    From a real CloudCore the uid is the id of its message and the attempt is -1 (`beehive.messages.wire`).
    """

    job: str
    uid: str
    attempt: int
    spec: TaskSpec
    lease_seconds: float
    """How long from receipt the node may begin `Upgrade` without asking again (product.md 3.4.7)."""


class CancelTask(Command, frozen=True, kw_only=True, gc=False, tag="tasks.cancel-task"):
    """The cloud: stop unless `Upgrade` has begun. If lost: the lease runs out, or the next Hello is answered so."""

    job: str
    uid: str
    attempt: int
    reason: str = ""


class SendSnapshot(Command, frozen=True, kw_only=True, gc=False, tag="tasks.send-snapshot"):
    """The cloud: say again what you know of this attempt. If lost: it is said again at the next look."""

    job: str
    uid: str
    attempt: int


class ReportSeen(Command, frozen=True, kw_only=True, gc=False, tag="tasks.report-seen"):
    """The cloud, when a report stands in the API server (or concerns nobody any more). If lost: the edge repeats."""

    job: str
    uid: str
    attempt: int
    revision: int
    lease_seconds: float = 0.0
    """Renews the lease; 0 leaves it."""


class TaskReport(Command, frozen=True, kw_only=True, gc=False, tag="tasks.task-report"):
    """A node: everything it knows of one attempt, after each step and after each reconnection, until `ReportSeen`.

    It is a snapshot, not news: a later revision says all that an earlier one said. If lost: it is said again.
    From a real EdgeCore, which knows neither uid nor attempt, it is about one action: uid "", attempt -1, revision 0.
    """

    job: str
    uid: str
    attempt: int
    revision: int
    """Grows with every change; starts at 1."""
    action: str
    """The action that it is in, or that ended last."""
    results: tuple[ActionResult, ...] = ()
    """Actions that ended, in order."""
    final: bool = False
    """Nothing more will come of this attempt."""
    code: str = ""
    """When final: `` for success, else `AlreadyAtVersion`, `CheckFailed`, `Rejected`, `RolledBack`, … (product.md 3.2);
    otherwise empty, `WaitingConfirmation`, or `Busy`."""
    reason: str = ""
    """The sentence."""
    from_version: str = ""
    to_version: str = ""
    """What runs now, as far as it is known."""
    wait_seconds: float = 0.0
    """With `WaitingConfirmation`: how long the node itself will wait for its owner."""


class Hello(Command, frozen=True, kw_only=True, gc=False, tag="tasks.hello"):
    """A node whose lease ended asks whether it may begin; the answer is StartTask or CancelTask. If lost: repeated."""

    job: str
    uid: str
    attempt: int
    action: str


Upstream: TypeAlias = TaskReport | Hello
Downstream: TypeAlias = StartTask | CancelTask | SendSnapshot | ReportSeen
