"""What is upgraded: a program that is one file, or one that is a tree behind a symlink (product.md 6.3)."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from beehive.errors import Refused
from modules.upgrader.host.files import Files, digest_of
from modules.upgrader.host.layout import Layout
from modules.upgrader.host.tree import copy_tree, digest_of_tree, size_of_tree

_DIGITS = 12


class Program(Protocol):
    """The installed program. `source` is always a copy as it lies in a backup or in an upgrade's folder."""

    def digest(self) -> str:
        """Of what is installed; an empty text: nothing that is whole."""

    def digest_of(self, source: Path) -> str:
        """Of a copy; an empty text where there is none."""

    def size(self) -> int:
        """Bytes of what is installed; 0 where nothing is."""

    def save(self, copy: Path) -> int:
        """Copy what is installed into a folder that is not in its place yet; the copy's bytes."""

    def bring(self, source: Path, version: str) -> None:
        """Whatever can be done while the service still runs. May be done again; changes nothing of what runs."""

    def swap(self, source: Path, version: str, *, like_installed: bool) -> None:
        """Put it in the place of what is installed, durably; after an error the old one stands."""

    def trust(self) -> None:
        """What is installed has proved itself: tools are started from it from now on."""

    def sweep(self) -> None:
        """Take away what a cut left beside its place."""

    def forget_others(self, keep: int) -> None:
        """Keep what is installed and the newest others, `keep` in all."""


def program_of(files: Files, layout: Layout) -> Program:
    """By the target's configuration."""
    return TreeProgram(files, layout) if layout.link else FileProgram(files, layout)


class FileProgram:
    """One file: written beside, synced, renamed."""

    def __init__(self, files: Files, layout: Layout) -> None:
        self._files = files
        self._place = _behind(layout.executable, layout.root)

    def digest(self) -> str:
        return digest_of(self._place)

    def digest_of(self, source: Path) -> str:
        return digest_of(source)

    def size(self) -> int:
        return self._place.stat().st_size if self._place.is_file() else 0

    def save(self, copy: Path) -> int:
        self._files.copy(self._place, copy)
        return copy.stat().st_size

    def bring(self, source: Path, version: str) -> None:
        """Nothing: it is written beside its place when it is swapped."""

    def swap(self, source: Path, version: str, *, like_installed: bool) -> None:
        del version
        self._files.install(source, self._place, self._place if like_installed else None)

    def trust(self) -> None:
        """The tool is no part of it."""

    def sweep(self) -> None:
        for left in self._place.parent.glob(f".{self._place.name}.new"):
            self._files.remove(left)

    def forget_others(self, keep: int) -> None:
        """There are none."""


class TreeProgram:
    """A folder `{version}-{digest}` beside others, and a symlink that says which of them is installed."""

    def __init__(self, files: Files, layout: Layout) -> None:
        assert layout.link
        self._files = files
        self._link = layout.link
        self._trees = layout.link.parent
        self._executable = layout.executable.relative_to(layout.link)
        self._tool = layout.tool_link

    def digest(self) -> str:
        installed = self._installed()
        return digest_of_tree(installed) if installed else ""

    def digest_of(self, source: Path) -> str:
        return digest_of_tree(source)

    def size(self) -> int:
        installed = self._installed()
        return size_of_tree(installed) if installed else 0

    def save(self, copy: Path) -> int:
        installed = self._installed()
        assert installed
        copy_tree(self._files, installed, copy)
        return size_of_tree(copy)

    def bring(self, source: Path, version: str) -> None:
        self._brought(source, version)

    def swap(self, source: Path, version: str, *, like_installed: bool) -> None:
        del like_installed  # a tree's modes and owners are its own
        self._point(self._link, self._brought(source, version))

    def trust(self) -> None:
        installed = self._installed()
        if self._tool and installed and self._target_of(self._tool) != installed:
            self._point(self._tool, installed)

    def sweep(self) -> None:
        for left in self._trees.glob(".*.new"):
            if left.is_symlink() or not left.is_dir():
                self._files.remove(left)
            else:
                self._files.remove_tree(left)

    def forget_others(self, keep: int) -> None:
        needed = {one.name for one in (self._installed(), self._target_of(self._tool) if self._tool else None) if one}
        others = sorted((tree for tree in self._whole() if tree.name not in needed), key=_made, reverse=True)
        for tree in others[max(0, keep - len(needed)) :]:
            with contextlib.suppress(OSError):  # the next attempt tries again
                self._remove(tree)

    def _installed(self) -> Path | None:
        """The folder that the symlink names; None: it names none that is here."""
        return self._target_of(self._link)

    def _target_of(self, link: Path) -> Path | None:
        try:
            tree = self._trees / Path(os.readlink(link)).name  # noqa: PTH115 - a name beside it, whatever stands before
        except OSError:
            return None
        return tree if tree.is_dir() and not tree.is_symlink() else None

    def _brought(self, source: Path, version: str) -> Path:
        """The whole tree in a folder of its own beside the installed one; made unless it is there."""
        digest = digest_of_tree(source)
        if not digest:
            raise Refused(f"There is no program at {source}")
        found = next((tree for tree in self._whole() if digest_of_tree(tree) == digest), None)
        if found:
            return found
        name, installed = f"{version}-{digest.partition(':')[2][:_DIGITS]}", self._installed()
        # Whatever runs from a folder is never taken away, damaged or not.
        tree = self._trees / (f"{name}-again" if installed and installed.name == name else name)
        self._copy(source, tree)
        return tree

    def _copy(self, source: Path, tree: Path) -> None:
        beside = tree.with_name(f".{tree.name}.new")
        self._files.remove_tree(beside)
        try:
            copy_tree(self._files, source, beside)
        except OSError:
            with contextlib.suppress(OSError):
                self._files.remove_tree(beside)
            raise
        self._files.remove_tree(tree)
        self._files.rename(beside, tree)
        self._files.sync(self._trees)

    def _point(self, link: Path, tree: Path) -> None:
        beside = link.with_name(f".{link.name}.new")
        self._files.remove(beside)
        self._files.link(beside, tree.name)
        self._files.rename(beside, link)
        self._files.sync(link.parent)

    def _whole(self) -> Iterator[Path]:
        """Folders that hold such a program, finished ones only."""
        for tree in self._trees.glob("[!.]*"):
            if tree.is_dir() and not tree.is_symlink() and (tree / self._executable).is_file():
                yield tree

    def _remove(self, tree: Path) -> None:
        """Out of sight first: half a tree is never there, and the next attempt sweeps what a cut leaves."""
        beside = tree.with_name(f".{tree.name}.new")
        self._files.remove_tree(beside)
        self._files.rename(tree, beside)
        self._files.sync(self._trees)
        self._files.remove_tree(beside)


def _behind(place: Path, root: Path) -> Path:
    """The file itself where its place is a symlink, which stays one; links that leave the root are not followed."""
    real = place.resolve()
    return real if place.is_symlink() and real.is_relative_to(root.resolve()) else place


def _made(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
