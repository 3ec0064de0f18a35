"""Images from a local layout or archive, and how files come to their places."""

import io
import json
import os
import stat
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from beehive.errors import Refused, Unavailable
from modules.demo.images import Files, write_layout
from modules.upgrader.images import ArchiveSource, Fetched, LayoutSource, Source, WantedFile, fetch, resolve
from modules.upgrader.images import place as place_module
from tests.modules.upgrader.images.building import (
    KEADM,
    REPOSITORY,
    Layout,
    file,
    folder,
    link,
    program,
    request,
    symlink,
    tar,
    tree,
    wanted,
)

NAME = KEADM.lstrip("/")
GOOD = tar(file(NAME, program()))


async def take(tmp_path: Path, source: Source | None = None, *files: WantedFile, **changes: str) -> Fetched:
    chosen = files or (wanted(tmp_path / "out" / "keadm"),)
    return await fetch(
        request(**changes), chosen, [source or LayoutSource(directory=tmp_path / "layout")], tmp_path / "work"
    )


@pytest.mark.parametrize("how", ["", "+gzip", "+zstd"])
async def test_links_and_layers_lead_to_the_file(tmp_path: Path, how: str) -> None:
    """As in a distribution: /bin is a link, the file a link to a versioned one, replaced by a later layer."""
    base = tar(folder("usr/"), folder("usr/bin/"), symlink("bin", "usr/bin"), file("opt/v1/keadm", b"old"))
    middle = tar(file("opt/v2/keadm", program(text=b"v2")), file("opt/.wh.v1"), link("opt/same", "opt/v2/keadm"))
    top = tar(symlink("usr/bin/keadm", "../../opt/v2/keadm"), symlink("opt/latest", "/opt/same"))
    Layout(tmp_path / "layout").add(base, middle, top, how=how)
    done = await take(
        tmp_path,
        None,
        wanted(tmp_path / "a", "/bin/keadm"),
        wanted(tmp_path / "b", "/usr/bin/keadm"),
        wanted(tmp_path / "c", "/opt/latest"),
    )
    assert {(tmp_path / name).read_bytes() for name in "abc"} == {program(text=b"v2")}
    assert done.image.layers == 3
    assert len({placed.sha256 for placed in done.files}) == 1


async def test_only_what_is_wanted_is_written(tmp_path: Path) -> None:
    Layout(tmp_path / "layout").add(tar(file(NAME, program()), file("etc/passwd", b"x"), file("out/keadm", b"x")))
    before = tree(tmp_path)
    await take(tmp_path)
    assert set(tree(tmp_path)) - set(before) == {str(tmp_path / "out"), str(tmp_path / "out" / "keadm")}


async def test_modes_are_ours_and_folders_are_private(tmp_path: Path) -> None:
    evil = file(NAME, program())
    evil.info.mode, evil.info.uid = 0o6777, 4242
    Layout(tmp_path / "layout").add(tar(evil))
    files = [WantedFile(path=KEADM, to=tmp_path / "x" / "y" / "keadm", mode=0o4750)]
    await take(tmp_path, None, *files)
    placed = (tmp_path / "x" / "y" / "keadm").stat()
    assert stat.S_IMODE(placed.st_mode) == 0o750
    assert placed.st_uid == os.getuid()
    assert {stat.S_IMODE((tmp_path / part).stat().st_mode) for part in ("x", "x/y")} == {0o700}


async def test_an_old_file_is_replaced_whole_and_a_link_is_not_followed(tmp_path: Path) -> None:
    Layout(tmp_path / "layout").add(GOOD)
    (tmp_path / "out").mkdir()
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    (tmp_path / "out" / "keadm").symlink_to(precious)
    (tmp_path / "out" / ".keadm.part").symlink_to(precious)
    await take(tmp_path)
    assert precious.read_bytes() == b"precious"
    assert not (tmp_path / "out" / "keadm").is_symlink()
    assert os.listdir(tmp_path / "out") == ["keadm"]


async def test_a_running_program_can_be_replaced(tmp_path: Path) -> None:
    Layout(tmp_path / "layout").add(GOOD)
    (tmp_path / "out").mkdir()
    place = tmp_path / "out" / "keadm"
    place.write_bytes(Path("/bin/sleep").read_bytes())
    place.chmod(0o755)
    with subprocess.Popen([str(place), "60"]) as running:
        await take(tmp_path)
        running.kill()
    assert place.read_bytes() == program()


async def test_a_folder_in_the_way_is_said(tmp_path: Path) -> None:
    Layout(tmp_path / "layout").add(GOOD)
    (tmp_path / "out" / "keadm" / "full").mkdir(parents=True)
    before = tree(tmp_path)
    with pytest.raises(Refused, match=r"out/keadm is a folder; /usr/local/bin/keadm cannot be placed there"):
        await take(tmp_path)
    assert tree(tmp_path) == before


async def test_a_file_in_place_of_a_folder_may_be_moved_away(tmp_path: Path) -> None:
    Layout(tmp_path / "layout").add(GOOD)
    (tmp_path / "out").write_bytes(b"")
    with pytest.raises(Unavailable, match=r"Files of this host cannot be used .*out"):
        await take(tmp_path)


async def test_the_order_of_steps_survives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is synced before the first rename; every folder after the last."""
    Layout(tmp_path / "layout").add(tar(file(NAME, program()), file("edgecore", program())))
    steps: list[str] = []
    real_sync, real_rename = os.fsync, Path.rename

    def sync(handle: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"
        steps.append(f"sync {kind} {Path(os.readlink(f'/proc/self/fd/{handle}')).name}")
        real_sync(handle)

    def rename(source: Path, target: Path) -> Path:
        steps.append(f"rename {target.name}")
        return real_rename(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", rename)
    await take(tmp_path, None, wanted(tmp_path / "out" / "k"), wanted(tmp_path / "out" / "e", "/edgecore"))
    assert steps == [
        f"sync folder {tmp_path.name}", "sync file .k.part", "sync file .e.part", "rename k", "rename e",
        "sync folder out",
    ]  # fmt: skip


@pytest.mark.parametrize("failing", ["write", "fsync", "rename"])
async def test_a_full_disk_leaves_it_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    Layout(tmp_path / "layout").add(GOOD)
    before = tree(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "/some/disk")

    target = {"write": (place_module.Staged, "write"), "fsync": (os, "fsync"), "rename": (Path, "rename")}
    monkeypatch.setattr(*target[failing], full)
    with pytest.raises(Unavailable, match=r"The disk is full \(/some/disk\); make room and try again"):
        await take(tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    [f"{REPOSITORY}:v1.23.0", f"docker.io/{REPOSITORY}:v1.23.0", f"index.docker.io/{REPOSITORY}:v1.23.0", "v1.23.0"],
)
async def test_names_in_a_layout(tmp_path: Path, name: str) -> None:
    layout = Layout(tmp_path / "layout")
    layout.name(layout.index(layout.manifest([GOOD])), name)
    assert (await take(tmp_path)).image.reference == f"docker.io/{REPOSITORY}:v1.23.0"


@pytest.mark.parametrize(
    "name", [f"quay.io/{REPOSITORY}:v1.23.0", "other:v1.23.0", f"{REPOSITORY}:v1.23", "", "../x:v1.23.0"]
)
async def test_other_names_in_a_layout_do_not_count(tmp_path: Path, name: str) -> None:
    layout = Layout(tmp_path / "layout")
    layout.name(layout.index(layout.manifest([GOOD])), name)
    with pytest.raises(Refused, match=f"has no docker.io/{REPOSITORY}:v1.23.0"):
        await take(tmp_path)


async def test_a_full_name_counts_more_than_a_bare_tag(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    layout.name(layout.index(layout.manifest([tar(file(NAME, program(text=b"another")))])), "v1.23.0")
    layout.add(GOOD)
    await take(tmp_path)
    assert (tmp_path / "out" / "keadm").read_bytes() == program()


@pytest.mark.parametrize("which", ["index_digest", "manifest_digest"])
async def test_a_pin_needs_no_name(tmp_path: Path, which: str) -> None:
    layout = Layout(tmp_path / "layout")
    layout.add(GOOD)
    source = LayoutSource(directory=layout.directory)
    pin = str(getattr(await resolve(request(), [source]), which))
    layout._entries.clear()
    layout.write_index()
    assert (await take(tmp_path, pin=pin)).image.manifest_digest is not None


async def test_a_pin_of_another_machines_manifest_is_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    other = layout.manifest([tar(file(NAME, program("arm64")))], "arm64")
    layout.name(layout.index(layout.manifest([GOOD]), other))
    with pytest.raises(Refused, match="is built for linux/arm64; this host is linux/amd64"):
        await take(tmp_path, pin=str(other["digest"]))


async def test_a_layout_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"There is no {tmp_path}/layout/index.json"):
        await take(tmp_path)


def archive_of(layout: Path, place: Path) -> ArchiveSource:
    with tarfile.open(place, "w") as archive:
        archive.add(layout, ".")
    return ArchiveSource(file=place)


async def test_an_oci_archive_is_a_layout_in_a_tar(tmp_path: Path) -> None:
    pin = Layout(tmp_path / "layout").add(GOOD, tar(file("big", bytes(3_000_000))))
    source = archive_of(tmp_path / "layout", tmp_path / "images.tar")
    done = await take(tmp_path, source, pin=pin)
    assert done.image.index_digest == pin
    assert (tmp_path / "out" / "keadm").read_bytes() == program()


def docker_archive(place: Path, layers: list[bytes], **changes: object) -> ArchiveSource:
    """What `docker save` wrote before it wrote layouts; the second and later layers are links, as for equal ones."""
    digests = [f"sha256:{sha256(layer).hexdigest()}" for layer in layers]
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": digests}}
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    saved = {"Config": "config.json", "RepoTags": [f"{REPOSITORY}:v1.23.0"], "Layers": names} | changes
    entries = [file(f"blobs/{number}", layer) for number, layer in enumerate(layers)]
    entries += [symlink(name, f"../blobs/{number}") for number, name in enumerate(names)]
    entries += [file("config.json", json.dumps(config).encode()), file("manifest.json", json.dumps([saved]).encode())]
    place.write_bytes(tar(*entries))
    return ArchiveSource(file=place)


async def test_a_docker_archive(tmp_path: Path) -> None:
    source = docker_archive(tmp_path / "saved.tar", [tar(file(NAME, b"old")), GOOD])
    done = await take(tmp_path, source)
    assert done.image.manifest_digest is None
    assert (tmp_path / "out" / "keadm").read_bytes() == program()
    with pytest.raises(Refused, match="keeps no digest"):
        await take(tmp_path, source, pin="sha256:" + "0" * 64)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"RepoTags": None}, "has no docker.io/kubeedge/installation-package:v1.23.0"),
        ({"RepoTags": ["other:v1.23.0"]}, "has no docker.io/kubeedge/installation-package:v1.23.0"),
        ({"Layers": ["0/layer.tar"]}, "disagree about the number of layers|another number of layers"),
        ({"Layers": ["0/layer.tar", "../../../etc/passwd"]}, "has no '../../../etc/passwd'"),
        ({"Layers": ["1/layer.tar", "0/layer.tar"]}, "has the digest"),
        ({"Config": "gone"}, "has no 'gone'"),
        ({"Config": 5}, "manifest.json of Archive .* cannot be read"),
    ],
)
async def test_broken_docker_archives(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    source = docker_archive(tmp_path / "saved.tar", [tar(file(NAME, program(text=b"old"))), GOOD], **changes)
    before = tree(tmp_path)
    with pytest.raises(Refused, match=reason):
        await take(tmp_path, source)
    assert tree(tmp_path) == before


async def test_archives_that_are_none(tmp_path: Path) -> None:
    place = tmp_path / "images.tar"
    source = ArchiveSource(file=place)
    with pytest.raises(Refused, match=f"There is no {place}"):
        await take(tmp_path, source)
    looping = io.BytesIO(tar(symlink("index.json", "index.json"), file("x", b"y")))
    for content in (b"", b"\x1f\x8b compressed", tar(file("x", b"y")), looping.getvalue()):
        place.write_bytes(content)
        with pytest.raises(Refused, match=r"neither an OCI archive nor|is no tar archive|cut off"):
            await take(tmp_path, source)
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(Refused, match="is not a regular file"):
        await take(tmp_path, source)


async def test_the_demos_writer_makes_the_same_bytes_every_time(tmp_path: Path) -> None:
    keadm = tmp_path / "keadm"
    keadm.write_bytes(program())
    files: Files = {KEADM: (keadm, 0o755), "/usr/local/bin/edgecore": (b"#!/bin/sh\n", 0o755)}
    platforms: dict[str, Files] = {"amd64": files, "arm/v7": {KEADM: (program("arm"), 0o755)}}
    digests = {write_layout(tmp_path / name, REPOSITORY, "v1.23.0", platforms) for name in ("layout", "again")}
    assert len(digests) == 1
    content = [tree(tmp_path / name) for name in ("layout", "again")]
    assert sorted(map(str, content[0].values())) == sorted(map(str, content[1].values()))
    done = await take(tmp_path, pin=digests.pop())
    assert done.image.index_digest is not None
    await take(tmp_path, architecture="arm/v7")
    assert (tmp_path / "out" / "keadm").read_bytes() == program("arm")


async def test_the_demos_writer_keeps_other_images_and_replaces_its_own(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    for tag, text in (("v1.22.0", b"old"), ("v1.23.0", b"first"), ("v1.23.0", b"second")):
        write_layout(layout, REPOSITORY, tag, {"amd64": {KEADM: (program(text=text), 0o755)}})
    for version, text in (("v1.22.0", b"old"), ("v1.23.0", b"second")):
        await take(tmp_path, version=version)
        assert (tmp_path / "out" / "keadm").read_bytes() == program(text=text)


def test_importing_the_client_brings_no_http(tmp_path: Path) -> None:
    """The edge process must start fast and stay small (performance.md)."""
    code = "import sys, modules.upgrader.images; print(sorted({'httpx', 'zstandard'} & set(sys.modules)))"
    root = Path(__file__).parents[4]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_resolving_from_a_layout_brings_no_http_either(tmp_path: Path) -> None:
    Layout(tmp_path / "layout").add(GOOD)
    code = (
        "import sys, anyio; from pathlib import Path; from modules.upgrader.images import *\n"
        f"source = LayoutSource(directory=Path({str(tmp_path / 'layout')!r}))\n"
        "request = ImageRequest(version='v1.23.0', architecture='amd64')\n"
        f"files = [WantedFile(path={KEADM!r}, to=Path({str(tmp_path / 'out')!r}))]\n"
        f"anyio.run(fetch, request, files, [source], Path({str(tmp_path / 'work')!r}))\n"
        "print(sorted({'httpx', 'zstandard'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[4]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
