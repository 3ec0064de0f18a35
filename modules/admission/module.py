"""The webhook's shell: takes the port, gets the certificate, serves, and keeps certificate and registration right.

Every replica serves, leading or not. It is ready at once: jobs are taken without it, judged by the schema and by the
controller; `/readyz?verbose` says what it waits for.
"""

import asyncio
import logging
import socket

from beehive.backoff import doubling
from beehive.errors import Refused, Unavailable
from beehive.messages.objects import Away, Denied, GetSecret, ListJobs, ListNodes, Missing, PatchObject, PutSecret
from beehive.messages.runtime import Draining
from beehive.module import Endpoint
from beehive.world import World
from modules.admission.config import Config
from modules.admission.connections import bound
from modules.admission.keys import Keys, asked, context, keys
from modules.admission.looker import Looker
from modules.admission.registration import patches
from modules.admission.server import Webhook

log = logging.getLogger(__name__)


class Admission:
    """See `review` for the verdicts, `mutation` for defaults, `conversion` for the two versions."""

    accepts = (Draining,)
    sends = ()
    asks = (GetSecret, PutSecret, PatchObject, ListNodes, ListJobs)

    def __init__(self, config: Config, world: World) -> None:
        self._config = config
        self._world = world
        self.port = 0
        """The real port, once it runs."""
        self.ca = b""
        """PEM of the CA that the API server is to trust, once it serves."""
        self.webhook: Webhook | None = None
        """The server, once it serves."""
        self._listening: socket.socket | None = None
        self._told: dict[str, str] = {}
        """What was said about a registration last, by its path."""

    @property
    def counters(self) -> dict[int, int]:
        """Answers so far, by HTTP status."""
        return dict(self.webhook.answered) if self.webhook else {}

    def claim(self) -> None:
        """The port. Raises RuntimeFailed when it is taken."""
        if self._listening is None:
            self._listening = bound(self._config.address, self._config.port)
            self.port = self._listening.getsockname()[1]
            log.info("webhook on port %d", self.port)

    def release(self) -> None:
        """Give the port up."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    async def run(self, endpoint: Endpoint) -> None:
        """Until its messages end. Raises RuntimeFailed when the port is taken."""
        self.claim()
        assert self._listening is not None
        lent = self._listening.dup()
        try:
            endpoint.ready()
            async with asyncio.TaskGroup() as group:
                working = group.create_task(self._work(endpoint, lent, group))
                async for _ in endpoint.messages():
                    pass
                working.cancel()
                if self.webhook:
                    self.webhook.stop()  # never cancelled: uvicorn would leave its sockets open
        finally:
            self.release()
            lent.close()

    async def _work(self, endpoint: Endpoint, lent: socket.socket, group: asyncio.TaskGroup) -> None:
        found = await self._keys(endpoint)
        self.ca, self.webhook = found.ca, Webhook(self._world, context(found.server), Looker(endpoint.ask))
        serving = group.create_task(self.webhook.serve(lent))
        await self.webhook.until_started(serving)
        endpoint.ready()
        await self._keep(endpoint, self.webhook, found)

    async def _keep(self, endpoint: Endpoint, webhook: Webhook, shown: Keys) -> None:
        """Registration and certificate, for ever. A new CA is trusted beside the old one before it is shown."""
        trusted: tuple[bytes, ...] = (shown.ca,)
        while True:
            await self._register(endpoint, trusted)
            await asyncio.sleep(self._config.look)
            found = await self._keys(endpoint)
            trusted = (found.ca,)
            if found == shown:
                continue
            if found.ca != shown.ca:
                trusted = (found.ca, shown.ca)
                await self._register(endpoint, trusted)
            log.info("the webhook's certificate was renewed")
            self.ca, webhook.context, shown = found.ca, context(found.server), found

    async def _keys(self, endpoint: Endpoint) -> Keys:
        for pause in doubling(self._config.retry_first, self._config.retry_cap):
            try:
                found = await keys(self._config, endpoint.ask, self._world.now())
                context(found.server)
            except (Unavailable, Refused) as problem:
                endpoint.waiting_for(f"its certificate: {problem}")
                if isinstance(problem, Refused):
                    log.warning("the webhook cannot serve yet: %s", problem)
                await asyncio.sleep(pause)
            else:
                return found
        raise AssertionError("the pauses never end")

    async def _register(self, endpoint: Endpoint, trusted: tuple[bytes, ...]) -> None:
        """Keep caBundle right. An object that is not there is somebody's choice; a refusal is worth a word."""
        for request in patches(self._config.register, trusted):
            await self._registered(endpoint, request)

    async def _registered(self, endpoint: Endpoint, request: PatchObject) -> None:
        for pause in doubling(self._config.retry_first, self._config.retry_cap):
            try:
                answer = await asked(endpoint.ask, request)
            except Unavailable as problem:
                answer = Away(problem.reason)
            if not isinstance(answer, Away):
                self._tell(request.path, answer)
                return
            await asyncio.sleep(pause)

    def _tell(self, path: str, answer: object) -> None:
        """Once, until it changes."""
        said = ""
        if isinstance(answer, Missing):
            said = f"there is no {path}: the API server does not ask this webhook there; apply configs/webhooks.yaml"
        elif isinstance(answer, Denied):
            said = f"the registration {path} cannot be kept right: {answer.reason}"
        if said and self._told.get(path) != said:
            log.warning("%s", said)
        self._told[path] = said
