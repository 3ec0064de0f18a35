"""Images made to harm the host, or just broken: refused with a sentence, nothing written, the disk as before."""

import gzip
import json
import os
import re
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from beehive.errors import Refused
from modules.upgrader.images import LayoutSource, Limits, RegistrySource, WantedFile, fetch
from tests.modules.upgrader.images.building import (
    CONFIG,
    INDEX,
    KEADM,
    LAYER,
    MANIFEST,
    Layout,
    file,
    folder,
    header,
    link,
    program,
    request,
    special,
    symlink,
    tar,
    tree,
    wanted,
)

GOOD = file(KEADM.lstrip("/"), program())
NAME = KEADM.lstrip("/")
END = bytes(1024)


async def refusal(tmp_path: Path, limits: Limits | None = None, **changes: str) -> str:
    """Why the image in `layout` is refused; fails unless the disk is as before."""
    host = tmp_path / "host"
    (host / "bin").mkdir(parents=True, exist_ok=True)
    (host / "bin" / "keadm").write_bytes(b"the old one")
    before = tree(tmp_path)
    files = [wanted(host / "bin" / "keadm"), wanted(host / "new" / "deep" / "other")]
    with pytest.raises(Refused) as caught:
        await fetch(
            request(**changes), files, [LayoutSource(directory=tmp_path / "layout")], tmp_path / "work",
            limits=limits or Limits(),
        )  # fmt: skip
    assert tree(tmp_path) == before
    assert "\n" not in caught.value.reason
    assert len(caught.value.reason) < 500
    return caught.value.reason


def cut(layer: bytes) -> bytes:
    return layer[:4000]


LAYERS: list[tuple[str, list[bytes], str]] = [
    ("traversal", [tar(GOOD, file("../../../../etc/cron.d/x", b"x"))], "leads elsewhere"),
    ("absolute traversal", [tar(GOOD, file("/../etc/x", b"x"))], "leads elsewhere"),
    ("hard link to the host", [tar(link(NAME, "../../../etc/shadow"))], "leads elsewhere"),
    ("hard link to nothing", [tar(link(NAME, "/etc/shadow"))], "hard link to '/etc/shadow', which is not there"),
    ("symlink to the host", [tar(symlink(NAME, "/etc/passwd"))], "has no /usr/local/bin/keadm"),
    ("symlink above the root", [tar(symlink(NAME, "../" * 30 + "etc/passwd"))], "has no /usr/local/bin/keadm"),
    ("folder is a symlink to the host", [tar(symlink("usr", "/proc/self/root/bin"), GOOD)], "cannot be told"),
    ("symlink loop", [tar(symlink("usr", "usr"))], "too many links"),
    ("device", [tar(special(NAME, tarfile.CHRTYPE))], "is a device"),
    ("pipe", [tar(special(NAME, tarfile.FIFOTYPE))], "is a device, pipe"),
    ("device by hard link", [tar(special("d", tarfile.BLKTYPE), link(NAME, "d"))], "is a device"),
    ("folder", [tar(folder(NAME))], "is a folder"),
    ("twice", [tar(GOOD, file(NAME, program(text=b"evil")))], "is there twice in one layer"),
    ("sparse giant", [header(NAME, 0, b"S") + END], "is a sparse file"),
    ("giant", [header("big", 10 << 30) + END], "unpacks to more than"),
    ("giant in place of the file", [header(NAME, 3 << 30) + END], "cut off"),
    ("cut in the data", [cut(tar(file(NAME, program(text=bytes(9000)))))], "cut off"),
    ("cut in the header", [tar(GOOD)[:300]], "cut off"),
    ("no tar", [b"#!/bin/sh\nrm -rf /\n" * 100], "broken header|no number"),
    ("removed", [tar(GOOD), tar(file("usr/local/bin/.wh.keadm"))], "has no /usr/local/bin/keadm"),
    ("removed folder", [tar(GOOD), tar(file("usr/.wh..wh..opq"))], "has no /usr/local/bin/keadm"),
    ("script", [tar(file(NAME, b"#!/bin/sh\nexec /bin/real-keadm\n"))], "is not an ELF executable"),
    ("empty", [tar(file(NAME))], "is not an ELF executable"),
    ("other machine", [tar(file(NAME, program("arm64")))], "is built for arm64, this host is amd64"),
    ("object file", [tar(file(NAME, program(kind=1)))], "is not an ELF executable"),
    ("no layers at all", [], "has no /usr/local/bin/keadm"),
]


@pytest.mark.parametrize("how", ["", "+gzip", "+zstd"])
@pytest.mark.parametrize(("layers", "reason"), [case[1:] for case in LAYERS], ids=[case[0] for case in LAYERS])
async def test_hostile_layers(tmp_path: Path, layers: list[bytes], reason: str, how: str) -> None:
    Layout(tmp_path / "layout").add(*layers, how=how)
    said = await refusal(tmp_path)
    assert re.search(reason, said), said


async def test_a_hundred_thousand_entries_are_refused_quickly(tmp_path: Path) -> None:
    entries = b"".join(header(f"f{number}", 0) for number in range(100)) * 1000
    Layout(tmp_path / "layout").add(tar(GOOD, format_=tarfile.GNU_FORMAT)[:1024] + entries + END)
    start = time.monotonic()
    assert "more than the 65,536 files" in await refusal(tmp_path)
    assert time.monotonic() - start < 10


async def test_a_bomb_is_refused_by_what_it_unpacks_to(tmp_path: Path) -> None:
    plain = tar(GOOD) + bytes(64 << 20)
    layout = Layout(tmp_path / "layout")
    layout.name(layout.index(layout.manifest([plain])))
    said = await refusal(tmp_path, Limits(unpacked=1 << 20))
    assert "has more than the 1,048,576 bytes" in said


async def test_a_wanted_file_that_is_too_large(tmp_path: Path) -> None:
    Layout(tmp_path / "layout").add(tar(file(NAME, program(text=bytes(5000)))))
    assert "has 5,020 bytes, more than the 4,096" in await refusal(tmp_path, Limits(file=4096))


Damage = Callable[[Layout], None]


def _descriptor(layout: Layout, **changes: object) -> None:
    """An image whose layer descriptor is changed; the rest is right."""
    good = layout.manifest([tar(GOOD)])
    document = json.loads(layout.path(good["digest"]).read_bytes())
    document["layers"][0] |= changes
    layout.name(layout.index(layout.json(MANIFEST, document) | {"platform": good["platform"]}))


def wrong_bytes(layout: Layout) -> None:
    _descriptor(layout)
    for path in layout.directory.glob("blobs/sha256/*"):
        if path.read_bytes()[:2] == b"\x1f\x8b":
            path.write_bytes(path.read_bytes()[:-9] + b"\0" + path.read_bytes()[-8:])


def wrong_size(layout: Layout) -> None:
    _descriptor(layout, size=5)


def short_blob(layout: Layout) -> None:
    _descriptor(layout)
    for path in layout.directory.glob("blobs/sha256/*"):
        if path.read_bytes()[:2] == b"\x1f\x8b":
            path.write_bytes(path.read_bytes()[:-5])


def missing_blob(layout: Layout) -> None:
    _descriptor(layout, digest="sha256:" + "0" * 64)


def path_for_digest(layout: Layout) -> None:
    _descriptor(layout, digest="sha256:../../../../etc/passwd")


def negative_size(layout: Layout) -> None:
    _descriptor(layout, size=-1)


def foreign_layer(layout: Layout) -> None:
    _descriptor(layout, mediaType="application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", urls=["http://h/"])


def encrypted_layer(layout: Layout) -> None:
    _descriptor(layout, mediaType=LAYER + "+gzip+encrypted")


def pipe_for_blob(layout: Layout) -> None:
    _descriptor(layout)
    for path in layout.directory.glob("blobs/sha256/*"):
        if path.read_bytes()[:2] == b"\x1f\x8b":
            path.unlink()
            os.mkfifo(path)


def huge_image(layout: Layout) -> None:
    _descriptor(layout, size=3 << 30)


def many_layers(layout: Layout) -> None:
    layout.name(layout.index(layout.manifest([tar(GOOD)] * 129)))


def wrong_diff_id(layout: Layout) -> None:
    config = {"rootfs": {"type": "layers", "diff_ids": ["sha256:" + "1" * 64]}}
    layout.name(layout.index(layout.manifest([tar(GOOD)], config=config)))


def fewer_diff_ids(layout: Layout) -> None:
    layout.name(layout.index(layout.manifest([tar(GOOD)], config={"rootfs": {"diff_ids": []}})))


def not_a_digest(layout: Layout) -> None:
    layout.name(layout.index(layout.manifest([tar(GOOD)], config={"rootfs": {"diff_ids": ["../x"]}})))


def truncated_gzip_as_made(layout: Layout) -> None:
    plain = tar(GOOD)
    good = layout.manifest([plain])
    document = json.loads(layout.path(good["digest"]).read_bytes())
    document["layers"] = [layout.blob(LAYER + "+gzip", gzip.compress(plain)[:-4])]
    layout.name(layout.index(layout.json(MANIFEST, document) | {"platform": good["platform"]}))


def wrong_architecture_in_config(layout: Layout) -> None:
    layout.name(layout.index(layout.manifest([tar(GOOD)], config={"architecture": "arm64"})))


def wrong_system_in_config(layout: Layout) -> None:
    layout.name(layout.index(layout.manifest([tar(GOOD)], config={"os": "windows"})))


def wrong_architecture_in_index(layout: Layout) -> None:
    layout.name(layout.index(layout.manifest([tar(GOOD)], "arm64"), layout.manifest([tar(GOOD)], "arm/v7")))


def single_manifest_of_another_machine(layout: Layout) -> None:
    layout.name(layout.manifest([tar(GOOD)], "arm64"))


def only_windows(layout: Layout) -> None:
    layout.name(layout.index(layout.manifest([tar(GOOD)]) | {"platform": {"architecture": "amd64", "os": "windows"}}))


def empty_index(layout: Layout) -> None:
    layout.name(layout.index())


def index_that_is_a_manifest_too(layout: Layout) -> None:
    entry = layout.manifest([tar(GOOD)], manifests=[])
    layout.name(entry)


def manifest_called_an_index(layout: Layout) -> None:
    layout.name(layout.manifest([tar(GOOD)]) | {"mediaType": INDEX})


def schema_one(layout: Layout) -> None:
    layout.name(layout.json(MANIFEST, {"schemaVersion": 1, "name": "x", "fsLayers": []}))


def artefact(layout: Layout) -> None:
    kind = "application/vnd.cncf.helm.config.v1+json"
    document = {"schemaVersion": 2, "config": layout.json(kind, {}), "layers": []}
    layout.name(layout.json(MANIFEST, document))


def no_json(layout: Layout) -> None:
    layout.name(layout.blob(MANIFEST, b"\xff\xfe{"))


def deep_json(layout: Layout) -> None:
    layout.name(layout.blob(MANIFEST, b'{"layers":' + b"[" * 100_000))


def bad_config(layout: Layout) -> None:
    document = {"schemaVersion": 2, "config": layout.blob(CONFIG, b"[]"), "layers": []}
    layout.name(layout.json(MANIFEST, document))


def damaged_manifest(layout: Layout) -> None:
    digest = layout.name(layout.manifest([tar(GOOD)]))
    layout.path(digest).write_bytes(
        layout.path(digest).read_bytes().replace(b'"schemaVersion": 2', b'"schemaVersion":  2')
    )


def changed_manifest_below_the_index(layout: Layout) -> None:
    entry = layout.manifest([tar(GOOD)])
    layout.name(layout.index(entry))
    body = layout.path(entry["digest"]).read_bytes()
    layout.path(entry["digest"]).write_bytes(body.replace(b"2,", b"3,", 1))


def index_without_end(layout: Layout) -> None:
    entry = layout.index()
    for _ in range(5):
        entry = layout.index(entry | {"platform": {"architecture": "amd64", "os": "linux"}})
    layout.name(entry)


def huge_index(layout: Layout) -> None:
    layout.add(tar(GOOD))
    with (layout.directory / "index.json").open("ab") as index:
        index.truncate(5 << 20)


def two_of_one_name(layout: Layout) -> None:
    layout.add(tar(GOOD))
    layout.add(tar(GOOD, file("other")))


DAMAGES: list[tuple[Damage, str]] = [
    (wrong_bytes, "has the digest sha256:.*, not sha256:"),
    (wrong_size, "holds .* bytes where the manifest names 5"),
    (short_blob, "bytes where the manifest names"),
    (missing_blob, "There is no .*/blobs/sha256/000"),
    (path_for_digest, "is not a digest"),
    (negative_size, "size below zero"),
    (foreign_layer, "which cannot be read here"),
    (encrypted_layer, "which cannot be read here"),
    (pipe_for_blob, "bytes where the manifest names|not a regular file"),
    (huge_image, "more than the 2,147,483,648 that are allowed"),
    (many_layers, "has 129 layers"),
    (wrong_diff_id, "not sha256:1111"),
    (fewer_diff_ids, "disagree about the number of layers"),
    (not_a_digest, "is not a digest"),
    (truncated_gzip_as_made, "cut off"),
    (wrong_architecture_in_config, "says that it is built for linux/arm64; this host is linux/amd64"),
    (wrong_system_in_config, "says that it is built for windows/amd64"),
    (wrong_architecture_in_index, "not built for amd64, only for arm/v7, arm64/v8"),
    (single_manifest_of_another_machine, "says that it is built for linux/arm64"),
    (only_windows, "not built for amd64, only for no platform at all"),
    (empty_index, "not built for amd64, only for no platform at all"),
    (index_that_is_a_manifest_too, "neither an index nor a manifest, or both"),
    (manifest_called_an_index, "is not what its media type says"),
    (schema_one, "in Docker's schema 1"),
    (artefact, "not a container image but an artefact of type 'application/vnd.cncf.helm"),
    (no_json, "manifest cannot be read"),
    (deep_json, "manifest cannot be read"),
    (bad_config, "configuration cannot be read"),
    (damaged_manifest, "bytes where the manifest names"),
    (changed_manifest_below_the_index, "is not the one its index names"),
    (index_without_end, "from one index to the next without end"),
    (huge_index, "at most 4,194,304 are allowed"),
    (two_of_one_name, "several images under the name"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
async def test_damaged_images(tmp_path: Path, damage: Damage, reason: str) -> None:
    damage(Layout(tmp_path / "layout"))
    said = await refusal(tmp_path)
    assert re.search(reason, said), said


async def test_one_good_file_is_not_placed_when_another_is_bad(tmp_path: Path) -> None:
    Layout(tmp_path / "layout").add(tar(GOOD, file("bin/script", b"#!/bin/sh\n")))
    before = tree(tmp_path)
    files = [wanted(tmp_path / "a" / "keadm"), wanted(tmp_path / "b" / "script", "/bin/script")]
    with pytest.raises(Refused, match="/bin/script in the image is not an ELF"):
        await fetch(request(), files, [LayoutSource(directory=tmp_path / "layout")], tmp_path / "work")
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ([], "No file is wanted"),
        ([wanted(Path("relative/keadm"))], "not an absolute path"),
        ([wanted(Path("/x/../keadm"))], "not an absolute path"),
        ([wanted(Path("/x/keadm")), wanted(Path("/x/keadm"), "/other")], "is named twice"),
    ],
)
async def test_impossible_orders_are_refused_before_anything_is_read(
    tmp_path: Path, files: list[WantedFile], reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        await fetch(request(), files, [LayoutSource(directory=tmp_path / "none")], tmp_path / "work")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": "latest"}, "is not a version"),
        ({"image": "../x"}, "is not the name of an image"),
        ({"pin": "sha256:12"}, "is not a digest"),
    ],
)
async def test_impossible_requests_are_refused(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        await fetch(
            request(**changes), [wanted(tmp_path / "x")], [LayoutSource(directory=tmp_path / "none")], tmp_path / "work"
        )


async def test_a_host_without_sources_says_so(tmp_path: Path) -> None:
    mirror = RegistrySource(host="mirror.example", mirrors="quay.io")
    for sources in ([], [mirror]):
        with pytest.raises(Refused, match=r"no source for images of docker.io; list one under images.sources"):
            await fetch(request(), [wanted(tmp_path / "x")], sources, tmp_path / "work")
