"""The whole way of a folder: out of an image, verified, swapped, taken back, by the tool's own command line."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.errors import Refused
from modules.upgrader import artefact
from modules.upgrader.config import Target
from modules.upgrader.tool import main
from tests.fakes.edge_host import IMAGE, NEW, OLD, EdgeHost, program
from tests.real.running.images import Files

FOLDER = "/usr/local/lib/edgecore/package"
TARGET = Target(
    format="any",
    start=("{executable}", "--config", "{config}", "{database}"),
    link="/usr/local/lib/edgecore/current",
    tool_link="/usr/local/lib/edgecore/tool",
    executable="/usr/local/lib/edgecore/current/bin/edgecore",
    image_path=FOLDER,
)
REST: Files = {f"{FOLDER}/lib/part": b"part", f"{FOLDER}/lib/empty": b"", f"{FOLDER}2/other": b"not wanted"}


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[EdgeHost]:
    host = EdgeHost(tmp_path / "host", target=TARGET)
    host.start()
    yield host
    host.end()


def offer(edge: EdgeHost, content: bytes, *more: Files) -> None:
    edge.images.add(NEW, [{**REST, f"{FOLDER}/bin/edgecore": content, "/usr/local/bin/keadm": b"#!/bin/sh\n"}, *more])


def keadm(edge: EdgeHost, *arguments: str) -> int:
    settings = edge.root / "edge.yaml"
    target = {
        "format": "any",
        "start": TARGET.start,
        "link": TARGET.link,
        "toolLink": TARGET.tool_link,
        "executable": TARGET.executable,
        "imagePath": TARGET.image_path,
    }
    images = {"layout": str(edge.images.folder), "registry": False}
    section = {"root": str(edge.root), "serviceManager": "process", "soak": "100ms", "stopTimeout": "2s"}
    settings.write_text(json.dumps({"upgrader": {**section, "target": target, "images": images}}))
    return main([*arguments, "--settings", str(settings)])


def test_a_person_upgrades_and_goes_back(edge: EdgeHost) -> None:
    offer(edge, program(NEW))
    link = edge.layout.link
    assert link
    before = os.readlink(link)
    assert keadm(edge, "upgrade", "edge", "--toVersion", NEW, "--force") == 0
    assert edge.runs() == NEW
    assert os.readlink(link) != before
    assert (link / "lib" / "part").read_bytes() == b"part"
    modes = {path: (link / path).stat().st_mode & 0o777 for path in ("bin", "bin/edgecore", "lib", "lib/empty")}
    assert modes == {"bin": 0o755, "bin/edgecore": 0o755, "lib": 0o755, "lib/empty": 0o755}
    assert not (link / "other").exists()
    assert keadm(edge, "rollback", "edge") == 0
    assert edge.runs() == OLD
    assert os.readlink(link) == before
    assert edge.starts() == [OLD, NEW, OLD]


def test_a_crashing_version_is_taken_back(edge: EdgeHost, capsys: pytest.CaptureFixture[str]) -> None:
    offer(edge, program(NEW, suits="9"))
    assert keadm(edge, "upgrade", "edge", "--toVersion", NEW, "--force") == 1
    assert "cannot open database: schema 7" in capsys.readouterr().err
    assert (edge.runs(), edge.starts()) == (OLD, [OLD, NEW, OLD])


def test_another_image_of_the_same_version_leaves_nothing_of_the_first(edge: EdgeHost) -> None:
    request = artefact.image_request(IMAGE, NEW, None)
    offer(edge, program(NEW), {f"{FOLDER}/stale": b"of the first"})
    first = asyncio.run(artefact.bring(edge.host, request))
    offer(edge, program(NEW))
    second = asyncio.run(artefact.bring(edge.host, request))
    assert first.program != second.program
    assert not (edge.layout.artefact(NEW) / "stale").exists()
    assert artefact.load_extracted(edge.layout, NEW) == second
    (edge.layout.artefact(NEW) / "lib" / "part").write_bytes(b"damage")
    assert artefact.load_extracted(edge.layout, NEW) is None


def test_it_can_be_entered_by_who_is_asked_for_its_version(edge: EdgeHost) -> None:
    offer(edge, program(NEW))
    asyncio.run(artefact.bring(edge.host, artefact.image_request(IMAGE, NEW, None)))
    folder = edge.layout.artefact(NEW)
    assert {path.stat().st_mode & 0o777 for path in (folder, folder / "bin", folder / "lib")} == {0o755}
    assert {path.stat().st_mode & 0o777 for path in (folder.parent, folder.parent.parent)} == {0o711}


@pytest.mark.parametrize(
    ("layer", "problem"),
    [
        ({f"{FOLDER}/lib/.wh.part": b"", f"{FOLDER}/lib/part/below": b""}, ""),
        ({"/usr/local/lib/edgecore/.wh.package": b""}, "no folder"),
        ({f"{FOLDER}/.wh.bin": b""}, "The image has no"),
    ],
)
def test_layers_count_as_for_a_file(edge: EdgeHost, layer: Files, problem: str) -> None:
    offer(edge, program(NEW), layer)
    bring = artefact.bring(edge.host, artefact.image_request(IMAGE, NEW, None))
    if problem:
        with pytest.raises(Refused, match=problem):
            asyncio.run(bring)
        assert not edge.layout.artefact(NEW).exists()
        return
    asyncio.run(bring)
    assert (edge.layout.artefact(NEW) / "lib" / "part" / "below").is_file()
