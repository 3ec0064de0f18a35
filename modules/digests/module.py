"""The shell: takes questions and answers them beside each other, a few at a time."""

import asyncio

from beehive.errors import Refused, Unavailable
from beehive.inbox import fail
from beehive.message import Envelope
from beehive.messages.images import DigestsAnswer, LookUpDigests, NoDigests
from beehive.module import Endpoint
from beehive.router import Kinds
from modules.digests.answer import judged
from modules.digests.config import Config, checked
from modules.digests.question import address, path
from modules.digests.registry import ask

_AT_ONCE = 8


class DigestsModule:
    """See `beehive.messages.images`."""

    accepts: Kinds = (LookUpDigests,)
    sends: Kinds = ()
    asks: Kinds = ()

    def __init__(self, config: Config) -> None:
        self._config = checked(config)
        self._lane = asyncio.Semaphore(_AT_ONCE)

    async def run(self, endpoint: Endpoint) -> None:
        """Until the messages end; who waits for an answer then hears that it does not come."""
        endpoint.ready()
        async with asyncio.TaskGroup() as group:
            under_way = set[asyncio.Task[None]]()
            async for envelope in endpoint.messages():
                task = group.create_task(self._answer(endpoint, envelope))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            for task in under_way:
                task.cancel()

    async def _answer(self, endpoint: Endpoint, envelope: Envelope) -> None:
        try:
            async with self._lane:
                endpoint.reply(envelope, await self._looked_up(envelope.body))
        finally:
            fail(envelope, f"{endpoint.name} stopped before it had an answer")

    async def _looked_up(self, asked: LookUpDigests) -> DigestsAnswer:
        host, config = address(asked.host), self._config
        if not config.allows(host):
            return NoDigests(f"registry {host} may not be asked; who runs the cloud lists it under digests.hosts")
        where = path(asked.image, asked.version)
        try:
            answer = await ask(host, where, asked.token, config.ca_file, config.timeout)
        except (Refused, Unavailable) as error:
            return NoDigests(str(error), may_pass=isinstance(error, Unavailable))
        image = where.removeprefix("/v2/").replace("/manifests/", ":")
        return judged(answer, host, image)
