"""Images in a registry, by the OCI distribution protocol: documents whole, layers resumed after every cut."""

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread

from beehive.errors import Refused, Unavailable
from modules.upgrader.images import http
from modules.upgrader.images.manifest import INDEX_TYPES, MANIFEST_TYPES, Descriptor
from modules.upgrader.images.partial import Partial
from modules.upgrader.images.request import MIB, Limits
from modules.upgrader.images.sources import Access
from modules.upgrader.images.unpack import Extent

if TYPE_CHECKING:
    import httpx

_ACCEPT: Final = ", ".join(MANIFEST_TYPES + INDEX_TYPES)
_LONGEST_PAUSE: Final = 30.0
_LOOK_UPS: Final = 3
_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]+)-[0-9]+/(?:[0-9]+|\*)")


_T = TypeVar("_T")


class RegistryImages:
    """One repository in one registry."""

    def __init__(self, name: str, path: str, access: Access, limits: Limits, door: http.RegistryHttp) -> None:
        self.name = name
        self.received = 0
        self.keeps_digests = True
        self._path = path
        self._access = access
        self._limits = limits
        self._door = door

    async def document(self, reference: str) -> tuple[bytes, str]:
        return await self._patiently(lambda: self._document(reference))

    async def small(self, blob: Descriptor) -> bytes:
        return await self._patiently(lambda: self._small(blob))

    async def _document(self, reference: str) -> tuple[bytes, str]:
        path = f"/v2/{self._path}/manifests/{reference}"
        async with self._door.get(path, {"Accept": _ACCEPT}) as response:
            body = await http.read_bounded(response, self._limits.document)
            declared = response.headers.get("content-type", "").partition(";")[0].strip()
            stated = response.headers.get("docker-content-digest", "")
        if stated.startswith("sha256:") and stated != f"sha256:{hashlib.sha256(body).hexdigest()}":
            raise Refused(f"{self.name} handed out a manifest that does not have the digest it was announced with.")
        return body, declared

    async def _small(self, blob: Descriptor) -> bytes:
        if blob.size > self._limits.document:
            raise Refused(f"The image's configuration has {blob.size:,} bytes, more than are allowed.")
        async with self._door.get(f"/v2/{self._path}/blobs/{blob.digest}", {}) as response:
            body = await http.read_bounded(response, self._limits.document)
        if len(body) != blob.size or f"sha256:{hashlib.sha256(body).hexdigest()}" != blob.digest:
            raise Refused(f"{self.name} handed out a configuration that is not the one its manifest names.")
        return body

    async def layer(self, blob: Descriptor, work: Path) -> Extent:
        partial = await anyio.to_thread.run_sync(Partial, work, blob)
        try:
            kept = partial.kept
            await self._complete(partial, blob)
            if kept and not partial.is_right():  # what an earlier call left may have been damaged since
                partial.restart()
                await self._complete(partial, blob)
            if not partial.is_right():
                partial.restart()
                raise Refused(f"{self.name} handed out a layer that does not have its digest {blob.digest}.")
            return partial.extent()
        finally:
            partial.close()

    async def _complete(self, partial: Partial, blob: Descriptor) -> None:
        fruitless = 0
        while partial.size < blob.size:
            before = partial.size
            try:
                await self._transfer(partial, blob)
            except Unavailable as error:
                fruitless = 0 if partial.size > before else fruitless + 1
                if fruitless >= self._access.attempts:
                    raise
                await self._rest(error, fruitless)

    async def _patiently(self, call: Callable[[], Awaitable[_T]]) -> _T:
        for fruitless in range(1, min(self._access.attempts, _LOOK_UPS)):
            try:
                return await call()
            except Unavailable as error:
                await self._rest(error, fruitless)
        return await call()

    async def _rest(self, error: Unavailable, fruitless: int) -> None:
        wait = error.retry_after or self._access.pause * 2 ** (fruitless - 1)
        await anyio.sleep(min(wait, _LONGEST_PAUSE) if fruitless else 0)

    async def _transfer(self, partial: Partial, blob: Descriptor) -> None:
        headers = {"Range": f"bytes={partial.size}-"} if partial.size else {}
        async with self._door.get(f"/v2/{self._path}/blobs/{blob.digest}", headers) as response:
            if partial.size and not _continues(response, partial.size):
                await anyio.to_thread.run_sync(partial.restart)
            self._check_length(response, blob.size - partial.size)
            async for data in _pieces(response):
                self.received += len(data)
                await anyio.to_thread.run_sync(partial.write, data)
        if partial.size < blob.size:
            raise Unavailable(f"{self.name} ended a layer after {partial.size:,} of {blob.size:,} bytes.")

    def _check_length(self, response: "httpx.Response", expected: int) -> None:
        stated = response.headers.get("content-length", "")
        if stated and stated != str(expected):
            raise Refused(f"{self.name} hands out {stated[:20]} bytes where the manifest names {expected:,}.")


def _continues(response: "httpx.Response", offset: int) -> bool:
    """Whether the answer begins where we stopped; a server may also answer a range with the whole."""
    if response.status_code != 206:
        return False
    found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
    if not found or int(found[1]) != offset:
        raise Unavailable("The registry answered with another part of a layer than was asked for.")
    return True


async def _pieces(response: "httpx.Response") -> AsyncIterator[bytes]:
    """The body in pieces that are worth a thread each; what came before a cut is handed on too."""
    import httpx  # noqa: PLC0415

    gathered, cut = bytearray(), None
    try:
        async for data in response.aiter_raw():
            gathered += data
            if len(gathered) >= MIB:
                yield bytes(gathered)
                gathered.clear()
    except httpx.TransportError as error:
        cut = error
    if gathered:
        yield bytes(gathered)
    if cut is not None:
        raise cut


@asynccontextmanager
async def opened(address: str, path: str, access: Access, limits: Limits) -> AsyncIterator[RegistryImages]:
    """The repository `path` at the registry `address`."""
    async with http.opened(address, path, access, limits) as door:
        yield RegistryImages(f"Registry {address}", path, access, limits, door)
