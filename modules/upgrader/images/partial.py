"""A download that survives cuts: the bytes so far, under their digest in the work directory. Blocking."""

import hashlib
import os
from pathlib import Path
from typing import Final

from beehive.errors import Refused
from modules.upgrader.images.manifest import Descriptor
from modules.upgrader.images.place import make_folders
from modules.upgrader.images.unpack import Extent

_SUFFIX: Final = ".part"
_CHUNK: Final = 1024 * 1024


class Partial:
    """One blob on its way to this host."""

    def __init__(self, work: Path, blob: Descriptor) -> None:
        make_folders(work, [])
        self._file = _file(work, blob)
        self._blob = blob
        self._hash = hashlib.sha256()
        self.size = 0
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._handle = os.open(self._file, flags, 0o600)
        self._read_back()
        self.kept = self.size
        """Bytes that an earlier call left here."""

    def write(self, data: bytes) -> None:
        """Take the next bytes; more than the blob has are refused before they are written."""
        if self.size + len(data) > self._blob.size:
            raise Refused(f"A layer of the image has more than the {self._blob.size:,} bytes that its manifest names.")
        self._hash.update(data)
        self.size += len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._handle, rest) :]

    def restart(self) -> None:
        """Forget everything so far."""
        os.ftruncate(self._handle, 0)
        os.lseek(self._handle, 0, os.SEEK_SET)
        self._hash = hashlib.sha256()
        self.size = self.kept = 0

    def is_right(self) -> bool:
        """Whether the whole blob is there and has its digest."""
        return self.size == self._blob.size and f"sha256:{self._hash.hexdigest()}" == self._blob.digest

    def extent(self) -> Extent:
        return Extent(self._file, 0, self._blob.size)

    def close(self) -> None:
        os.close(self._handle)

    def _read_back(self) -> None:
        while data := os.read(self._handle, _CHUNK):
            self._hash.update(data)
            self.size += len(data)
        if self.size > self._blob.size:
            self.restart()


def sweep(work: Path, blobs: tuple[Descriptor, ...]) -> None:
    """Drop what an image that is no longer wanted left behind."""
    wanted = {_file(work, blob) for blob in blobs}
    for file in work.glob(f"*{_SUFFIX}"):
        if file not in wanted:
            file.unlink()


def clean(work: Path) -> None:
    """Drop what was downloaded, and the directory if nothing else is in it."""
    for file in work.glob(f"*{_SUFFIX}"):
        file.unlink()
    if work.is_dir() and not any(work.iterdir()):
        work.rmdir()


def _file(work: Path, blob: Descriptor) -> Path:
    return work / f"{blob.digest.replace(':', '-')}{_SUFFIX}"
