"""The last check before bytes are placed: layers are verified again when they are read for use."""

import hashlib
from pathlib import Path

import pytest

from beehive.errors import Refused
from modules.upgrader.images.request import Limits
from modules.upgrader.images.unpack import Extent, Layer, extract
from tests.modules.upgrader.images.building import KEADM, file, packed, program, tar, tree, wanted

PLAIN = tar(file(KEADM.lstrip("/"), program()))


def layer(folder: Path, stored: bytes, digest: bytes, diff_id: bytes = PLAIN) -> Layer:
    """A layer on disk as `stored`, whose manifest and configuration were made from the other two."""
    place = folder / "layer"
    place.write_bytes(b"before" + stored + b"after")
    names = [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in (digest, diff_id)]
    return Layer(Extent(place, 6, len(stored)), *names)


def test_a_piece_of_a_file_is_read_and_nothing_around_it(tmp_path: Path) -> None:
    one = layer(tmp_path, packed(PLAIN, "+gzip"), packed(PLAIN, "+gzip"))
    placed = extract([one], [wanted(tmp_path / "keadm")], "amd64", Limits(), lambda: None)
    assert (tmp_path / "keadm").read_bytes() == program()
    assert placed[0].sha256 == f"sha256:{hashlib.sha256(program()).hexdigest()}"


@pytest.mark.parametrize("how", ["", "+gzip", "+zstd"])
def test_a_layer_that_changed_after_its_download_is_refused(tmp_path: Path, how: str) -> None:
    """Its unpacked bytes are the same, its packed ones are not: only the packed digest tells."""
    changed = packed(PLAIN, how) if how else packed(PLAIN, "+zstd")
    one = layer(tmp_path, changed, b"what was downloaded")
    before = tree(tmp_path)
    with pytest.raises(Refused, match="has the digest"):
        extract([one], [wanted(tmp_path / "keadm")], "amd64", Limits(), lambda: None)
    assert tree(tmp_path) == before


def test_a_layer_that_changes_between_the_two_readings_is_refused(tmp_path: Path) -> None:
    evil = tar(file(KEADM.lstrip("/"), program(text=b"KEADM")))
    one = layer(tmp_path, PLAIN, PLAIN)
    before = tree(tmp_path)
    reads = iter(range(1, 100))

    def swap() -> None:
        """Called in the first reading, whose bytes are then all in memory."""
        if next(reads) == 2:
            one.extent.file.write_bytes(b"before" + evil + b"after")

    with pytest.raises(Refused, match="has the digest"):
        extract([one], [wanted(tmp_path / "keadm")], "amd64", Limits(), swap)
    assert next(reads) > 3, "the second reading was reached"
    one.extent.file.write_bytes(b"before" + PLAIN + b"after")
    assert tree(tmp_path) == before


def test_an_extent_that_is_shorter_than_said_is_refused(tmp_path: Path) -> None:
    one = layer(tmp_path, PLAIN, PLAIN)
    with one.extent.file.open("r+b") as handle:
        handle.truncate(700)
    with pytest.raises(Refused, match="cut off"):
        extract([one], [wanted(tmp_path / "keadm")], "amd64", Limits(), lambda: None)
