"""Takes the wanted files out of layers that lie on this host. Blocking: runs in a thread.

Twice through the layers: first all names, to learn which member is at each wanted path; then the layers that hold one.
Both times the digests of the layer, packed and unpacked, are verified, so that the bytes placed are those checked.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from beehive.errors import Refused
from modules.upgrader.images.decompress import Measured, unpacked
from modules.upgrader.images.layers import Tree
from modules.upgrader.images.place import Staged, Staging
from modules.upgrader.images.request import Limits, PlacedFile, WantedFile
from modules.upgrader.images.tar import Read, TarReader

Checkpoint = Callable[[], None]
"""Raises when the caller does not want the answer any more."""


class Extent(msgspec.Struct, frozen=True):
    """Where the bytes of a blob lie: a whole file, or a piece of an archive."""

    file: Path
    offset: int
    size: int


class Layer(msgspec.Struct, frozen=True):
    """One layer on this host, with the digests that its bytes must have before and after unpacking."""

    extent: Extent
    digest: str
    diff_id: str


def extract(
    layers: Sequence[Layer], files: Sequence[WantedFile], architecture: str, limits: Limits, checkpoint: Checkpoint
) -> tuple[PlacedFile, ...]:
    """Place the wanted files, all or none. Refused: a hostile image, a path that is not there, the wrong machine."""
    tree = Tree(limits)
    left = limits.unpacked
    for layer in layers:
        with _opened(layer, left, checkpoint) as (reader, packed_out):
            tree.apply(reader)
        left -= packed_out.size
    files = _spread(tree, files)
    places = [tree.find(file.path).place for file in files]
    with Staging() as staging:
        wanted: dict[int, dict[int, list[Staged]]] = {}
        for file, (layer_number, member) in zip(files, places, strict=True):
            wanted.setdefault(layer_number, {}).setdefault(member, []).append(staging.add(file))
        for layer_number, members in wanted.items():
            with _opened(layers[layer_number], limits.unpacked, checkpoint) as (reader, _):
                _copy(reader, members)
        return staging.commit(architecture)


def _spread(tree: Tree, files: Sequence[WantedFile]) -> list[WantedFile]:
    """Every wanted file by its own name; in a folder those that are wanted for themselves too are left to that."""
    named = [file for file in files if not file.folder and (not file.optional or tree.has(file.path))]
    places = {file.to for file in named}
    for folder in (file for file in files if file.folder):
        for name in tree.below(folder.path):
            path, to = f"{folder.path}/{name}", folder.to / name
            if to not in places:
                mode = 0o755 if tree.find(path).executable else 0o644
                named.append(WantedFile(path=path, to=to, mode=mode, policy="any"))
    return named


def _copy(reader: TarReader, wanted: dict[int, list[Staged]]) -> None:
    for number, _ in enumerate(reader):
        outputs = wanted.get(number, ())
        while outputs and (data := reader.read()):
            for output in outputs:
                output.write(data)
        for output in outputs:
            output.complete()


@contextmanager
def _opened(layer: Layer, limit: int, checkpoint: Checkpoint) -> Iterator[tuple[TarReader, Measured]]:
    """A layer to read; when the reader has been used up, its digests are checked."""
    with open_extent(layer.extent) as read:
        packed = Measured(read, layer.extent.size, "A layer of the image", checkpoint)
        plain = Measured(unpacked(packed.read), limit, "A layer of the image", checkpoint)
        yield TarReader(plain.read), plain
        plain.drain()
        packed.drain()
        packed.check(layer.digest)
        plain.check(layer.diff_id)


@contextmanager
def open_extent(extent: Extent) -> Iterator[Read]:
    """Open a file, or a piece of it, for reading; never a pipe or a device that would hang or act."""
    handle = os.open(extent.file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Refused(f"{extent.file} is not a regular file.")
        os.lseek(handle, extent.offset, os.SEEK_SET)
        yield _piece(handle, extent.size)
    finally:
        os.close(handle)


def _piece(handle: int, size: int) -> Read:
    left = size

    def read(count: int) -> bytes:
        nonlocal left
        data = os.read(handle, min(count, left)) if left else b""
        left -= len(data)
        return data

    return read
