"""Takes, renews and releases the Lease, as `lease.py` decides; the grant is read synchronously by every writer."""

import asyncio
import logging
import math
import socket
import uuid
from collections.abc import Callable

import msgspec

from beehive.api.lease import Lease
from beehive.errors import Unavailable
from beehive.world import World
from modules.informer import lease as rules
from modules.informer.answers import Reply, sentence, succeeded
from modules.informer.client import Client
from modules.informer.config import Config

_THIS_PROCESS = f"{socket.gethostname()}_{uuid.uuid4()}"
_log = logging.getLogger("beehive.informer")
_read = msgspec.json.Decoder(Lease).decode


class Leadership:
    """This process's claim. `grant` is the end of its leadership on the loop's clock, 0.0 without one."""

    def __init__(self, client: Client, config: Config, world: World, tell: Callable[[float], None]) -> None:
        self.candidate = True
        """False: take the Lease no more (the process ends), but keep it while it is ours."""
        self.trouble = ""
        """Why the Lease can't be read or written; empty when it can."""
        self._client = client
        self._world = world
        self._tell = tell
        self._elect = config.leader_election
        self._told = 0.0
        self._standing = rules.Standing()
        self._terms = rules.Terms(
            name=config.lease.name,
            namespace=config.namespace,
            identity=config.lease.identity or _THIS_PROCESS,
            duration=config.lease.duration,
            deadline=config.lease.renew_deadline,
            retry=config.lease.retry_period,
        )
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{config.namespace}/leases"

    def grant(self) -> float:
        """Until when it is ours to write, on the loop's clock."""
        return self._standing.grant

    async def run(self, on_trouble: Callable[[], None]) -> None:
        """For ever."""
        while True:
            before = self.trouble
            await (self._turn() if self._elect else self._lead_alone())
            if self.trouble != before:
                _log.warning("%s", self.trouble) if self.trouble else _log.info("the Lease is in order again")
                on_trouble()
            await asyncio.sleep(self._pause())

    async def release(self) -> None:
        """Give it up at the end, so that another can lead at once; a second at most."""
        lease, leading = self._standing.lease, self._standing.grant > 0
        self._lose("this process ends", logging.INFO)
        if leading and lease is not None and self._elect:
            body = msgspec.json.encode(rules.released(lease, self._world.now()))
            try:
                await self._client.replace(f"{self._path}/{self._terms.name}", body, timeout=1.0)
            except Unavailable as error:
                _log.warning("the Lease could not be released and will run out: %s", error.reason)

    async def _lead_alone(self) -> None:
        self._standing = rules.Standing(grant=math.inf)
        self._publish()

    async def _turn(self) -> None:
        try:
            if not (self._standing.grant and self._standing.lease):
                await self._look()
            await self._act(rules.decide(self._standing, self._terms, _clock(), self._world.now()))
        except Unavailable as error:
            self.trouble = f"the Lease {self._terms.namespace}/{self._terms.name}: {error.reason}"
            if self._standing.grant and _clock() >= self._standing.grant:
                self._lose(f"it could not be renewed for {self._terms.deadline:g} s")

    async def _act(self, decision: rules.Decision) -> None:
        match decision:
            case rules.Acquire():
                if self.candidate:
                    await self._write(decision.lease)
            case rules.Renew():
                await self._write(decision.lease)
            case rules.Lost():
                self._lose(decision.why)
            case rules.Wait():
                pass

    async def _look(self) -> None:
        reply = await self._client.get(f"{self._path}/{self._terms.name}", timeout=self._patience())
        if reply.status == 404:
            self._standing = rules.seen(self._standing, None, _clock())
        elif succeeded(reply):
            self._standing = rules.seen(self._standing, _decoded(reply), _clock())
            self.trouble = ""
        else:
            raise self._refused(reply)

    async def _write(self, lease: Lease) -> None:
        body, sent, lease_before = msgspec.json.encode(lease), _clock(), self._standing.lease
        if lease.metadata.resource_version:
            reply = await self._client.replace(f"{self._path}/{lease.metadata.name}", body, timeout=self._patience())
        else:
            reply = await self._client.create(self._path, body, timeout=self._patience())
        if succeeded(reply):
            self.trouble = ""
            self._lead(_decoded(reply), sent)
            return
        await self._look()  # it may have been changed, taken or deleted; the next turn acts on what is true
        self._forget_if_lost()
        if reply.status != 409 and self._standing.lease == lease_before:
            raise self._refused(reply)

    def _lead(self, lease: Lease, sent: float) -> None:
        first = not self._standing.grant
        self._standing = rules.granted(self._standing, lease, sent, _clock(), self._terms)
        if self._standing.grant <= _clock():
            self._lose("its renewal came too late")
            return
        if first:
            _log.info("this process leads as %s", self._terms.identity)
        self._publish()

    def _forget_if_lost(self) -> None:
        decision = rules.decide(self._standing, self._terms, _clock(), self._world.now())
        if isinstance(decision, rules.Lost):
            self._lose(decision.why)

    def _lose(self, why: str, level: int = logging.WARNING) -> None:
        leading = self._standing.grant > 0
        self._standing = rules.Standing(self._standing.lease, self._standing.since)
        if leading:
            _log.log(level, "this process leads no more: %s", why)
            self._publish()

    def _publish(self) -> None:
        self._tell(self._standing.grant)

    def _patience(self) -> float:
        """A call must leave time for another one before the grant ends, and never outlast the grant."""
        terms = self._terms
        patience = max(1.0, terms.deadline * 0.4)
        return max(0.01, min(patience, self._standing.grant - _clock())) if self._standing.grant else patience

    def _pause(self) -> float:
        grant = self._standing.grant
        pause = self._terms.retry * (0.8 + 0.4 * self._world.random())
        return min(pause, max(0.0, grant - _clock())) if 0 < grant < math.inf else pause

    def _refused(self, reply: Reply) -> Unavailable:
        if reply.status == 404:
            namespace = self._terms.namespace
            return Unavailable(f"there is no namespace {namespace}: kubectl create namespace {namespace}")
        hint = "; apply configs/rbac.yaml" if reply.status == 403 else ""
        return Unavailable(sentence(reply) + hint)


def _decoded(reply: Reply) -> Lease:
    try:
        return _read(reply.body)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"it cannot be read: {error}") from None


def _clock() -> float:
    return asyncio.get_running_loop().time()
