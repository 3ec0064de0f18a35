"""Jobs, as an operator handles them from outside: read, made, changed and watched in the API server."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec import Struct

from beehive.api import limits
from beehive.api.node import Node
from beehive.api.nodeupgradejob import API_VERSION, PLURAL, NodeUpgradeJob
from beehive.api.validate import is_text, shown
from beehive.errors import Refused, Unavailable
from modules.console.jobs_refusals import refusal
from modules.informer.answers import Reply, succeeded
from modules.informer.client import MERGE_PATCH, Client
from modules.informer.config import Config as ApiConfig
from modules.informer.connection import Connection

JOBS = f"/apis/{API_VERSION}/{PLURAL}"
NODES = "/api/v1/nodes"
_EVENTS = "/api/v1/namespaces/default/events?fieldSelector=source%3Dbeehive"
_PAGE = 500
_WATCH = 60.0
_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_TRIES = 5

T = TypeVar("T")


class Found(Struct, frozen=True):
    """A job as it stands."""

    job: NodeUpgradeJob
    raw: dict[str, Any]
    """The whole object, for `-o json`."""


class _ListMeta(Struct, frozen=True):
    continue_: str = msgspec.field(name="continue", default="")


class _List(Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


class _Event(Struct, frozen=True):
    type: str
    object: msgspec.Raw


class Jobs:
    """The jobs of one cluster. All of it raises Unavailable or Refused with a sentence."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def where(self) -> str:
        """The API server, for people."""
        return self._client.where

    async def all(self) -> list[Found]:
        """Every job, by name."""
        return [_found(item) for item in await self._items(JOBS, "list", PLURAL)]

    async def nodes(self) -> dict[str, Node]:
        """Every Node, by name."""
        nodes = [_decoded(item, Node) for item in await self._items(NODES, "list", "nodes")]
        return {node.metadata.name: node for node in nodes}

    async def events(self) -> list[msgspec.Raw]:
        """Beehive's Events about jobs and Nodes; they are where Events without a namespace belong."""
        return await self._items(_EVENTS, "list", "events")

    async def get(self, name: str) -> Found:
        """The job of this name."""
        return _found(self._good(await self._client.get(_path(name)), "get", name).body)

    async def create(self, manifest: dict[str, Any], *, dry: bool = False) -> Found:
        """A new job; with `dry` the API server judges it and keeps nothing."""
        name = str(manifest["metadata"].get("name", ""))
        path = f"{JOBS}?fieldValidation=Strict{'&dryRun=All' if dry else ''}"
        return _found(self._good(await self._client.create(path, msgspec.json.encode(manifest)), "create", name).body)

    async def change(self, name: str, spec: Callable[[NodeUpgradeJob], dict[str, Any]], *, dry: bool = False) -> Found:
        """Change fields of the spec as `spec` says of what stands; never over somebody else's change."""
        path = f"{_path(name)}?fieldValidation=Strict{'&dryRun=All' if dry else ''}"
        for _ in range(_TRIES):
            found = await self.get(name)
            wanted = spec(found.job)
            if not wanted:
                return found
            guard = {"resourceVersion": found.job.metadata.resource_version, "uid": found.job.metadata.uid}
            body = msgspec.json.encode({"metadata": guard, "spec": wanted})
            reply = await self._client.patch(path, body, MERGE_PATCH)
            if reply.status != 409:
                return _found(self._good(reply, "patch", name).body)
        raise Unavailable(f"Others change job {name} all the time; try again in a moment.")

    async def follow(self, name: str, cut: Callable[[str], None]) -> AsyncGenerator[Found, None]:
        """The job as it is, and as it becomes, until it is deleted (Refused). `cut` hears why we are blind for now."""
        pause, seen = _PAUSE, False
        while True:
            try:
                found = await self.get(name)
                pause, seen = _PAUSE, True
                yield found
                async for changed in self._changes(found):
                    yield changed
            except Unavailable as error:
                if not seen:
                    raise
                cut(f"{error}; trying again in {pause:g} s")
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)

    async def _changes(self, last: Found) -> AsyncIterator[Found]:
        """Until the watch ends, which happens by itself once a minute."""
        meta = last.job.metadata
        async with self._client.watch(JOBS, meta.resource_version, _WATCH, name=meta.name) as stream:
            if stream.refused and stream.refused.status != 410:
                self._good(stream.refused, "watch", meta.name)
            if stream.refused:
                return
            async for lines in stream.lines():
                for line in lines:
                    event = _decoded(line, _Event)
                    if event.type == "DELETED":
                        raise Refused(f"Job {meta.name} was deleted.")
                    if event.type not in ("ADDED", "MODIFIED"):
                        return
                    yield _found(event.object)

    async def _items(self, path: str, verb: str, what: str) -> list[msgspec.Raw]:
        found: list[msgspec.Raw] = []
        token = ""
        while True:
            page = _decoded(self._good(await self._client.list(path, _PAGE, token), verb, what).body, _List)
            found += page.items or ()
            token = page.metadata.continue_
            if not token:
                return found

    def _good(self, reply: Reply, verb: str, what: str) -> Reply:
        if not succeeded(reply):
            raise refusal(reply, verb, what, self.where)
        return reply


def _path(name: str) -> str:
    if not is_text(name, limits.SUBDOMAIN, limits.LONGEST_NAME):
        raise Refused(f'"{shown(name)}" cannot be the name of a job.')
    return f"{JOBS}/{name}"


def _found(body: bytes | msgspec.Raw) -> Found:
    return Found(_decoded(body, NodeUpgradeJob), _decoded(body, dict[str, Any]))


def _decoded(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        _unreadable(error)


def _unreadable(error: Exception) -> NoReturn:
    raise Refused(
        f"The API server's answer is none that this version of Beehive understands ({error}); is the installed CRD "
        "ours? Compare: beehive crd | kubectl diff -f -"
    ) from None


@asynccontextmanager
async def open_jobs(api: ApiConfig) -> AsyncIterator[Jobs]:
    """The jobs of the cluster that the configuration names."""
    async with Connection(api) as connection:
        yield Jobs(Client(connection, float(api.request_timeout)))
