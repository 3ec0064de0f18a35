"""The label by which the hub's Service finds the Pod that leads (product.md 3.4)."""

import asyncio
import logging

import msgspec
from msgspec import Struct

from beehive.api.meta import ObjectMeta
from beehive.errors import Unavailable
from modules.informer.answers import Reply, sentence, succeeded
from modules.informer.client import MERGE_PATCH, Client

LABEL, LEADER = "beehive/role", "leader"
_AGAIN = 2.0
"""Seconds until the next try after the API server did not answer or refused."""
_log = logging.getLogger("beehive.informer")


class _Pod(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class _Pods(Struct, frozen=True):
    items: tuple[_Pod, ...] | None = None


class Role:
    """Keeps the label right: off our own Pod at the start; a new leader takes it off all others, then sets its own."""

    def __init__(self, client: Client, namespace: str, pod: str) -> None:
        self._client, self._pod = client, pod
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._leads = False
        self._changed = asyncio.Event()
        self._changed.set()

    def tell(self, leads: bool) -> None:
        """Whether this process leads now."""
        if leads != self._leads:
            self._leads = leads
            self._changed.set()

    async def run(self) -> None:
        """For ever."""
        trouble = ""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._apply()
                trouble = ""
            except Unavailable as error:
                if error.reason != trouble:
                    trouble = error.reason
                    _log.warning("the hub's Service may not find the leader: %s", trouble)
                self._changed.set()
                await asyncio.sleep(_AGAIN)

    async def _apply(self) -> None:
        if self._leads:
            for other in await self._others():
                await self._label(other, None)
        await self._label(self._pod, LEADER if self._leads else None)

    async def _others(self) -> list[str]:
        reply = _good(await self._client.list(self._pods, selector=f"{LABEL}={LEADER}"))
        try:
            pods = msgspec.json.decode(reply.body, type=_Pods)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Unavailable(f"the list of Pods cannot be read: {error}") from None
        return [pod.metadata.name for pod in pods.items or () if pod.metadata.name != self._pod]

    async def _label(self, pod: str, value: str | None) -> None:
        body = msgspec.json.encode({"metadata": {"labels": {LABEL: value}}})
        reply = await self._client.patch(f"{self._pods}/{pod}", body, MERGE_PATCH)
        if reply.status != 404 or pod == self._pod:  # another that is gone needs no label taken off
            _good(reply)


def _good(reply: Reply) -> Reply:
    if not succeeded(reply):
        raise Unavailable(sentence(reply))
    return reply
