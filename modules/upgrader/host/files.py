"""The one small port through which backup, swap, rollback, records and report touch the disk.

Each method is one step that a power cut may come before or after; a test may record or stop them. What must be whole
is composed of them: written beside, synced, renamed, the folder synced.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

_CHUNK = 1024 * 1024


class Files:
    """The disk of this host."""

    # ---- steps ----------------------------------------------------------------------------------------------------

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """Write a whole file and sync its content; its name is not durable yet."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def copy(self, source: Path, target: Path, like: Path | None = None) -> None:
        """Copy the content and sync it; mode, owner and extended attributes are those of `like`, or of the source."""
        with source.open("rb") as reader:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as writer:
                shutil.copyfileobj(reader, writer, _CHUNK)
                writer.flush()
                _adopt(like or source, writer.fileno())
                os.fsync(writer.fileno())

    def make(self, path: Path, build: Callable[[Path], None]) -> None:
        """Let `build` write the file, then sync it."""
        build(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchmod(descriptor, 0o600)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Give it another name, replacing what has it; durable after `sync`."""
        source.rename(target)

    def sync(self, directory: Path) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Remove a file; nothing happens where there is none."""
        with contextlib.suppress(FileNotFoundError):
            path.unlink()

    def make_directory(self, path: Path) -> None:
        """Make one directory (0700); nothing happens where it is."""
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with all in it; nothing happens where there is none."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    # ---- composed -------------------------------------------------------------------------------------------------

    def directory(self, path: Path) -> None:
        """Make a directory and those above it, durably."""
        missing = [one for one in (path, *path.parents) if not one.is_dir()]
        for one in reversed(missing):
            self.make_directory(one)
            self.sync(one.parent)

    def replace(self, path: Path, data: bytes, mode: int = 0o600) -> None:
        """Put a whole file in the place of another, durably; after an error the old one stands."""
        self._beside(path, lambda beside: self.write(beside, data, mode))

    def install(self, source: Path, target: Path, like: Path | None = None) -> None:
        """Put a copy in the place of another file, durably; after an error the old one stands."""
        self._beside(target, lambda beside: self.copy(source, beside, like))

    def build(self, path: Path, build: Callable[[Path], None]) -> None:
        """As `replace`, for a file that somebody else writes."""
        self._beside(path, lambda beside: self.make(beside, build))

    def discard(self, path: Path) -> None:
        """Remove a file durably."""
        self.remove(path)
        self.sync(path.parent)

    def _beside(self, path: Path, write: Callable[[Path], None]) -> None:
        beside = path.with_name(f".{path.name}.new")
        self.remove(beside)
        try:
            write(beside)
            self.rename(beside, path)
        except OSError:
            with contextlib.suppress(OSError):
                self.remove(beside)
            raise
        self.sync(path.parent)


def digest_of(path: Path) -> str:
    """`sha256:…` of a file's content, or an empty text where there is no regular file that can be read."""
    try:
        with path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return ""


def _adopt(like: Path, descriptor: int) -> None:
    found = like.stat()
    if os.geteuid() == 0:
        os.fchown(descriptor, found.st_uid, found.st_gid)
    os.fchmod(descriptor, found.st_mode & 0o7777)
    with contextlib.suppress(OSError):  # file systems without them; a label that only its own service may set
        for name in os.listxattr(like):
            os.setxattr(descriptor, name, os.getxattr(like, name))
