"""A strict reader of tar streams (ustar, GNU, PAX), for layers that a stranger made. Pure.

The standard library's reader keeps every member, reads headers of any length into memory, and takes a broken header for
the end of the archive. This one holds one member at a time, bounds every header, and refuses what two unpackers could
understand differently: a file must not be one thing to us and another to a container runtime.
"""

from collections.abc import Callable, Iterator
from typing import Final, Literal

import msgspec

from beehive.errors import Refused

Read = Callable[[int], bytes]
"""Returns up to n bytes; nothing only at the end."""
Kind = Literal["file", "folder", "symlink", "link", "sparse", "special"]

BLOCK: Final = 512
_ZERO: Final = bytes(BLOCK)
_CHUNK: Final = 256 * 1024
_LONGEST_HEADER: Final = 1024 * 1024
_KINDS: Final[dict[bytes, Kind]] = {
    b"0": "file",
    b"\0": "file",
    b"7": "file",
    b"1": "link",
    b"2": "symlink",
    b"3": "special",
    b"4": "special",
    b"5": "folder",
    b"6": "special",
    b"S": "sparse",
}
_WITHOUT_DATA: Final = (b"1", b"2", b"3", b"4", b"5", b"6")


class Member(msgspec.Struct, frozen=True):
    """One entry of a tar stream, its names as they stand there."""

    name: str
    kind: Kind
    target: str
    """Of a link or symlink."""
    size: int
    """Bytes of data that follow in the stream."""
    executable: bool = False
    """By its owner."""


class _Extras(msgspec.Struct):
    """What the headers before a member say about it."""

    pax: dict[str, str] = {}
    name: str | None = None
    target: str | None = None


class TarReader:
    """Goes through a stream once: iterate over the members, `read` the data of the current one."""

    def __init__(self, read: Read) -> None:
        self._source = read
        self._left = 0
        self._padding = 0

    def __iter__(self) -> Iterator[Member]:
        while (block := self._next_header()) is not None:
            extras = _Extras()
            while (flag := block[156:157]) in (b"x", b"g", b"L", b"K"):
                self._take_extra(flag, self._whole_data(block), extras)
                following = self._next_header()
                if following is None:
                    raise Refused("A layer of the image ends in the middle of an entry.")
                block = following
            yield self._member(block, extras)

    def read(self, count: int = _CHUNK) -> bytes:
        """Up to `count` bytes of the current member; nothing: its end."""
        data = self._source(min(count, self._left)) if self._left else b""
        if self._left and not data:
            raise Refused("A layer of the image is cut off.")
        self._left -= len(data)
        return data

    def _member(self, block: bytes, extras: _Extras) -> Member:
        flag = block[156:157]
        kind = _KINDS.get(flag, "special")
        name = extras.name or extras.pax.get("GNU.sparse.name") or extras.pax.get("path") or _name(block)
        if flag == b"\0" and name.endswith("/"):
            kind = "folder"
        if kind == "file" and any(key.startswith("GNU.sparse.") for key in extras.pax):
            kind = "sparse"
        size = 0 if flag in _WITHOUT_DATA or kind == "folder" else _size(block, extras.pax)
        if flag == b"S":
            self._skip_sparse_map(block)
        self._begin(size)
        target = extras.target or extras.pax.get("linkpath") or _text(block[157:257])
        executable = bool(_number(block[100:108]) & 0o100)
        return Member(name, kind, target if kind in ("link", "symlink") else "", size, executable)

    def _begin(self, size: int) -> None:
        self._left, self._padding = size, -size % BLOCK

    def _next_header(self) -> bytes | None:
        while self.read():
            pass
        self._exactly(self._padding)
        self._begin(0)
        block = self._exactly(BLOCK, may_end=True)
        if not block:
            return None
        if block == _ZERO:
            second = self._exactly(BLOCK, may_end=True)
            if second not in (b"", _ZERO):
                raise Refused("A layer of the image goes on after its end mark.")
            return None
        _check_sum(block)
        return block

    def _exactly(self, count: int, *, may_end: bool = False) -> bytes:
        pieces, left = [], count
        while left and (piece := self._source(left)):
            pieces.append(piece)
            left -= len(piece)
        if left and not (may_end and left == count):
            raise Refused("A layer of the image is cut off.")
        return b"".join(pieces)

    def _whole_data(self, block: bytes) -> bytes:
        size = _number(block[124:136])
        if size > _LONGEST_HEADER:
            raise Refused(f"A layer of the image has a header of {size:,} bytes.")
        self._begin(size)
        pieces = []
        while piece := self.read():
            pieces.append(piece)
        return b"".join(pieces)

    def _take_extra(self, flag: bytes, data: bytes, extras: _Extras) -> None:
        if flag in (b"x", b"g"):
            records = _records(data)
            if flag == b"g" and {"path", "linkpath", "size"} & records.keys():
                raise Refused("A layer of the image gives all its entries one name or size.")
            if flag == b"x" and extras.pax:
                raise Refused("A layer of the image has two headers for one entry.")
            extras.pax = records if flag == b"x" else extras.pax
        elif flag == b"L":
            extras.name = _once(extras.name, data)
        else:
            extras.target = _once(extras.target, data)
        if (extras.name and "path" in extras.pax) or (extras.target and "linkpath" in extras.pax):
            raise Refused("A layer of the image has two names for one entry.")

    def _skip_sparse_map(self, block: bytes) -> None:
        more = block[482:483] not in (b"\0", b"0")
        while more:
            more = self._exactly(BLOCK)[504:505] not in (b"\0", b"0")


def _once(before: str | None, data: bytes) -> str:
    if before is not None:
        raise Refused("A layer of the image has two names for one entry.")
    return _text(data)


def _name(block: bytes) -> str:
    name = _text(block[:100])
    if block[257:263] != b"ustar\0":  # GNU tar keeps times where ustar keeps the prefix
        return name
    prefix = _text(block[345:476] if block[508:512] == b"tar\0" else block[345:500])
    return f"{prefix}/{name}" if prefix else name


def _size(block: bytes, pax: dict[str, str]) -> int:
    size = pax.get("size")
    if size is None:
        return _number(block[124:136])
    if not (size.isascii() and size.isdigit()) or len(size) > 19:
        raise Refused("A layer of the image has an entry of impossible size.")
    return int(size)


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        value = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
        if field[0] & 0x40 or value >= 1 << 63:
            raise Refused("A layer of the image has an entry of impossible size.")
        return value
    digits = field.strip(b" \0")
    if digits.strip(b"01234567"):
        raise Refused("A layer of the image has a header that is no number.")
    return int(digits or b"0", 8)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _check_sum(block: bytes) -> None:
    stated = _number(block[148:156])
    rest = block[:148] + b" " * 8 + block[156:]
    if stated == sum(rest):
        return
    signed = sum(byte - 256 if byte > 127 else byte for byte in rest)  # as some old writers count
    if stated != signed:
        raise Refused("A layer of the image has a broken header, or is no tar archive.")


def _records(data: bytes) -> dict[str, str]:
    """PAX records, `length key=value\\n`; an empty value takes the record back."""
    records: dict[str, str] = {}
    at = 0
    while at < len(data):
        head, space, _ = data[at : at + 20].partition(b" ")
        length = int(head) if head.isdigit() else 0
        key, equals, value = data[at + len(head) + 1 : at + length - 1].partition(b"=")
        if not space or not equals or not key or data[at + length - 1 : at + length] != b"\n":
            raise Refused("A layer of the image has a broken extended header.")
        records[key.decode("utf-8", "surrogateescape")] = _pax_text(value)
        at += length
    return {key: value for key, value in records.items() if value}


def _pax_text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
