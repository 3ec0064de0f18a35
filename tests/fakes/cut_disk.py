"""What a power cut can leave of a disk: a recorder of every change, and every legal state after each of them.

A change of a name is durable when its folder was synced since, a content when the file was. What was not may be there
or not, in any combination, whatever came later; a content may be there by half. That is more than ext4 allows.
"""

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from modules.upgrader.host.files import Files

Content = bytes | str | None
"""Of a file; of a symlink what it names; of a folder None."""
Tree = Mapping[str, tuple[int, Content]]
"""Path below the root → mode and content."""
Name = tuple[int, str]
"""A folder's number, and a name in it."""


class Change(NamedTuple):
    """One change: names that now mean another file (None: nothing), or a content."""

    text: str
    names: Mapping[Name, int | None] = {}
    content: tuple[int, bytes] | None = None


class Cut(NamedTuple):
    """A state that a cut can leave."""

    after: str
    """The last change before it, and what of the unsynced ones was lost."""
    unsynced: int
    tree: Tree


class RecordingFiles(Files):
    """Does everything for real below `root`, and keeps a record of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changes: list[Change] = []
        self._synced: dict[int, int] = {}
        """Number of a change → after how many changes it was durable."""
        self._mode: dict[int, int] = {}
        self._content: dict[int, Content] = {0: None}
        self._names: dict[Name, int] = {}
        for path in sorted(root.rglob("*")):
            number = self._new(path, content_of(path))
            self._names[self._name(path)] = number
        self._first_names, self._first_content = dict(self._names), dict(self._content)

    # ---- the port's steps -----------------------------------------------------------------------------------------

    def write(self, path: Path, data: bytes, mode: int) -> None:
        super().write(path, data, mode)
        self._written(path)

    def copy(self, source: Path, target: Path, like: Path | None = None) -> None:
        super().copy(source, target, like)
        self._written(target)

    def make(self, path: Path, build: Callable[[Path], None]) -> None:
        super().make(path, build)
        self._written(path)

    def rename(self, source: Path, target: Path) -> None:
        number = self._number(source)
        super().rename(source, target)
        self._change(f"rename {source.name} to {target.name}", {self._name(source): None, self._name(target): number})

    def link(self, path: Path, target: str) -> None:
        super().link(path, target)
        self._change(f"link {path.name} to {target}", {self._name(path): self._new(path, target)})

    def adopt(self, path: Path, like: Path) -> None:
        super().adopt(path, like)
        self._mode[self._number(path)] = mode_of(path)

    def give(self, path: Path, user: int, group: int, mode: int) -> None:
        super().give(path, user, group, mode)
        self._mode[self._number(path)] = mode_of(path)

    def remove(self, path: Path) -> None:
        there = path.exists() or path.is_symlink()
        super().remove(path)
        if there:
            self._change(f"remove {path.name}", {self._name(path): None})

    def make_directory(self, path: Path) -> None:
        there = path.exists()
        super().make_directory(path)
        if not there:
            self._change(f"make folder {path.name}", {self._name(path): self._new(path, None)})

    def remove_tree(self, path: Path) -> None:
        gone = sorted(path.rglob("*"), reverse=True)
        gone += [path] if path.exists() else []
        super().remove_tree(path)
        for one in gone:
            self._change(f"remove {one.relative_to(path.parent)}", {self._name(one): None})

    def sync(self, directory: Path) -> None:
        super().sync(directory)
        self._change(f"sync {directory.name}")
        number = self._number(directory)
        for index, change in enumerate(self.changes):
            if any(folder == number for folder, _ in change.names):
                self._durable(index)

    # ---- others ---------------------------------------------------------------------------------------------------

    def _step(self, what: str) -> None:
        """Of a service (`memory_host`)."""
        self._change(what)

    def foreign(self, path: Path) -> None:
        """Somebody else has written this file; its durability is theirs."""
        self._written(path)
        for index in range(len(self.changes) - 3, len(self.changes)):
            self._durable(index)

    # ---- what can be left -----------------------------------------------------------------------------------------

    def cuts(self, most: int = 99) -> Iterator[Cut]:
        """Every state after each change, where no more than `most` changes were not durable; each way once."""
        seen: set[frozenset[tuple[int, str]]] = set()
        for end in range(len(self.changes) + 1):
            open_ones = [one for one in range(end) if self._is_open(one, end)]
            if len(open_ones) > most:
                continue
            ways = [("kept", "lost", "half") if self.changes[one].content else ("kept", "lost") for one in open_ones]
            for fates in itertools.product(*ways):
                fate = dict(zip(open_ones, fates, strict=True))
                way = frozenset((one, fate.get(one, "kept")) for one in range(end) if self._changes_anything(one))
                way = frozenset((one, what) for one, what in way if what != "lost" or self.changes[one].content)
                if way in seen:
                    continue
                seen.add(way)
                lost = [f"{self.changes[one].text} {what}" for one, what in fate.items() if what != "kept"]
                after = self.changes[end - 1].text if end else "nothing"
                yield Cut(f"{end}: {after}; {', '.join(lost)}", len(open_ones), self._state(end, fate))

    def now(self) -> Tree:
        """What the record says that there is."""
        return self._state(len(self.changes), {})

    def _is_open(self, index: int, end: int) -> bool:
        return self._changes_anything(index) and self._synced.get(index, end + 1) > end

    def _changes_anything(self, index: int) -> bool:
        return bool(self.changes[index].names or self.changes[index].content)

    def _state(self, end: int, fate: Mapping[int, str]) -> Tree:
        names, contents = dict(self._first_names), dict(self._first_content)
        for index, change in enumerate(self.changes[:end]):
            kept = fate.get(index, "kept")
            if change.content:
                number, data = change.content
                contents[number] = {"kept": data, "half": data[: len(data) // 2]}.get(kept, b"")
            elif kept == "kept":
                _rename(names, change.names)
        tree: dict[str, tuple[int, Content]] = {}
        self._grow(tree, "", 0, names, contents)
        return tree

    def _grow(self, tree: dict[str, tuple[int, Content]], path: str, folder: int, names: Mapping[Name, int],
              contents: Mapping[int, Content]) -> None:  # fmt: skip
        for (parent, name), number in names.items():
            if parent == folder:
                there = self._content[number]
                content = contents.get(number, b"" if isinstance(there, bytes) else there)
                tree[f"{path}{name}"] = (self._mode[number], content)
                if content is None:
                    self._grow(tree, f"{path}{name}/", number, names, contents)

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _written(self, path: Path) -> None:
        name, data = self._name(path), path.read_bytes()
        if name not in self._names:
            self._change(f"name {path.name}", {name: self._new(path, data)})
        number = self._names[name]
        self._mode[number] = mode_of(path)
        self._change(f"write {path.name}", content=(number, data))
        self._content[number] = data
        self._change(f"sync {path.name}")
        self._durable(len(self.changes) - 2)

    def _change(
        self, text: str, names: Mapping[Name, int | None] | None = None, content: tuple[int, bytes] | None = None
    ) -> None:
        self.changes.append(Change(text, names or {}, content))
        _rename(self._names, names or {})

    def _durable(self, index: int) -> None:
        self._synced.setdefault(index, len(self.changes))

    def _new(self, path: Path, content: Content) -> int:
        number = len(self._content)
        self._content[number] = content
        self._mode[number] = mode_of(path)
        return number

    def _number(self, path: Path) -> int:
        return 0 if path == self.root else self._names[self._name(path)]

    def _name(self, path: Path) -> Name:
        return self._number(path.parent), path.name


def _rename(names: dict[Name, int], changed: Mapping[Name, int | None]) -> None:
    for name, number in changed.items():
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number


def content_of(path: Path) -> Content:
    """As it stands in a tree."""
    if path.is_symlink():
        return str(path.readlink())
    return None if path.is_dir() else path.read_bytes()


def mode_of(path: Path) -> int:
    """As it stands in a tree."""
    return path.lstat().st_mode & 0o7777


def read(root: Path) -> Tree:
    """What lies below a folder."""
    return {str(path.relative_to(root)): (mode_of(path), content_of(path)) for path in root.rglob("*")}


def lay(tree: Tree, root: Path) -> None:
    """Put it there, in place of what is there."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name in sorted(tree):
        mode, content = tree[name]
        path = root / name
        if content is None:
            path.mkdir()
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
            path.chmod(mode)
