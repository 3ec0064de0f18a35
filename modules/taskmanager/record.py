"""What a node remembers of its attempts, on disk, and the clock by which it counts. Pure.

One record holds all of it, so that a power cut leaves the old sum or the new one. New fields need a default: a version
that is rolled back must be able to read what the newer one wrote (product.md 6.3).
"""

from msgspec import Struct

from beehive.api.nodeupgradejob import CHECK, ActionResult
from beehive.message import Command
from beehive.messages.tasks import TaskReport, TaskSpec

SCHEMA = 1
MOST_KEPT = 20
"""Finished attempts whose result is kept; the same number of refused ones."""


class Moment(Struct, frozen=True):
    """Now, by both clocks of a host."""

    wall: float
    """Seconds since the epoch; may jump, so it is only told, never counted with."""
    boot: str
    """Id of this boot of the host."""
    uptime: float
    """Seconds since that boot, time asleep included (CLOCK_BOOTTIME)."""


class Deadline(Struct, frozen=True):
    """A moment that cannot be moved by setting a clock; a reboot ends it (product.md 3.4.7)."""

    boot: str
    end: float
    """On `Moment.uptime` of that boot."""

    def left(self, now: Moment) -> float:
        """Seconds until then; 0 when it is over, after a reboot too."""
        return max(0.0, self.end - now.uptime) if self.boot == now.boot else 0.0


class Attempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The attempt that this node works on."""

    job: str
    uid: str
    attempt: int
    spec: TaskSpec
    step: str = CHECK
    """The action that it is in."""
    begun: bool = True
    """False while it stands before `Upgrade` and asks for leave, its lease being over."""
    results: tuple[ActionResult, ...] = ()
    revision: int = 0
    """Of the last report; never falls."""
    interruptions: int = 0
    """How often an action was cut off and had to be run again."""
    lease: Deadline | None = None
    """Until when `Upgrade` may begin without asking; none for a legacy cloud, which cannot be asked."""
    owner: Deadline | None = None
    """Until when the owner may confirm, while it waits for that."""
    cancelled: bool = False
    """The cloud wants it stopped; the action in hand was told so and has not ended yet."""
    cancel_answered: int = 0
    """Revision with which a cancel was answered that came too late: the cloud answers such a report with a cancel, and
    the two would go on for ever."""
    note: str = ""
    """What the cloud should know beside it: why what this node knew before is lost."""
    from_version: str = ""
    to_version: str = ""
    """What runs now, as far as it is known."""

    def is_of(self, uid: str, attempt: int) -> bool:
        """Identity is the job's uid and the attempt, never its name."""
        return (self.uid, self.attempt) == (uid, attempt)


class Kept(Struct, frozen=True, omit_defaults=True):
    """The last word about an attempt that this node does not work on (any more)."""

    report: TaskReport
    seen: bool = False
    """The cloud has it."""


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of it."""

    schema: int = SCHEMA
    fault: str = ""
    """Why nothing older is known; told with the next attempt."""
    attempt: Attempt | None = None
    finished: tuple[Kept, ...] = ()
    """Final words, oldest first."""
    refused: tuple[Kept, ...] = ()
    """Attempts that were refused (`Busy`) or given back before anything was changed, oldest first. Kept so that their
    revisions never fall, and so that the cloud hears when this node is free."""


class Decision(Struct, frozen=True):
    """What a rule decided: save the record, then act."""

    record: Record
    effects: tuple[Command, ...] = ()


class Policy(Struct, frozen=True):
    """What the configuration says to the rules; all in seconds but the last."""

    confirmation_limit: float = 3600.0
    ask_again: float = 30.0
    stop_again: float = 10.0
    most_interruptions: int = 3
