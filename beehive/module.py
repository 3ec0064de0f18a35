"""What a module is, and the line of the registry that describes it."""

from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from beehive.endpoint import Endpoint, Sender
from beehive.journal import Journal
from beehive.router import Kinds
from beehive.world import World

__all__ = ["Claiming", "Endpoint", "Make", "Module", "ModuleSpec", "Sender"]


class Module(Protocol):
    """A piece of the house. It declares its conversation and runs one loop.

    `run` must call `endpoint.ready()` once it can do its work, before its first ask, and returns when the endpoint's
    messages end. It is made anew for every restart, so the constructor holds no history.

    What operators see of it, each where it has one: `figures` (`beehive.figures`), `counters: dict[str, int]`, and
    `warning`, a sentence for `/readyz?verbose` about something that is wrong although it can work.
    """

    @property
    def accepts(self) -> Kinds:
        """Commands and requests that it owns, events that it wants."""

    @property
    def sends(self) -> Kinds:
        """Commands that it sends and events that it publishes."""

    @property
    def asks(self) -> Kinds:
        """Requests that it asks."""

    async def run(self, endpoint: Endpoint) -> None:
        """Work until the messages end."""


@runtime_checkable
class Claiming(Module, Protocol):
    """A module that needs what only one process can have: a port.

    All modules claim before the first one runs, so that a port that is another's is named at once, whatever the modules
    before it wait for. After a restart, `run` claims by itself.
    """

    def claim(self) -> None:
        """Take it; nothing happens where that was done. Raises RuntimeFailed, and then holds nothing."""

    def release(self) -> None:
        """Give it back; `run` does it when it ends."""


class Make(Protocol):
    """Makes a module from its configuration section; the whole dependency injection."""

    def __call__(self, config: Any, world: World, journal: Journal) -> Module:
        """Make it anew: at the first start and at each restart."""


class ModuleSpec(Struct, frozen=True):
    """One line of the registry (`modules/registry.py`)."""

    name: str
    config: type[Struct]
    """Its section of the configuration, under its name."""
    cloud: Make | None = None
    edge: Make | None = None
    inbox: int = 256
    """Capacity of its inbox, in messages."""
    optional: bool = False
    """The others may run without it."""
    start_timeout: float = 30.0
    """Seconds from its start, or from when it last said what it waits for, until it must be ready."""
    stop_timeout: float = 10.0
    """Seconds that it has to end when its messages end; then it is cancelled."""
