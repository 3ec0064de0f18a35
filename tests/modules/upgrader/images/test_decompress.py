"""Compressed layers as streams."""

import gzip
import hashlib
import io

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from beehive.errors import Refused
from modules.upgrader.images.decompress import Measured, unpacked
from tests.modules.upgrader.images.test_tar import slowly

TEXT = b"the quick brown fox " * 5000


def unpack(data: bytes, step: int = 1 << 20, count: int = 1 << 16) -> bytes:
    read = unpacked(slowly(data, step))
    pieces = []
    while piece := read(count):
        assert len(piece) <= count
        pieces.append(piece)
    return b"".join(pieces)


def members(data: bytes, cuts: int, pack: object) -> bytes:
    size = max(1, len(data) // cuts)
    return b"".join(pack(data[at : at + size]) for at in range(0, max(1, len(data)), size))  # type: ignore[operator]


@given(
    st.binary(max_size=3000) | st.just(TEXT),
    st.sampled_from([gzip.compress, zstandard.compress]),
    st.integers(1, 4),
    st.sampled_from([1, 3, 1000, 1 << 20]),
    st.sampled_from([1, 512, 1 << 16]),
)
def test_every_compression_gives_back_what_went_in(data: bytes, pack: object, cuts: int, step: int, count: int) -> None:
    if len(data) > 3000:
        step, count = max(step, 1000), max(count, 512)
    assert unpack(members(data, cuts, pack), step, count) == data


@given(st.binary(max_size=100))
def test_what_is_not_compressed_passes_through(data: bytes) -> None:
    plain = b"usr/" + data
    assert unpack(plain, 1, 7) == plain


def test_nothing_is_nothing() -> None:
    assert unpack(b"") == b""


def test_a_skippable_zstd_frame_in_front_is_skipped() -> None:
    assert unpack(b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd" + zstandard.compress(TEXT)) == TEXT


@pytest.mark.parametrize("length", [2, 5, 11, 40, -1, -8])
def test_cut_gzip_is_refused(length: int) -> None:
    with pytest.raises(Refused, match=r"is cut off|broken gzip"):
        unpack(gzip.compress(TEXT)[:length])


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(TEXT) + b"trailing",
        gzip.compress(TEXT) + bytes(512),
        gzip.compress(TEXT)[:-8] + bytes(8),
        b"\x1f\x8b" + bytes(100),
    ],
)
def test_broken_gzip_is_refused(data: bytes) -> None:
    with pytest.raises(Refused, match="broken gzip"):
        unpack(data)


@pytest.mark.parametrize("data", [zstandard.compress(TEXT) + b"trailing", b"\x28\xb5\x2f\xfd" + b"\xff" * 100])
def test_broken_zstd_is_refused(data: bytes) -> None:
    with pytest.raises(Refused, match="broken zstd"):
        unpack(data)


def test_zstd_may_not_take_all_memory() -> None:
    """The frame says that 2 GiB of what went before must be kept to unpack it."""
    parameters = zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True, compression_level=1)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = packer.compress(b"x" * 100_000) + packer.flush()
    with pytest.raises(Refused, match="broken zstd"):
        unpack(data)


def measured(data: bytes, limit: int = 1000) -> Measured:
    return Measured(io.BytesIO(data).read, limit, "The layer", lambda: None)


def test_digest_and_size_are_those_of_what_went_through() -> None:
    stream = measured(b"abc" * 100)
    stream.read(10)
    stream.drain()
    assert stream.size == 300
    stream.check(f"sha256:{hashlib.sha256(b'abc' * 100).hexdigest()}")
    with pytest.raises(Refused, match=r"The layer has the digest sha256:.*, not sha256:0"):
        stream.check("sha256:0")


def test_a_bomb_ends_at_the_limit() -> None:
    bomb = unpacked(io.BytesIO(gzip.compress(bytes(50 << 20))).read)
    stream = Measured(bomb, 1 << 20, "The layer", lambda: None)
    with pytest.raises(Refused, match="more than the 1,048,576 bytes"):
        stream.drain()
    assert stream.size < 2 << 20


def test_whoever_waits_may_stop_it() -> None:
    class StopError(Exception):
        pass

    def stop() -> None:
        raise StopError

    with pytest.raises(StopError):
        Measured(io.BytesIO(bytes(100_000)).read, 1 << 20, "The layer", stop).drain()
