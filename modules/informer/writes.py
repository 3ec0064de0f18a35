"""Guarded patches of what the cache holds: jobs and Nodes (product.md 3.4.4, libraries.md trap 23).

Each begins with a test of the uid and a replacement of the resourceVersion, so that it applies to the very object that
the decision was made on, or not at all. The cache holds the object as answered before anybody hears of the answer.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar
from urllib.parse import quote

import msgspec

from beehive.api.node import Node
from beehive.api.nodeupgradejob import NodeUpgradeJob
from beehive.errors import Unavailable
from beehive.messages.objects import (
    Away,
    Missing,
    Patched,
    PatchJob,
    PatchJobStatus,
    PatchNode,
    PatchNodeCondition,
    PatchOperation,
    Stale,
    WriteAnswer,
)
from modules.informer.answers import Reply, refusal, sentence, succeeded
from modules.informer.cache import Cache, Change
from modules.informer.client import JSON_PATCH, STRATEGIC_PATCH, Client, Grant
from modules.informer.kinds import Kind

T = TypeVar("T", NodeUpgradeJob, Node)
Guarded = PatchJobStatus | PatchJob | PatchNode

_JOBS_AT_ONCE = 16
_TRIES = 3


class Writer(Generic[T]):
    """Writes to one kind. `grant` is asked at each write; `tell` hears of what a write changed."""

    def __init__(
        self,
        kind: Kind[T],
        cache: Cache[T],
        client: Client,
        grant: Grant,
        tell: Callable[[list[Change[T]]], None],
        at_once: int = _JOBS_AT_ONCE,
    ) -> None:
        self._kind: Kind[T] = kind
        self._cache: Cache[T] = cache
        self._tell: Callable[[list[Change[T]]], None] = tell
        self._client = client
        self._grant = grant
        self._lane = asyncio.Semaphore(at_once)
        self._most, self._under_way = at_once, 0

    def is_busy(self) -> bool:
        """A good part of what may be under way at once is."""
        return self._under_way > self._most / 4

    async def patch(self, request: Guarded, subresource: str, wanted: Callable[[], bool]) -> WriteAnswer:
        """Write it if it is still `wanted` when its turn comes."""
        async with self._lane:
            if not wanted():
                return Away("nobody waits for this write any more")
            self._under_way += 1
            try:
                return await self._guarded(request, subresource)
            except Unavailable as error:
                return Away(error.reason)
            finally:
                self._under_way -= 1

    async def condition(self, request: PatchNodeCondition, wanted: Callable[[], bool]) -> WriteAnswer:
        """Write one condition of a Node; the others stay as they are."""
        body = msgspec.json.encode({"status": {"conditions": [request.condition]}})
        async with self._lane:
            if not wanted():
                return Away("nobody waits for this write any more")
            try:
                reply = await self._client.patch(
                    f"{self._address(request.name)}/status", body, STRATEGIC_PATCH, self._grant
                )
                refused = refusal(reply)
                if isinstance(refused, Stale):
                    return await self._as_it_is(request.name, "")
                return refused or self._stands(reply)
            except Unavailable as error:
                return Away(error.reason)

    async def _guarded(self, request: Guarded, subresource: str) -> WriteAnswer:
        name, uid, decided = request.name, request.uid, request.resource_version
        version = self._cache.guard(name, uid, decided)
        answer: WriteAnswer = Stale()
        for _ in range(_TRIES):
            body = guarded(request.operations, uid, version)
            reply = await self._client.patch(f"{self._address(name)}{subresource}", body, JSON_PATCH, self._grant)
            refused = refusal(reply)
            if not isinstance(refused, Stale):
                return refused or self._stands(reply)
            answer = await self._as_it_is(name, uid)
            newer = self._cache.guard(name, uid, decided)
            if not isinstance(answer, Stale) or reply.status != 409 or newer == version:
                return answer
            version = newer  # only a heartbeat came between: the decision holds
        return answer

    async def _as_it_is(self, name: str, uid: str) -> WriteAnswer:
        """The object now, read from the API server; Missing when another one stands under its name."""
        reply = await self._client.get(self._address(name))
        if reply.status == 404:
            return Missing()
        if not succeeded(reply):
            return Away(sentence(reply))
        now = self._learn(reply)
        return Missing() if uid and now.metadata.uid != uid else Stale(now)

    def _stands(self, reply: Reply) -> Patched:
        return Patched(self._learn(reply), reply.took)

    def _learn(self, reply: Reply) -> T:
        try:
            one = self._kind.read(reply.body)
        except (msgspec.MsgspecError, ValueError) as error:
            raise Unavailable(f"the answer about one of the {self._kind.title} cannot be read: {error}") from None
        changes = self._cache.learn(one)
        if changes:
            self._tell(changes)
        return one

    def _address(self, name: str) -> str:
        return f"{self._kind.path}/{quote(name, safe='')}"


def guarded(operations: tuple[PatchOperation, ...], uid: str, version: str) -> bytes:
    """The JSON Patch with its guards in front; an empty version guards the uid alone."""
    guards = [PatchOperation("test", "/metadata/uid", uid)]
    if version:
        guards.append(PatchOperation("replace", "/metadata/resourceVersion", version))
    return msgspec.json.encode([*guards, *operations])
