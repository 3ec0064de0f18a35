"""The one small port through which whatever must survive a power cut touches the disk.

Each method is one step that a cut may come before or after; a test may record or stop them. What must be whole is
composed of them: written beside, synced, renamed, the folder synced.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from beehive.errors import BeehiveError


class Files:
    """The disk of this host."""

    # ---- steps ----------------------------------------------------------------------------------------------------

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """Write a whole file and sync its content; its name is not durable yet."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with named(path), os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, source: Path, target: Path) -> None:
        """Give it another name, replacing what has it; durable after `sync`."""
        source.replace(target)

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

    # ---- composed -------------------------------------------------------------------------------------------------

    def directory(self, path: Path) -> None:
        """Make a directory and those above it, durably."""
        missing = [one for one in (path, *path.parents) if not one.is_dir()]
        for one in reversed(missing):
            self.make_directory(one)
            self.sync(one.parent)

    def replace(self, path: Path, data: bytes, mode: int = 0o600) -> None:
        """Put a whole file in the place of another, durably; after an error the old one stands."""
        self.beside(path, lambda new: self.write(new, data, mode))

    def discard(self, path: Path) -> None:
        """Remove a file durably."""
        self.remove(path)
        self.sync(path.parent)

    def beside(self, path: Path, write: Callable[[Path], None]) -> None:
        """Let `write` make the file beside its place, then put it there, durably; after an error the old one stands."""
        new = path.with_name(f".{path.name}.new")
        self.remove(new)
        try:
            write(new)
            self.rename(new, path)
        except (OSError, BeehiveError):
            with contextlib.suppress(OSError):
                self.remove(new)
            raise
        self.sync(path.parent)


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Give an error its place: one of writing or syncing knows none (`No space left on device`)."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
