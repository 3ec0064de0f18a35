"""A crash-safe store of small records, one file each: what a module must still know after a power cut.

A record is either the old one or the new one, whole, whatever is unplugged when: written beside, fsynced, renamed,
and the directory fsynced. Readable by people and by other programs; no handle stays open.
"""

import re
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
        self._files = files or Files()

    def save(self, key: str, record: object) -> None:
        """Store it durably before returning. Raises OSError (disk full, read-only): then the old record stands."""
        self._files.directory(self.directory)
        self._files.replace(self._path(key), msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")

    def load(self, key: str, kind: type[T]) -> T | None:
        """The record, or None where there is none. A file that is not a record is set aside as `key.bad` first."""
        path = self._path(key)
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError:
            self._files.rename(path, path.with_suffix(".bad"))
            self._files.sync(self.directory)
            return None

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


def write_durably(path: Path, data: bytes, mode: int) -> None:
    """Replace the file at `path` atomically and durably; nothing is left beside it when that fails."""
    Files().replace(path, data, mode)
