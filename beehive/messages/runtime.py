"""Topic `runtime`, owned by the kernel; anybody may subscribe, nobody can say it. `Lagged` is in `beehive.message`."""

from beehive.message import Event


class ModuleFailed(Event, frozen=True, kw_only=True, gc=False, tag="runtime.module-failed"):
    """The supervisor, when a module raised or ended by itself. If lost: it is in the log and in the metrics."""

    module: str
    reason: str


class Draining(Event, frozen=True, kw_only=True, gc=False, tag="runtime.draining"):
    """The supervisor, when the process begins to stop: take on nothing new. If lost: the end of messages follows."""
