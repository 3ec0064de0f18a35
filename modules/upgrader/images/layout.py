"""Images in a local OCI layout: a directory, or a tar file that holds one."""

import hashlib
from pathlib import Path
from typing import Protocol

import anyio.from_thread
import anyio.to_thread

from beehive.errors import Refused, Unavailable
from modules.upgrader.images.decompress import CHUNK, Measured
from modules.upgrader.images.images import NotFound
from modules.upgrader.images.manifest import Descriptor, Index, read_document
from modules.upgrader.images.reference import Repository, check_digest, parse_repository
from modules.upgrader.images.request import Limits
from modules.upgrader.images.unpack import Extent, open_extent

_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


class Files(Protocol):
    """Files by their name below the top of a layout."""

    def find(self, name: str) -> Extent:
        """Where the file is; `NotFound` if it is not."""


class DirectoryFiles:
    """The files of a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, name: str) -> Extent:
        file = self._directory / name
        try:
            return Extent(file, 0, file.stat().st_size)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"There is no {file}.") from error
        except OSError as error:
            raise Unavailable(f"{file} cannot be read: {error.strerror}.") from error


class LayoutImages:
    """One repository in a layout."""

    def __init__(self, name: str, files: Files, repository: Repository, limits: Limits) -> None:
        self.name = name
        self.received = 0
        self.keeps_digests = True
        self._files = files
        self._repository = repository
        self._limits = limits

    async def document(self, reference: str) -> tuple[bytes, str]:
        return await anyio.to_thread.run_sync(self._document, reference)

    async def small(self, blob: Descriptor) -> bytes:
        return await anyio.to_thread.run_sync(self._small, blob)

    async def layer(self, blob: Descriptor, work: Path) -> Extent:
        return await anyio.to_thread.run_sync(self._layer, blob)

    def _document(self, reference: str) -> tuple[bytes, str]:
        if reference.startswith("sha256:"):
            extent = self._files.find(_blob_name(reference))
            return read_all(extent, self._limits.document), ""
        entry = self._entry(reference)
        return self._small(entry), entry.media_type

    def _entry(self, tag: str) -> Descriptor:
        index = read_document(read_all(self._files.find("index.json"), self._limits.document))
        entries = index.manifests if isinstance(index, Index) else ()
        named = [entry for entry in entries if self._fit(entry, tag) == "name"]
        found = named or [entry for entry in entries if self._fit(entry, tag) == "tag"]
        if not found:
            raise NotFound(f"{self.name} has no {self._repository.name}:{tag}.")
        if len({entry.digest for entry in found}) > 1:
            raise Refused(f"{self.name} has several images under the name {self._repository.name}:{tag}.")
        return found[0]

    def _fit(self, entry: Descriptor, tag: str) -> str:
        """How an entry names the image: by `name` in full, by its `tag` alone, or "" not at all."""
        names = [text for key in _NAMES if (text := (entry.annotations or {}).get(key))]
        if any(_is_name(text, self._repository, tag) for text in names):
            return "name"
        return "tag" if names and all(text == tag for text in names) else ""

    def _small(self, blob: Descriptor) -> bytes:
        body = read_all(self._found(blob), self._limits.document)
        if f"sha256:{hashlib.sha256(body).hexdigest()}" != blob.digest:
            raise Refused(f"{self.name} holds a file that does not have its digest {blob.digest}.")
        return body

    def _layer(self, blob: Descriptor) -> Extent:
        extent = self._found(blob)
        with open_extent(extent) as read:
            measured = Measured(read, blob.size, "A layer of the image", anyio.from_thread.check_cancelled)
            measured.drain()
        measured.check(blob.digest)
        return extent

    def _found(self, blob: Descriptor) -> Extent:
        extent = self._files.find(_blob_name(blob.digest))
        if extent.size != blob.size:
            raise Refused(f"{self.name} holds {extent.size:,} bytes where the manifest names {blob.size:,}.")
        return extent


def read_all(extent: Extent, limit: int) -> bytes:
    """The bytes of a small file."""
    if extent.size > limit:
        raise Refused(f"{extent.file} holds {extent.size:,} bytes where at most {limit:,} are allowed.")
    with open_extent(extent) as read:
        pieces = []
        while piece := read(CHUNK):
            pieces.append(piece)
    return b"".join(pieces)


def _blob_name(digest: str) -> str:
    return f"blobs/{check_digest(digest).replace(':', '/')}"


def _is_name(text: str, repository: Repository, tag: str) -> bool:
    name, colon, named_tag = text.rpartition(":")
    if not colon or named_tag != tag or "/" in named_tag:
        return False
    try:
        return parse_repository(name) == repository
    except Refused:
        return False
