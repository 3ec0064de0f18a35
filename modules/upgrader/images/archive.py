"""Images in a local tar file: an OCI layout in a tar, or what `docker save` writes."""

import hashlib
import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio.to_thread
import msgspec

from beehive.errors import Refused, Unavailable
from modules.upgrader.images.images import Images, NotFound
from modules.upgrader.images.layout import LayoutImages, read_all
from modules.upgrader.images.manifest import CONFIG, CONFIG_TYPES, LAYER_TYPES, MANIFEST_TYPES, Descriptor, decode
from modules.upgrader.images.reference import Repository, parse_repository
from modules.upgrader.images.request import Limits
from modules.upgrader.images.tar import TarReader
from modules.upgrader.images.unpack import Extent, open_extent

_MOST_FILES: Final = 10_000
_LINKS: Final = 5


class ArchiveFiles:
    """The files of a tar archive, read once for their places."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._extents: dict[str, Extent] = {}
        self._links: dict[str, str] = {}
        try:
            whole = Extent(file, 0, file.stat().st_size)
        except FileNotFoundError as error:
            raise NotFound(f"There is no {file}.") from error
        except OSError as error:
            raise Unavailable(f"{file} cannot be read: {error.strerror}.") from error
        with open_extent(whole) as read:
            self._scan(read)

    def find(self, name: str) -> Extent:
        for _ in range(_LINKS):
            if name in self._extents:
                return self._extents[name]
            if name not in self._links:
                break
            name = self._links[name]
        raise NotFound(f"{self._file} has no {name!r}.")

    def _scan(self, read: Callable[[int], bytes]) -> None:
        at = 0

        def counted(count: int) -> bytes:
            nonlocal at
            data = read(count)
            at += len(data)
            return data

        for number, member in enumerate(TarReader(counted)):
            if number >= _MOST_FILES:
                raise Refused(f"{self._file} has more than the {_MOST_FILES:,} files that are allowed.")
            name = posixpath.normpath(member.name)
            if member.kind == "file":
                self._extents[name] = Extent(self._file, at, member.size)
            elif member.kind == "symlink":
                self._links[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.target))
            elif member.kind == "link":
                self._links[name] = posixpath.normpath(member.target)


class _Saved(msgspec.Struct, rename="pascal"):
    """One image in a `manifest.json` of `docker save`."""

    config: str
    repo_tags: tuple[str, ...] | None
    layers: tuple[str, ...]


_SAVED = msgspec.json.Decoder(tuple[_Saved, ...])


class DockerImages:
    """One repository in an archive of `docker save`. It keeps no manifest, so no digest can be pinned."""

    def __init__(self, name: str, files: ArchiveFiles, repository: Repository, limits: Limits) -> None:
        self.name = name
        self.received = 0
        self.keeps_digests = False
        self._files = files
        self._repository = repository
        self._limits = limits
        self._blobs: dict[str, Extent] = {}

    async def document(self, reference: str) -> tuple[bytes, str]:
        return await anyio.to_thread.run_sync(self._document, reference)

    async def small(self, blob: Descriptor) -> bytes:
        return await anyio.to_thread.run_sync(read_all, self._blobs[blob.digest], self._limits.document)

    async def layer(self, blob: Descriptor, work: Path) -> Extent:
        return self._blobs[blob.digest]

    def _document(self, reference: str) -> tuple[bytes, str]:
        """Write the manifest that the archive lacks; its layers are verified by the configuration's digests."""
        if reference.startswith("sha256:"):
            raise Refused(f"{self.name} comes from 'docker save' and keeps no digest; use an OCI archive for a pin.")
        saved = self._saved(reference)
        config = self._blob(saved.config, CONFIG_TYPES[1], "")
        body = read_all(self._blobs[config.digest], self._limits.document)
        diff_ids = decode(CONFIG, body, "The image's configuration").rootfs.diff_ids
        if len(diff_ids) != len(saved.layers):
            raise Refused(f"{self.name} is broken: its configuration names another number of layers.")
        pairs = zip(saved.layers, diff_ids, strict=True)
        layers = [self._blob(name, LAYER_TYPES[3], diff_id) for name, diff_id in pairs]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST_TYPES[1], "config": config, "layers": layers}
        return msgspec.json.encode(manifest), MANIFEST_TYPES[1]

    def _saved(self, tag: str) -> _Saved:
        body = read_all(self._files.find("manifest.json"), self._limits.document)
        for image in decode(_SAVED, body, f"manifest.json of {self.name}"):
            for name in image.repo_tags or ():
                repository, _, found = name.rpartition(":")
                if found == tag and parse_repository(repository) == self._repository:
                    return image
        raise NotFound(f"{self.name} has no {self._repository.name}:{tag}.")

    def _blob(self, name: str, media_type: str, digest: str) -> Descriptor:
        extent = self._files.find(posixpath.normpath(name))
        digest = digest or f"sha256:{hashlib.sha256(read_all(extent, self._limits.document)).hexdigest()}"
        self._blobs[digest] = extent
        return Descriptor(media_type, digest, extent.size)


def read_archive(file: Path, repository: Repository, limits: Limits) -> Images:
    """Tell which kind of archive it is. Blocking."""
    files = ArchiveFiles(file)
    for name, kind in (("index.json", LayoutImages), ("manifest.json", DockerImages)):
        try:
            files.find(name)
        except NotFound:
            continue
        images: Images = kind(f"Archive {file}", files, repository, limits)
        return images
    raise Refused(f"{file} is neither an OCI archive nor one of 'docker save'; unpack it if it is compressed.")
