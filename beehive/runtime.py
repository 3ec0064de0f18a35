"""From a registry, a mode and a configuration to a running process, and its exit code."""

import asyncio
import contextlib
import errno
import functools
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from beehive import config as configuration
from beehive.admin import Admin
from beehive.bus import Bus
from beehive.config import Duration, Port
from beehive.errors import ConfigError, Problem, RuntimeFailed
from beehive.journal import Journal, write_durably
from beehive.log import set_up
from beehive.module import Module, ModuleSpec
from beehive.notify import service_manager
from beehive.record import Tracing
from beehive.router import Declaration, Kinds, complaints
from beehive.signals import LastResort, StopOnSignal
from beehive.supervisor import Supervisor
from beehive.watchdog import Watchdog
from beehive.world import World

_EDGE_LOOKS_EVERY = 30.0
"""Times `blockedAfter`: a small host sleeps, and its loop holds one link; a stall is noticed later there."""


class AdminConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The port for probes and Prometheus."""

    enable: bool = True
    """Off: no probes, no metrics."""
    address: str = "127.0.0.1"
    """Where it listens; 0.0.0.0 in a container."""
    port: Port = 10350
    """0 asks the kernel for a free one; the real one is written to `admin.address` in the data directory."""


class Config(Struct, frozen=True, kw_only=True, rename="camel"):
    """Section `runtime`: what concerns the whole process."""

    data: str = "/var/lib/beehive"
    """Directory of the journals and of what this process writes about itself."""
    log_format: Literal["text", "json"] = "text"
    """`text` or `json`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """`debug`, `info`, `warning` or `error`."""
    blocked_after: Duration = Duration(2)
    """The event loop stands still for so long: the log says which module holds it, and where. An edge looks only
    every 30 times as long, once a minute by default, so that it wakes up rarely."""
    admin: AdminConfig = AdminConfig()


def sections(registry: Sequence[ModuleSpec]) -> dict[str, type[Struct]]:
    """All sections that a configuration file may have."""
    return {"runtime": Config, **{spec.name: spec.config for spec in registry}}


def chosen(registry: Sequence[ModuleSpec], mode: str, only: Sequence[str] = ()) -> list[ModuleSpec]:
    """The modules of this mode, in the order of starting; `only` leaves out all others."""
    return [spec for spec in registry if getattr(spec, mode) and (not only or spec.name in only)]


def declarations(specs: Sequence[ModuleSpec], modules: dict[str, Module]) -> list[Declaration]:
    """What the chosen modules say about their conversation."""
    return [
        Declaration(spec.name, modules[spec.name].accepts, modules[spec.name].sends, modules[spec.name].asks)
        for spec in specs
    ]


class Process:
    """One process of one mode. Made from checked configuration; `run` is its life."""

    def __init__(
        self, specs: Sequence[ModuleSpec], mode: str, settings: dict[str, Any], world: World, absent: Kinds = ()
    ) -> None:
        self.settings: Config = settings["runtime"]
        self._looks_every = _EDGE_LOOKS_EVERY * self.settings.blocked_after if mode == "edge" else None
        self.data = Path(self.settings.data)
        makers = {
            spec.name: functools.partial(
                getattr(spec, mode), settings[spec.name], world, Journal(self.data / "journal" / spec.name)
            )
            for spec in specs
        }
        declared = declarations(specs, {name: make() for name, make in makers.items()})
        wrong = complaints(declared, absent)
        if wrong:
            raise RuntimeFailed("\n".join(wrong))
        self.bus = Bus(declared, {spec.name: spec.inbox for spec in specs})
        self.supervisor = Supervisor(self.bus, world)
        self.tracing = Tracing(self.bus)
        for spec in specs:
            self.supervisor.add(spec.name, makers[spec.name], spec.start_timeout, spec.stop_timeout)

    async def run(self) -> None:
        """Until SIGTERM or SIGINT; a second one ends at once. Raises RuntimeFailed."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        self.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        with StopOnSignal(loop, stop), contextlib.ExitStack() as closing:
            manager = service_manager(os.environ)
            self.supervisor.when_ready = functools.partial(manager.say, "READY=1")
            watchdog = Watchdog(
                self.supervisor, loop, self.settings.blocked_after, every=self._looks_every, manager=manager
            )
            closing.callback(watchdog.close)
            if self.settings.admin.enable:
                closing.callback(self._open_admin(loop, watchdog).close)
            await self.supervisor.run(stop)

    def _open_admin(self, loop: asyncio.AbstractEventLoop, watchdog: Watchdog) -> Admin:
        settings = self.settings.admin
        admin = Admin(self.supervisor, loop, settings.address, settings.port, self.tracing, watchdog)
        write_durably(self.data / "admin.address", f"{settings.address}:{admin.port}\n".encode(), 0o644)
        return admin


def run(
    registry: Sequence[ModuleSpec],
    mode: str,
    source: configuration.Source,
    only: Sequence[str] = (),
    *,
    trace: bool = False,
    patience: float = 5.0,
) -> None:
    """The whole life of `beehive --mode …`. Raises ConfigError, or RuntimeFailed when it can't go on.

    What has not ended `patience` seconds after the modules have is left behind, with exit code 70.
    """
    settings = configuration.load(sections(registry), source)
    set_up(settings["runtime"].log_format, settings["runtime"].log_level)
    _make_usable(Path(settings["runtime"].data), registry, source)
    specs = chosen(registry, mode, only)

    async def live() -> None:
        process = Process(specs, mode, settings, World(), _kinds_of(registry, specs, mode, settings))
        if trace:
            process.tracing.on()
        try:
            await process.run()
        finally:
            last.begin(sys.exception(), process.supervisor.left_behind)

    last = LastResort(patience)
    try:
        with asyncio.Runner(loop_factory=_loop_factory(mode)) as runner:
            runner.run(live())
    finally:
        last.called_off()


def _make_usable(data: Path, registry: Sequence[ModuleSpec], source: configuration.Source) -> None:
    """The data directory, made if need be. Raises ConfigError that names its setting."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(data, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        path = "runtime.data"
        text = f"{data} cannot be used: {error.strerror}; set it to a directory that this user may write to"
        where = configuration.where(sections(registry), source, path)
        raise ConfigError(source.name, [Problem(where, path, text)]) from None


def _kinds_of(
    registry: Sequence[ModuleSpec], specs: Sequence[ModuleSpec], mode: str, settings: dict[str, Any]
) -> Kinds:
    """All that optional modules left out would accept or publish: the others may still mention it."""
    left_out = [spec for spec in chosen(registry, mode) if spec.optional and spec not in specs]
    made = [getattr(spec, mode)(settings[spec.name], World(), Journal(Path())) for spec in left_out]
    return tuple(kind for module in made for kind in (*module.accepts, *module.sends))


def _loop_factory(mode: str) -> Any:
    """uvloop where many TLS connections are held (libraries.md blocking gap 6); an edge holds one."""
    if mode == "cloud" and importlib.util.find_spec("uvloop"):
        import uvloop  # noqa: PLC0415 - not at the edge

        return uvloop.new_event_loop
    return None
