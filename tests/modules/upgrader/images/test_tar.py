"""The tar reader: agrees with the standard library on good archives, refuses the others."""

import io
import tarfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.errors import Refused
from modules.upgrader.images.tar import BLOCK, TarReader
from tests.modules.upgrader.images.building import Entry, file, folder, header, link, special, symlink, tar

KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.DIRTYPE: "folder",
    tarfile.SYMTYPE: "symlink",
    tarfile.LNKTYPE: "link",
    tarfile.CHRTYPE: "special",
    tarfile.FIFOTYPE: "special",
}
Seen = list[tuple[str, str, str, bytes]]


def slowly(data: bytes, step: int) -> Callable[[int], bytes]:
    """A stream that gives at most `step` bytes at a time."""
    stream = io.BytesIO(data)
    return lambda count: stream.read(min(count, step))


def read(data: bytes, step: int = 1 << 20) -> Seen:
    reader = TarReader(slowly(data, step))
    seen: Seen = []
    for member in reader:
        content = b"".join(iter(reader.read, b""))
        assert len(content) == member.size
        seen.append((member.name, member.kind, member.target, content))
    return seen


def by_standard_library(data: bytes) -> Seen:
    seen: Seen = []
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for info in archive:
            stream = archive.extractfile(info) if info.isreg() else None
            seen.append((info.name, KINDS[info.type], info.linkname, stream.read() if stream else b""))
    return seen


NAME = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=150).map(
    lambda text: text.strip("/") or "x"
)
ENTRY = st.one_of(
    st.builds(file, NAME, st.binary(max_size=1500)),
    st.builds(folder, NAME),
    st.builds(symlink, NAME, NAME),
    st.builds(link, NAME, NAME),
    st.builds(special, NAME, st.sampled_from([tarfile.CHRTYPE, tarfile.FIFOTYPE])),
)


@given(
    st.lists(ENTRY, max_size=6),
    st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
    st.sampled_from([1, 7, 511, 512, 513, 1 << 20]),
)
def test_good_archives_read_as_the_standard_library_reads_them(entries: list[Entry], how: int, step: int) -> None:
    data = tar(*entries, format_=how)
    assert [(n.rstrip("/"), *rest) for n, *rest in read(data, step)] == by_standard_library(data)


def test_ustar_prefixes_are_joined() -> None:
    name = "a" * 90 + "/" + "b" * 90
    data = tar(file(name, b"x"), format_=tarfile.USTAR_FORMAT)
    assert read(data) == [(name, "file", "", b"x")]


def test_an_unread_member_is_passed_over() -> None:
    data = tar(file("a", b"x" * 70_000), file("b", b"y"))
    assert [member.name for member in TarReader(slowly(data, 4096))] == ["a", "b"]


@given(st.binary(max_size=2000))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with_end = [data, tar(file("a", b"x" * 600))[:-BLOCK] + data]
    for one in with_end:
        try:
            read(one)
        except Refused as refused:
            assert refused.reason.startswith("A layer of the image")  # noqa: PT017 - both outcomes are right


@given(st.integers(min_value=1, max_value=2 * BLOCK + 699))
def test_an_archive_cut_inside_an_entry_is_refused(length: int) -> None:
    data = tar(file("a", b"x" * 700))
    assert data[BLOCK : BLOCK + 700] == b"x" * 700
    with pytest.raises(Refused, match="is cut off"):
        read(data[:length] if length % BLOCK else data[: length + 1])


def test_an_archive_without_its_end_mark_is_read() -> None:
    whole = tar(file("a", b"x" * BLOCK))
    assert len(read(whole[: 2 * BLOCK])) == 1
    assert len(read(whole[: 3 * BLOCK])) == 1, "one of the two empty blocks is enough"


def pax(records: bytes, kind: bytes = b"x") -> bytes:
    padded = records + bytes(-len(records) % BLOCK)
    return header("PaxHeader", len(records), kind) + padded


def record(key: str, value: str) -> bytes:
    body = f" {key}={value}\n".encode()
    length = len(body)
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    return str(length).encode() + body


END = bytes(2 * BLOCK)
ONE = header("a", 0)
LONG = header("././@LongLink", 4, b"L") + b"name" + bytes(508)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (ONE[:-400] + b"x" + ONE[-399:] + END, "broken header"),
        (b"PK\x03\x04" + bytes(508) + END, "broken header|no number"),
        (ONE + bytes(BLOCK) + ONE + END, "goes on after its end"),
        (pax(record("path", "b"), b"g") + ONE + END, "all its entries one name"),
        (pax(record("path", "b")) * 2 + ONE + END, "two headers for one entry"),
        (LONG * 2 + ONE + END, "two names for one entry"),
        (LONG + pax(record("path", "b")) + ONE + END, "two names for one entry"),
        (pax(b"9 path=b\n9 pa") + ONE + END, "broken extended header"),
        (pax(b"999 path=b\n") + ONE + END, "broken extended header"),
        (pax(b"0 path=b\n") + ONE + END, "broken extended header"),
        (pax(b"-9 path=b\n") + ONE + END, "broken extended header"),
        (pax(b"9 =aaaaa\n") + ONE + END, "broken extended header"),
        (pax(record("size", "-1")) + ONE + END, "impossible size"),
        (pax(record("size", "9" * 30)) + ONE + END, "impossible size"),
        (pax(record("size", "١")) + ONE + END, "impossible size"),
        (pax(record("size", "10_0")) + ONE + END, "impossible size"),
        (header("PaxHeader", 1 << 40, b"x") + END, "header of 1,099,511,627,776 bytes"),
        (header("././@LongLink", 10 << 20, b"L") + END, "header of 10,485,760 bytes"),
        (pax(record("path", "b")), "in the middle of an entry"),
        (pax(record("path", "b")) + END, "in the middle of an entry"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        read(data)


def test_negative_and_huge_binary_sizes_are_refused() -> None:
    for first in (b"\xff", b"\xc0", b"\xbf"):
        block = bytearray(ONE)
        block[124:136] = first + b"\xff" * 11
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        with pytest.raises(Refused, match="impossible size"):
            read(bytes(block) + END)


def test_a_large_binary_size_is_read() -> None:
    info = tarfile.TarInfo("big")
    info.size = 10 << 30
    reader = TarReader(slowly(info.tobuf(tarfile.GNU_FORMAT), 512))
    assert next(iter(reader)).size == 10 << 30


def test_harmless_extended_headers_change_nothing() -> None:
    data = pax(record("comment", "made by git"), b"g") + pax(record("mtime", "1.5")) + ONE + END
    assert read(data) == [("a", "file", "", b"")]


def test_extended_headers_name_their_entry_only() -> None:
    data = pax(record("path", "long") + record("size", "3")) + ONE + b"abc" + bytes(509) + header("b", 0) + END
    assert read(data) == [("long", "file", "", b"abc"), ("b", "file", "", b"")]


def test_sparse_files_of_both_formats_are_told() -> None:
    new = pax(record("GNU.sparse.major", "1") + record("GNU.sparse.name", "s")) + ONE + END
    assert read(new) == [("s", "sparse", "", b"")]
    block = bytearray(header("old", 5, b"S"))
    block[482] = 1
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    more = bytes(504) + b"\x01" + bytes(7)
    old = bytes(block) + more + bytes(BLOCK) + b"abcde" + bytes(507) + ONE + END
    assert read(old) == [("old", "sparse", "", b"abcde"), ("a", "file", "", b"")]


def test_unknown_kinds_are_passed_over_with_their_data() -> None:
    data = header("vendor", 5, b"Z") + b"abcde" + bytes(507) + ONE + END
    assert [(name, kind) for name, kind, *_ in read(data)] == [("vendor", "special"), ("a", "file")]


def test_links_have_no_data_whatever_their_header_says() -> None:
    block = bytearray(header("l", 512, b"1"))
    assert [name for name, *_ in read(bytes(block) + ONE + END)] == ["l", "a"]
