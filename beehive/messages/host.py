"""Topic `host`, owned by upgrader: what is done on this host, and what can be found out about it."""

from msgspec import Struct

from beehive.message import Command, Event, Request
from beehive.messages.tasks import TaskSpec


class RunStep(Command, frozen=True, kw_only=True, gc=False, tag="host.run-step"):
    """taskmanager (edge), after it saved that the step begins. Idempotent. If lost: `resume` says it again."""

    job: str
    uid: str
    attempt: int
    step: str
    """`Check`, `WaitingConfirmation`, `BackUp`, `Upgrade` or `RollBack`."""
    spec: TaskSpec


class WatchStep(Command, frozen=True, kw_only=True, gc=False, tag="host.watch-step"):
    """taskmanager (edge), after a restart: the step's unit still runs; say StepDone when it ends. If lost:
    `resume` says it again."""

    job: str
    uid: str
    attempt: int
    step: str
    spec: TaskSpec


class StopStep(Command, frozen=True, kw_only=True, gc=False, tag="host.stop-step"):
    """taskmanager (edge), when the cloud cancelled: end a Check, a wait or a BackUp; nothing happens in Upgrade.
    If lost: the step ends by itself, and the record says that it was cancelled."""

    uid: str
    attempt: int


class StepDone(Event, frozen=True, kw_only=True, gc=False, tag="host.step-done"):
    """upgrader, when a step ended. If lost: `Inspect` finds it out."""

    uid: str
    attempt: int
    step: str
    ok: bool
    code: str = ""
    """CamelCase when it did not go well (`CheckFailed`, `RolledBack`, `AlreadyAtVersion`, …), else empty."""
    reason: str = ""
    from_version: str = ""
    to_version: str = ""


class OwnerSaid(Event, frozen=True, kw_only=True, gc=False, tag="host.owner-said"):
    """upgrader, when the node's owner confirmed or rejected on the host. If lost: the owner says it again."""

    uid: str
    attempt: int
    confirmed: bool
    reason: str = ""


class Verdict(Struct, frozen=True, gc=False, omit_defaults=True):
    """What the tool's own record says of an attempt."""

    step: str
    ok: bool
    code: str = ""
    reason: str = ""
    from_version: str = ""
    to_version: str = ""


class Evidence(Struct, frozen=True, gc=False):
    """What can be found out about one attempt on this host, whatever anybody remembers."""

    installed: str
    """Version that the target's executable answers; empty when it does not answer."""
    healthy: bool
    """The target's service is active, with that version running."""
    complete: bool
    """The executable on disk is the complete old or the complete new one."""
    unit_runs: bool
    """The tool of this attempt still runs."""
    verdict: Verdict | None = None
    """The tool's own record of this attempt, when it reached one."""
    undecided: bool = False
    """The tool took this attempt up and has not spoken: what runs now has not proved itself."""
    busy_with: str = ""
    """Who else holds this host, as a phrase; empty when nobody does."""


class Inspect(Request[Evidence], frozen=True, kw_only=True, gc=False, tag="host.inspect"):
    """taskmanager (edge), before it resumes an attempt."""

    uid: str
    attempt: int
    version: str
    """The version that the attempt wants."""


class Waiting(Struct, frozen=True, kw_only=True, gc=False):
    """An upgrade that waits for this host's owner."""

    job: str
    uid: str
    attempt: int
    version: str
    since: float
    """Seconds since the epoch."""


class Ended(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The last attempt that the tool ended on this host."""

    job: str = ""
    """Empty: a person asked for it."""
    event: str
    """`Upgrade` or `Rollback`: what was asked for."""
    from_version: str
    to_version: str
    result: str
    """`upgrade_success`, `upgrade_failed_rollback_success`, `upgrade_failed_rollback_failed`; of a rollback that was
    asked for `rollback_success` or `rollback_failed`."""
    reason: str = ""
    at: float = 0.0
    """When it ended, in seconds since the epoch."""
    seconds: float = 0.0
    """How long it took."""


class HostState(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What is on this host now."""

    service: str
    active: bool = False
    pid: int = 0
    version: str = ""
    """What the installed program answers; empty when it does not answer."""
    digest: str = ""
    waiting: Waiting | None = None
    holder: str = ""
    """Who holds this host, as a phrase."""
    last: Ended | None = None


class LookAtHost(Request[HostState], frozen=True, kw_only=True, gc=False, tag="host.look-at-host"):
    """control, for `beehive edge status`."""


class LogLines(Struct, frozen=True, gc=False):
    """What programs of this host wrote last."""

    lines: tuple[str, ...]


class ReadLogs(Request[LogLines], frozen=True, kw_only=True, gc=False, tag="host.read-logs"):
    """control, for `beehive edge logs`."""

    lines: int


class Decided(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What became of the owner's word."""

    job: str = ""
    version: str = ""
    confirmed: bool = False
    """What stands now: the first word stays."""
    problem: str = ""
    """Why nothing became of it, as a sentence; else empty."""


class OwnerDecides(Request[Decided], frozen=True, kw_only=True, gc=False, tag="host.owner-decides"):
    """control, when the owner of this host has said yes or no. Written down before it is answered."""

    confirmed: bool
    job: str = ""
    """The job that is meant; empty: whichever waits."""
    reason: str = ""
