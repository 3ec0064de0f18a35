"""Writes to what the cache does not hold: our Secrets, and single objects of ours that no rule reads."""

import base64
import binascii
from urllib.parse import quote

import msgspec
from msgspec import Struct

from beehive.api.meta import ObjectMeta
from beehive.errors import Unavailable
from beehive.messages.objects import (
    Away,
    Denied,
    GetSecret,
    Patched,
    PatchObject,
    PatchOperation,
    PutSecret,
    Secret,
    WriteAnswer,
)
from modules.informer.answers import refusal, sentence, succeeded
from modules.informer.client import JSON_PATCH, MERGE_PATCH, Client


class _SecretBody(Struct, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] | None = None


_read_secret = msgspec.json.Decoder(_SecretBody).decode


class Others:
    """They need no leadership: each is compare and swap, or about this process itself."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._secrets = f"/api/v1/namespaces/{namespace}/secrets"

    async def get_secret(self, request: GetSecret) -> Secret | Away:
        """Read it; one that does not exist has no data and no version."""
        try:
            reply = await self._client.get(f"{self._secrets}/{quote(request.name, safe='')}")
            if reply.status == 404:
                return Secret({}, "")
            if not succeeded(reply):
                hint = "; apply configs/rbac.yaml" if reply.status == 403 else ""
                return Away(f"Secret {self._namespace}/{request.name}: {sentence(reply)}{hint}")
            body = _read_secret(reply.body)
            data = {key: base64.b64decode(value, validate=True) for key, value in (body.data or {}).items()}
            return Secret(data, body.metadata.resource_version)
        except Unavailable as error:
            return Away(error.reason)
        except (msgspec.MsgspecError, binascii.Error) as error:
            return Away(f"Secret {self._namespace}/{request.name} cannot be read: {error}")

    async def put_secret(self, request: PutSecret) -> WriteAnswer:
        """Create it, or replace its data if it is still of that version; its labels and type stay."""
        try:
            if request.resource_version:
                return await self._replace(request)
            return await self._create(request)
        except Unavailable as error:
            return Away(error.reason)

    async def _create(self, request: PutSecret) -> WriteAnswer:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": request.name, "namespace": self._namespace},
            "type": "Opaque",
            "data": _encoded(request.data),
        }
        reply = await self._client.create(self._secrets, msgspec.json.encode(body))
        if reply.status == 404:
            return Away(f"there is no namespace {self._namespace}: kubectl create namespace {self._namespace}")
        return refusal(reply) or Patched()

    async def _replace(self, request: PutSecret) -> WriteAnswer:
        operations = [
            PatchOperation("replace", "/metadata/resourceVersion", request.resource_version),
            PatchOperation("add", "/data", _encoded(request.data)),
        ]
        path = f"{self._secrets}/{quote(request.name, safe='')}"
        reply = await self._client.patch(path, msgspec.json.encode(operations), JSON_PATCH)
        return refusal(reply) or Patched()

    async def patch_object(self, request: PatchObject) -> WriteAnswer:
        """Merge-patch it."""
        if not is_api_path(request.path):
            return Denied(f"{request.path!r} is no path of an object in the API")
        try:
            reply = await self._client.patch(request.path, msgspec.json.encode(request.patch), MERGE_PATCH)
        except Unavailable as error:
            return Away(error.reason)
        return refusal(reply) or Patched()


def is_api_path(path: str) -> bool:
    """A plain path below /api or /apis, without anything that would lead elsewhere."""
    plain = path.isascii() and path.isprintable() and not set(path) & set("?#%\\ ")
    return plain and path.startswith(("/api/", "/apis/")) and not {"", ".", ".."} & set(path[1:].split("/"))


def _encoded(data: dict[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}
