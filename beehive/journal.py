"""A crash-safe store of small records, one file each: what a module must still know after a power cut.

A record is either the old one or the new one, whole, whatever is unplugged when: written beside, fsynced, renamed,
and the directory fsynced. Readable by people and by other programs; no handle stays open.
"""

import os
import re
import stat
from pathlib import Path
from typing import TypeVar

import msgspec

from beehive.files import Files

T = TypeVar("T")

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


class Journal:
    """The records of one module, in one directory (0700, files 0600)."""

    def __init__(self, directory: Path, files: Files | None = None) -> None:
        self.directory = directory
        self.faults: list[str] = []
        """What was found that could not be used, oldest first, in sentences."""
        self._files = files or Files()

    def save(self, key: str, record: object) -> None:
        """Store it durably before returning. Raises OSError (disk full, read-only): then the old record stands."""
        self._files.directory(self.directory)
        self._files.replace(self._path(key), msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")

    def load(self, key: str, kind: type[T]) -> T | None:
        """The record, or None where there is none that can be read; then `faults` says why, and the file is set aside
        as `key.bad`. Never raises: whoever starts must not fail for what lies on a disk."""
        record, problem = self.peek(key, kind)
        if problem:
            self.set_aside(key, problem)
        return record

    def peek(self, key: str, kind: type[T]) -> tuple[T | None, str]:
        """The record as `load`, or what is wrong with it; changes nothing, so that others than its owner may look."""
        path = self._path(key)
        try:
            return msgspec.json.decode(_read(path), type=kind), ""
        except FileNotFoundError:
            return None, ""
        except OSError as error:
            return None, f"{path} cannot be read: {error.strerror}"
        except msgspec.MsgspecError:
            return None, f"{path} is no record that can be read"

    def set_aside(self, key: str, problem: str) -> None:
        """Keep a record that is of no use under another name, for people, and note why. Never raises."""
        path = self._path(key)
        aside = path.with_suffix(".bad")
        try:
            if aside.is_dir() and not aside.is_symlink():
                self._files.rename(aside, aside.with_suffix(".bad.old"))
            self._files.rename(path, aside)
            self._files.sync(self.directory)
        except OSError as error:
            problem = f"{problem}; it cannot be set aside: {error.strerror}"
        else:
            problem = f"{problem}; it is kept as {aside.name}"
        self.faults.append(problem)

    def forget(self, key: str) -> None:
        """Remove it durably; nothing happens where there is none."""
        path = self._path(key)
        if path.exists():
            self._files.discard(path)

    def keys(self) -> list[str]:
        """All keys, sorted."""
        return sorted(path.stem for path in self.directory.glob("*.json"))

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} cannot be the name of a record")
        return self.directory / f"{key}.json"


def _read(path: Path) -> bytes:
    """Only what is a file of ours, or root's. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is not a file")
        if found.st_uid not in (os.geteuid(), 0):
            raise OSError(0, f"it belongs to user {found.st_uid}")
        return file.read()


def write_durably(path: Path, data: bytes, mode: int) -> None:
    """Replace the file at `path` atomically and durably; nothing is left beside it when that fails."""
    Files().replace(path, data, mode)
