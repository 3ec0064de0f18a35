"""Puts files at their places whole: written beside, synced, renamed, the folder synced. All of them or none."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from beehive.errors import Refused
from modules.upgrader.images.elf import HEADER_SIZE, check_elf
from modules.upgrader.images.request import PlacedFile, WantedFile


class Staged:
    """One file on its way: `.NAME.part` beside its place, readable by nobody else."""

    def __init__(self, file: WantedFile, made: list[Path]) -> None:
        self.file = file
        self.size = 0
        self._hash = hashlib.sha256()
        self._head = b""
        self.beside = file.to.with_name(f".{file.to.name}.part")
        if file.to.is_dir() and not file.to.is_symlink():
            raise Refused(f"{file.to} is a folder; {file.path} cannot be placed there.")
        make_folders(file.to.parent, made)
        self.beside.unlink(missing_ok=True)
        self._handle = -1

    def write(self, data: bytes) -> None:
        self._head += data[: HEADER_SIZE - len(self._head)]
        self._hash.update(data)
        self.size += len(data)
        self._open()
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._handle, rest) :]

    def complete(self) -> None:
        """All is written: bring it to the disk. Not at the end for all: a folder has more files than may be open."""
        self._open()
        os.fchmod(self._handle, self.file.mode & 0o777)
        os.fsync(self._handle)
        self._shut()

    def finish(self, architecture: str) -> PlacedFile:
        """Check what was written; nothing is at the place yet."""
        if self.file.policy == "elf":
            check_elf(self._head, self.file.path, architecture)
        digest = f"sha256:{self._hash.hexdigest()}"
        return PlacedFile(path=self.file.path, to=self.file.to, size=self.size, sha256=digest)

    def close(self) -> None:
        self._shut()
        self.beside.unlink(missing_ok=True)

    def _open(self) -> None:
        if self._handle < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._handle = os.open(self.beside, flags, 0o600)

    def _shut(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class Staging:
    """All files of one image on their way; leaving it without `commit` leaves the disk as it was."""

    def __init__(self) -> None:
        self.files: list[Staged] = []
        self._made: list[Path] = []
        self._done = False

    def add(self, file: WantedFile) -> Staged:
        staged = Staged(file, self._made)
        self.files.append(staged)
        return staged

    def commit(self, architecture: str) -> tuple[PlacedFile, ...]:
        """Every file is checked and on the disk before the first is renamed."""
        placed = tuple(staged.finish(architecture) for staged in self.files)
        for staged in self.files:
            staged.beside.rename(staged.file.to)
        for folder in {staged.file.to.parent for staged in self.files}:
            sync_folder(folder)
        self._done = True
        return placed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for staged in self.files:
            staged.close()
        for folder in [] if self._done else reversed(self._made):
            with contextlib.suppress(OSError):
                folder.rmdir()


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folders(folder: Path, made: list[Path]) -> None:
    """Make what is missing of a folder, for its owner only; each one is added to `made`."""
    for path in reversed(list(_missing(folder))):
        path.mkdir(mode=0o700)
        made.append(path)
        sync_folder(path.parent)


def _missing(folder: Path) -> Iterator[Path]:
    while not folder.exists():
        yield folder
        folder = folder.parent
