"""A folder of files as one thing: its digest, its size, a copy that is whole."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from modules.upgrader.host.files import Files, digest_of


def digest_of_tree(folder: Path) -> str:
    """`sha256:…` of names, kinds, contents and who may execute what; an empty text where there is no such folder."""
    if folder.is_symlink() or not folder.is_dir():
        return ""
    found = hashlib.sha256()
    for path in walk(folder):
        found.update(_line(path, os.fsencode(path.relative_to(folder))))
    return f"sha256:{found.hexdigest()}"


def size_of_tree(folder: Path) -> int:
    """Bytes of all its files."""
    return sum(path.lstat().st_size for path in walk(folder) if not path.is_dir()) if folder.is_dir() else 0


def copy_tree(files: Files, source: Path, target: Path) -> None:
    """A durable copy of all of it; `target` must not be there. Every single step can be cut.

    Modes, owners and extended attributes are the source's; links are copied as links.
    """
    files.make_directory(target)
    for path in walk(source):
        copy = target / path.relative_to(source)
        if path.is_symlink():
            files.link(copy, os.readlink(path))  # noqa: PTH115 - as it stands there
        elif path.is_dir():
            files.make_directory(copy)
        else:
            files.copy(path, copy)
    for folder in (source, *(path for path in walk(source) if path.is_dir() and not path.is_symlink())):
        copy = target / folder.relative_to(source)
        files.adopt(copy, folder)
        files.sync(copy)


def walk(folder: Path) -> Iterator[Path]:
    """Everything below it, parents first, in an order that is always the same; links are not followed."""
    for path in sorted(folder.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from walk(path)


def _line(path: Path, name: bytes) -> bytes:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        kind, what = b"link", os.readlink(os.fsencode(path))  # noqa: PTH115
    elif stat.S_ISDIR(mode):
        kind, what = b"folder", b""
    elif stat.S_ISREG(mode):
        kind, what = b"program" if mode & 0o111 else b"file", digest_of(path).encode()
    else:
        kind, what = b"other", b""
    return b"\0".join((kind, name, what)) + b"\n"
