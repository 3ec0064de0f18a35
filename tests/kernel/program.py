"""A process of one module, for what only a real process shows: `python -m tests.kernel.program KIND MODE DIRECTORY`.

The module says `ready` on stdout; what it does when told to stop is its KIND.
"""

# ruff: noqa: T201

import asyncio
import sys
import threading
import time
from typing import Any

from msgspec import Struct

from beehive import runtime
from beehive.config import Source
from beehive.errors import EXIT_RUNTIME, RuntimeFailed
from beehive.journal import Journal
from beehive.module import Endpoint, Module, ModuleSpec
from beehive.router import Kinds
from beehive.world import World


class Settings(Struct, frozen=True, kw_only=True, rename="camel"):
    kind: str = "good"


class Plain:
    """Ends when its messages end."""

    accepts: Kinds = ()
    sends: Kinds = ()
    asks: Kinds = ()

    async def run(self, endpoint: Endpoint) -> None:
        endpoint.ready()
        print("ready", flush=True)
        await self.live(endpoint)
        print("ended", flush=True)

    async def live(self, endpoint: Endpoint) -> None:
        async for _ in endpoint.messages():
            pass


class Deaf(Plain):
    """Does not see that its messages have ended."""

    async def live(self, endpoint: Endpoint) -> None:
        await asyncio.Event().wait()


class Stubborn(Plain):
    """Not even cancelling ends it."""

    async def live(self, endpoint: Endpoint) -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                print("no", flush=True)


class Blocking(Plain):
    """Holds the loop for ever."""

    async def live(self, endpoint: Endpoint) -> None:
        await asyncio.sleep(0.1)
        time.sleep(1000)


class Threaded(Plain):
    """Leaves a thread behind that waits for ever."""

    async def live(self, endpoint: Endpoint) -> None:
        waiting = asyncio.ensure_future(asyncio.to_thread(threading.Event().wait))
        await super().live(endpoint)
        waiting.cancel()


class Broken(Plain):
    """Fails before it is ready."""

    async def run(self, endpoint: Endpoint) -> None:
        raise OSError("no such device")


KINDS: dict[str, type[Plain]] = {
    "good": Plain, "deaf": Deaf, "stubborn": Stubborn, "blocking": Blocking, "threaded": Threaded, "broken": Broken,
}  # fmt: skip


def make(config: Any, world: World, journal: Journal) -> Module:
    return KINDS[config.kind]()


def main(kind: str, mode: str, directory: str) -> None:
    stop_timeout = 60.0 if kind == "deaf" else 0.2
    spec = ModuleSpec("worker", Settings, cloud=make, edge=make, stop_timeout=stop_timeout)
    flags = {
        "worker.kind": kind, "runtime.data": directory, "runtime.admin.port": "0", "runtime.blockedAfter": "200ms",
    }  # fmt: skip
    try:
        runtime.run((spec,), mode, Source(flags=flags), patience=0.3)
    except RuntimeFailed as failure:
        print(failure, file=sys.stderr)
        sys.exit(EXIT_RUNTIME)


if __name__ == "__main__":
    main(*sys.argv[1:])
