"""Unpacks layers as a stream: gzip, zstd or plain, told by their first bytes, verified and bounded on the way."""

import hashlib
import zlib
from collections.abc import Callable
from typing import IO, Final, cast

from beehive.errors import Refused
from modules.upgrader.images.tar import Read

CHUNK: Final = 256 * 1024
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE: Final = b"\x2a\x4d\x18"  # with 0x50 to 0x5f before it
_LARGEST_WINDOW: Final = 1 << 27


class Measured:
    """Passes a stream on, and knows the digest and size of what went through."""

    def __init__(self, read: Read, limit: int, what: str, checkpoint: Callable[[], None]) -> None:
        self._read = read
        self._limit = limit
        self._what = what
        self._checkpoint = checkpoint
        self._hash = hashlib.sha256()
        self.size = 0

    def read(self, count: int = CHUNK) -> bytes:
        data = self._read(count)
        self._hash.update(data)
        self.size += len(data)
        if self.size > self._limit:
            raise Refused(f"{self._what} has more than the {self._limit:,} bytes that are allowed.")
        if len(data) > BLOCK_WORTH_ASKING:
            self._checkpoint()
        return data

    def drain(self) -> None:
        """Read what is left, so that the digest is that of the whole stream."""
        while self.read():
            pass

    def check(self, digest: str) -> None:
        found = f"sha256:{self._hash.hexdigest()}"
        if found != digest:
            raise Refused(f"{self._what} has the digest {found}, not {digest} as its image says.")


BLOCK_WORTH_ASKING: Final = 4096
"""Reads up to this size do not ask whether the caller still wants the answer."""


def unpacked(read: Read) -> Read:
    """The stream without its compression."""
    head = read(CHUNK)
    while 0 < len(head) < len(_ZSTD) and (more := read(CHUNK)):
        head += more
    rest = _Pushback(head, read)
    if head.startswith(_GZIP):
        return _Gzip(rest).read
    if head.startswith(_ZSTD) or (head[1:4] == _ZSTD_SKIPPABLE and head[0] & 0xF0 == 0x50):
        return _zstd(rest)
    return rest.read


class _Pushback:
    """A stream whose beginning was looked at."""

    def __init__(self, head: bytes, read: Read) -> None:
        self._head = head
        self._read = read

    def read(self, count: int = CHUNK) -> bytes:
        if not self._head:
            return self._read(count)
        data, self._head = self._head[:count], self._head[count:]
        return data


class _Gzip:
    """One or more gzip members one after the other, as parallel compressors and eStargz write them."""

    def __init__(self, source: _Pushback) -> None:
        self._source = source
        self._member = zlib.decompressobj(wbits=31)
        self._pending = b""

    def read(self, count: int) -> bytes:
        while True:
            data = self._pending or self._source.read()
            if self._member.eof:
                if not data:
                    return b""
                self._member = zlib.decompressobj(wbits=31)
            elif not data:
                return self._last(count)
            output = self._step(data, count)
            if output:
                return output

    def _step(self, data: bytes, count: int) -> bytes:
        try:
            output = self._member.decompress(data, count)
        except zlib.error as error:
            raise Refused(f"A layer of the image is broken gzip: {error}.") from error
        self._pending = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        return output

    def _last(self, count: int) -> bytes:
        output = self._step(b"", count)
        if not output and not self._member.eof:
            raise Refused("A layer of the image is cut off.")
        return output


def _zstd(source: _Pushback) -> Read:
    import zstandard  # noqa: PLC0415 - only for layers that need it

    # A frame that ends early looks like an end: the digest of the unpacked layer, checked at its end, tells.
    decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    stream = decompressor.stream_reader(cast("IO[bytes]", source), read_across_frames=True)

    def read(count: int) -> bytes:
        try:
            return bytes(stream.read(count))
        except zstandard.ZstdError as error:
            raise Refused(f"A layer of the image is broken zstd: {error}.") from error

    return read
