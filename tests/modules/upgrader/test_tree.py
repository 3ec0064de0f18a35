"""A program that is a folder behind a symlink, as Beehive itself is: swapped, verified, taken back, whatever is cut."""

import json
import os
from pathlib import Path

import pytest

from beehive.errors import Refused
from beehive.messages.host import Verdict
from modules.upgrader.host.backup import load_backup, make_backup
from modules.upgrader.host.tree import digest_of_tree
from modules.upgrader.tool.attempts import conclude
from modules.upgrader.tool.record import load_record, open_records
from modules.upgrader.tool.recovery import at_boot
from modules.upgrader.tool.work import Tool
from tests.fakes.memory_host import NEW, OLD, TREE, Killed, MemoryHost, lay_tree

GOOD, CRASHING = f"{NEW} good", f"{NEW} crash"
KEY = "6b1f-0"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What a power cut takes of what was not synced is the hosts' tier's to show."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    caplog.set_level("CRITICAL", logger="beehive.tool")


def tree_host(root: Path, new: str = GOOD) -> MemoryHost:
    host = MemoryHost(root, new, target=TREE)
    host.files.directory(host.layout.etc)
    return host


def run(host: MemoryHost) -> Verdict:
    return conclude(host, Tool(host, KEY, load_record(host.layout, KEY) or host.record()))


def linked(host: MemoryHost, link: Path | None) -> str:
    """The version that a link leads to; every part of the folder is of that version."""
    assert link
    version = (link / "edgecore").read_text().split()[0]
    assert {(link / part).read_text() for part in ("lib/part", "lib/deep/part", "lib/same")} == {version}
    return version


def assert_good(host: MemoryHost, verdict: Verdict) -> None:
    """Old-good or new-good, and tools start from what has proved itself."""
    assert verdict.ok, verdict
    there = NEW if verdict.step == "Upgrade" else OLD
    assert (linked(host, host.layout.link), linked(host, host.layout.tool_link), host.memory.running) == (there,) * 3
    assert host.layout.link
    assert not list(host.layout.link.parent.glob(".*"))
    assert not open_records(host.layout)


def test_the_new_folder_is_put_beside_the_old_one_and_the_link_renamed(tmp_path: Path) -> None:
    host = tree_host(tmp_path)
    assert host.layout.link
    assert_good(host, run(host))
    digest = digest_of_tree(host.layout.artefact(NEW)).partition(":")[2]
    assert os.readlink(host.layout.link) == f"{NEW}-{digest[:12]}"
    assert host.disk.steps.count("rename current") == 1
    assert host.disk.steps.index("stop edgecore") > host.disk.steps.index(f"rename {NEW}-{digest[:12]}"), (
        "what takes long is done while the old version still runs"
    )
    assert json.loads(host.layout.report.read_text())["success"]


def test_one_that_crashes_is_taken_back_by_the_link_alone(tmp_path: Path) -> None:
    host = tree_host(tmp_path, CRASHING)
    verdict = run(host)
    assert (verdict.step, verdict.code) == ("RollBack", "RolledBack")
    assert "exited with code 1" in verdict.reason
    assert_good(host, verdict)
    assert host.disk.steps.count("rename current") == 2
    assert host.layout.link
    assert os.readlink(host.layout.link) == "0-installed"


@pytest.mark.parametrize("new", [GOOD, CRASHING])
def test_cut_at_any_step_and_booted_it_ends_whole(tmp_path: Path, new: str) -> None:
    measured = tree_host(tmp_path / "measured", new)
    run(measured)
    steps = len(measured.disk.steps)
    assert steps > 80
    for step in range(0, steps, 2):
        host = tree_host(tmp_path / f"host-{step}", new)
        host.disk.kill_before = len(host.disk.steps) + step
        with pytest.raises(Killed):
            run(host)
        host.memory.running = ""
        at_boot(host)
        assert host.program.digest() in (host.order().old_digest, host.order().new_digest)
        host.memory.boot()
        if load_record(host.layout, KEY):
            assert_good(host, run(host))


def test_a_damaged_installed_folder_is_not_written_to_but_replaced(tmp_path: Path) -> None:
    """Something may run from it: it is never taken away under its feet."""
    host = tree_host(tmp_path)
    make_backup(host.files, host.layout, OLD)
    copy = host.layout.backup(OLD) / "edgecore"
    assert host.layout.link
    for _ in range(2):
        before = os.readlink(host.layout.link)
        (host.layout.link / "lib" / "part").write_text("damage")
        host.program.swap(copy, OLD, like_installed=False)
        assert os.readlink(host.layout.link) != before
        assert host.layout.link.with_name(before).is_dir()
        assert linked(host, host.layout.link) == OLD


@pytest.mark.parametrize("damage", ["content", "more", "less", "mode", "link"])
def test_every_change_in_a_saved_folder_is_noticed(tmp_path: Path, damage: str) -> None:
    host = tree_host(tmp_path)
    make_backup(host.files, host.layout, OLD)
    load_backup(host.layout, OLD)
    lib = host.layout.backup(OLD) / "edgecore" / "lib"
    match damage:
        case "content":
            (lib / "part").write_text("other")
        case "more":
            (lib / "another").write_text("")
        case "less":
            (lib / "part").unlink()
        case "mode":
            (lib.parent / "edgecore").chmod(0o640)
        case _:
            (lib / "same").unlink()
            (lib / "same").symlink_to("deep/part")
    with pytest.raises(Refused, match="is damaged: edgecore has not the digest"):
        load_backup(host.layout, OLD)


def test_modes_and_links_survive_backup_and_restore(tmp_path: Path) -> None:
    host = tree_host(tmp_path)
    assert host.layout.link
    installed = host.layout.link.resolve()
    (installed / "lib" / "deep").chmod(0o701)
    (installed / "lib" / "part").chmod(0o604)
    make_backup(host.files, host.layout, OLD)
    (installed / "edgecore").unlink()
    host.program.swap(host.layout.backup(OLD) / "edgecore", OLD, like_installed=False)
    now = host.layout.link.resolve()
    assert now != installed
    modes = {path: (now / path).lstat().st_mode & 0o777 for path in ("edgecore", "lib/deep", "lib/part")}
    assert modes == {"edgecore": 0o750, "lib/deep": 0o701, "lib/part": 0o604}
    assert os.readlink(now / "lib" / "same") == "part"


def test_folders_of_other_versions_do_not_pile_up(tmp_path: Path) -> None:
    host = tree_host(tmp_path)
    assert host.layout.link
    assert host.layout.tool_link
    trees = host.layout.link.parent
    for number in range(5):
        lay_tree(trees / f"v1.{number}.0-abc", f"v1.{number}.0 good")
        os.utime(trees / f"v1.{number}.0-abc", (number, number))
    (trees / "notes").mkdir()
    assert_good(host, run(host))
    left = {tree.name for tree in trees.iterdir() if not tree.is_symlink()}
    assert left == {host.layout.link.resolve().name, "0-installed", "notes"}, "the last two, and what is not ours"
    assert host.layout.tool_link.resolve() == host.layout.link.resolve()


def test_the_last_proven_version_stays_where_tools_start_from(tmp_path: Path) -> None:
    """A new version that can't even start must not be the one that takes itself back."""
    host = tree_host(tmp_path, CRASHING)
    seen: list[str] = []
    start = host.memory.start

    def spied(service: object) -> None:
        seen.append(linked(host, host.layout.tool_link))
        start(service)  # type: ignore[arg-type]

    host.memory.start = spied  # type: ignore[method-assign]
    run(host)
    assert seen == [OLD, OLD]
