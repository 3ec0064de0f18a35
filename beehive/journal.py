"""A crash-safe store of small records, one file each: what a module must still know after a power cut.

A record is either the old one or the new one, whole, whatever is unplugged when: written beside, fsynced, renamed,
and the directory fsynced. Readable by people and by other programs; no handle stays open.
"""

import contextlib
import os
import re
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


class Journal:
    """The records of one module, in one directory (0700, files 0600)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def save(self, key: str, record: object) -> None:
        """Store it durably before returning. Raises OSError (disk full, read-only): then the old record stands."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_durably(self._path(key), msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n", 0o600)

    def load(self, key: str, kind: type[T]) -> T | None:
        """The record, or None where there is none. A file that is not a record is set aside as `key.bad` first."""
        path = self._path(key)
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError:
            path.rename(path.with_suffix(".bad"))
            fsync_directory(self.directory)
            return None

    def forget(self, key: str) -> None:
        """Remove it durably; nothing happens where there is none."""
        with contextlib.suppress(FileNotFoundError):
            self._path(key).unlink()
            fsync_directory(self.directory)

    def keys(self) -> list[str]:
        """All keys, sorted."""
        return sorted(path.stem for path in self.directory.glob("*.json"))

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} cannot be the name of a record")
        return self.directory / f"{key}.json"


def write_durably(path: Path, data: bytes, mode: int) -> None:
    """Replace the file at `path` atomically and durably; nothing is left beside it when that fails."""
    beside = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    fsync_directory(path.parent)


def fsync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
