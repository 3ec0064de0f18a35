"""The port of `beehive.files` with what backup and swap need beside it."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from beehive import files

_CHUNK = 1024 * 1024


class Files(files.Files):
    """The disk of this host."""

    def copy(self, source: Path, target: Path, like: Path | None = None) -> None:
        """Copy the content and sync it; mode, owner and extended attributes are those of `like`, or of the source."""
        with source.open("rb") as reader:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with files.named(target), os.fdopen(descriptor, "wb") as writer:
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

    def link(self, path: Path, target: str) -> None:
        """Make a symlink; durable after `sync`."""
        path.symlink_to(target)

    def adopt(self, path: Path, like: Path) -> None:
        """Give a folder the mode, the owner and the extended attributes of another."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _adopt(like, descriptor)
        finally:
            os.close(descriptor)

    def give(self, path: Path, user: int, group: int, mode: int) -> None:
        """Change a file's owner, group and mode."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.geteuid() == 0:
                os.fchown(descriptor, user, group)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with all in it; nothing happens where there is none."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def install(self, source: Path, target: Path, like: Path | None = None) -> None:
        """Put a copy in the place of another file, durably; after an error the old one stands."""
        self.beside(target, lambda new: self.copy(source, new, like))

    def build(self, path: Path, build: Callable[[Path], None]) -> None:
        """As `replace`, for a file that somebody else writes."""
        self.beside(path, lambda new: self.make(new, build))


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
        with contextlib.suppress(PermissionError):  # the agent has not the power; a backup's manifest names the owner
            os.fchown(descriptor, found.st_uid, found.st_gid)
    os.fchmod(descriptor, found.st_mode & 0o7777)
    with contextlib.suppress(OSError):  # file systems without them; a label that only its own service may set
        for name in os.listxattr(like):
            os.setxattr(descriptor, name, os.getxattr(like, name))
