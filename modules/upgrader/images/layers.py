"""Which file is at a path of an image: layers laid over each other, links followed inside the image only. Pure.

OCI image specification, "Image Layer Filesystem Changeset": entries of a layer replace what lies below them, `.wh.NAME`
takes NAME of the layers below away, `.wh..wh..opq` all of a folder. Nothing here has a path of the host.

Where unpackers disagree about what a path means (a name twice in one layer, an entry below a symlink), the place is
*contested*, and a wanted file that depends on it is refused.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, Literal

from beehive.errors import Refused
from modules.upgrader.images.request import Limits
from modules.upgrader.images.tar import Kind, Member

Place = tuple[int, int]
"""Number of the layer, number of the member in it."""
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_MOST_LINKS: Final = 40
_LONGEST_PATH: Final = 4096
_STEPS_PER_ENTRY: Final = 32


class Node:
    """What is at one path, as far as the layers so far say."""

    __slots__ = ("children", "contested", "executable", "kind", "layer", "place", "size", "target")

    def __init__(self, kind: Kind | Literal["missing"], layer: int) -> None:
        self.kind = kind
        self.layer = layer
        """The last layer that names it or something below it."""
        self.place: Place = (0, 0)
        self.size = 0
        self.executable = False
        self.target = ""
        self.contested = ""
        self.children: dict[str, Node] = {}

    def twin(self, layer: int) -> "Node":
        """Another name for the same content."""
        node = Node(self.kind, layer)
        node.place, node.size, node.target, node.contested = self.place, self.size, self.target, self.contested
        node.executable = self.executable
        return node


class Tree:
    """The files of an image. Give it the layers from the lowest up, then `find` in it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._root = Node("folder", -1)
        self._layers = 0
        self._nodes = 0
        self._names = 0
        self._bytes = 0
        self._steps = 0

    def apply(self, members: Iterable[Member]) -> None:
        """Lay one more layer over the others."""
        layer, entries = self._layers, []
        self._layers += 1
        for number, member in enumerate(members):
            parts = self._parts(member)
            *above, last = parts or [""]
            if parts and parts[0].startswith(".wh..wh.") and parts != [_OPAQUE]:
                continue  # bookkeeping of an old storage driver at the top of a layer
            if any(part.startswith(_WHITEOUT) for part in above):
                raise Refused(f"The image has an entry below the removal mark of another: {_shown(member.name)}.")
            if last.startswith(_WHITEOUT):
                self._remove(above, last)
            else:
                entries.append((parts, number, member))
        for parts, number, member in entries:
            self._add(layer, parts, number, member)

    def find(self, path: str) -> Node:
        """The regular file that a program in the image would open at `path`."""
        way = f"{path} in the image"
        node = self._walk(self._root, _split(path), way)
        if node is None:
            raise Refused(f"The image has no {path}.")
        if node.kind == "missing":
            raise Refused(f"{way} is a hard link to {_shown(node.target)}, which is not there.")
        if node.kind != "file":
            what = {"folder": "a folder", "sparse": "a sparse file", "special": "a device, pipe or unknown thing"}
            raise Refused(f"{way} is {what.get(node.kind, node.kind)}, not a regular file.")
        if node.size > self._limits.file:
            raise Refused(f"{way} has {node.size:,} bytes, more than the {self._limits.file:,} that are allowed.")
        return node

    def has(self, path: str) -> bool:
        """Is there anything at `path`, whatever it is?"""
        return self._walk(self._root, _split(path), "") is not None

    def below(self, path: str) -> list[str]:
        """All that lies below a folder and is no folder itself, as paths from there; each is to be found by `find`."""
        way = f"{path} in the image"
        folder = self._walk(self._root, _split(path), way)
        if folder is None or folder.kind != "folder":
            raise Refused(f"The image has no folder {path}.")
        names: list[str] = []
        todo = [("", folder)]
        while todo:
            above, node = todo.pop()
            for name, child in node.children.items():
                if child.kind == "folder" and not child.contested:
                    todo.append((f"{above}{name}/", child))
                else:
                    names.append(f"{above}{name}")
            if len(names) > self._limits.files:
                raise Refused(f"{way} holds more than the {self._limits.files:,} files that are allowed.")
        return sorted(names)

    def _parts(self, member: Member) -> list[str]:
        self._bytes += member.size
        self._names += len(member.name) + len(member.target)
        self._count()
        if self._bytes > self._limits.unpacked:
            raise Refused(f"The image unpacks to more than the {self._limits.unpacked:,} bytes that are allowed.")
        if self._names > self._limits.names:
            raise Refused(f"The names of the image's files have more than {self._limits.names:,} bytes.")
        for text in (member.name, member.target if member.kind == "link" else ""):
            parts = _split(text)
            if ".." in parts or "\0" in text or len(text) > _LONGEST_PATH:
                raise Refused(f"The image has an entry whose name leads elsewhere: {_shown(text)}.")
            if any(part in (".wh.", ".wh..", ".wh...") for part in parts):
                raise Refused(f"The image removes what has no name: {_shown(text)}.")
        return _split(member.name)

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > self._limits.entries:
            raise Refused(f"The image has more than the {self._limits.entries:,} files that are allowed.")

    def _remove(self, above: list[str], mark: str) -> None:
        folder: Node | None = self._root
        for part in above:
            folder = folder.children.get(part) if folder else None
        if folder is not None and folder.kind != "folder":
            folder.contested = f"the image removes something below {_shown('/'.join(above))}, which is no folder"
        elif folder is not None and mark == _OPAQUE:
            folder.children.clear()
        elif folder is not None:
            folder.children.pop(mark.removeprefix(_WHITEOUT), None)

    def _add(self, layer: int, parts: list[str], number: int, member: Member) -> None:
        if not parts:
            if member.kind != "folder":
                raise Refused("The image puts something in the place of its root folder.")
            return
        folder = self._folder(parts[:-1], layer)
        if folder is None:
            self._contest(parts, layer)
            return
        before = folder.children.get(parts[-1])
        if member.kind == "folder" and before is not None and before.kind == "folder":
            before.layer = layer
            return
        node = self._node(layer, number, member)
        if before is not None and before.layer == layer:
            node.contested = f"{_shown(member.name)} is there twice in one layer"
        folder.children[parts[-1]] = node

    def _node(self, layer: int, number: int, member: Member) -> Node:
        if member.kind == "link":
            named = self._walk(self._root, _split(member.target), "", last=False)
            if named is not None and named.kind != "folder":
                return named.twin(layer)
            node = Node("missing", layer)
        else:
            node = Node(member.kind, layer)
        node.place, node.size, node.target = (layer, number), member.size, member.target
        node.executable = member.executable
        return node

    def _folder(self, parts: list[str], layer: int) -> Node | None:
        """The folder at `parts`, made where it is missing; None if something else is on the way."""
        node = self._root
        for part in parts:
            below = node.children.get(part)
            if below is None:
                self._count()
                below = node.children[part] = Node("folder", layer)
            if below.kind != "folder":
                return None
            below.layer = layer
            node = below
        return node

    def _contest(self, parts: list[str], layer: int) -> None:
        """An entry lies below something that is no folder: one unpacker follows it, another replaces it."""
        node, depth = self._root, 0
        while (below := node.children.get(parts[depth])) and below.kind == "folder":
            node, depth = below, depth + 1
        link = node.children[parts[depth]]
        link.contested = (
            f"the image puts {_shown('/'.join(parts))} below {_shown('/'.join(parts[: depth + 1]))}, no folder"
        )
        followed = self._walk(self._root, parts[:-1], "")
        if followed is not None and followed.kind == "folder":
            self._count()
            ghost = Node("missing", layer)
            ghost.contested = link.contested
            followed.children[parts[-1]] = ghost

    def _walk(self, start: Node, parts: list[str], way: str, *, last: bool = True) -> Node | None:
        """Follow a path as the kernel would with the image as its root. With `way`: refuse contested places."""
        stack, todo, links = [start], deque(parts), 0
        while todo:
            part = todo.popleft()
            self._steps += 1
            if self._steps > _STEPS_PER_ENTRY * self._limits.entries:
                raise Refused("The image's links lead through too many folders.")
            if stack[-1].kind != "folder":
                return None
            if part == "..":
                del stack[max(1, len(stack) - 1) :]
                continue
            node = stack[-1].children.get(part)
            if node is None:
                return None
            if node.contested and way:
                raise Refused(f"{way} cannot be told for certain: {node.contested}.")
            if node.kind != "symlink" or (not todo and not last):
                stack.append(node)
                continue
            links += 1
            if links > _MOST_LINKS or not node.target or len(node.target) > _LONGEST_PATH:
                if not way:
                    return None
                raise Refused(f"{way} leads through too many links, or an empty one.")
            stack = [start] if node.target.startswith("/") else stack
            todo.extendleft(reversed(_split(node.target)))
        return stack[-1]


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _shown(name: str) -> str:
    return ascii(name if len(name) <= 120 else f"{name[:117]}…")
