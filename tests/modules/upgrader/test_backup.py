"""Backups: complete or absent, and never of a damaged database."""

import sqlite3
from pathlib import Path

import pytest

from beehive.errors import Refused
from modules.upgrader.config import Config
from modules.upgrader.host.backup import backup_digests, load_backup, make_backup, size_of_installed
from modules.upgrader.host.database import restore_database
from modules.upgrader.host.files import Files, digest_of
from modules.upgrader.host.layout import Layout
from tests.fakes.memory_host import KillableFiles, Killed

VERSION = "v1.22.0"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(Config(root=str(tmp_path / "host")))
    assert made.config
    assert made.database
    for path in (made.executable, made.config, made.database):
        path.parent.mkdir(parents=True, exist_ok=True)
    made.executable.write_bytes(b"#!/bin/sh\n")
    made.executable.chmod(0o755)
    made.config.write_text("modules: {}\n")
    return made


def rows(path: Path) -> list[tuple[str]]:
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT value FROM meta_v2 ORDER BY value").fetchall()
    connection.close()
    return found


def write_rows(path: Path, *values: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS meta_v2 (value text)")
    connection.executemany("INSERT INTO meta_v2 VALUES (?)", [(value,) for value in values])
    return connection


def test_a_live_database_is_saved_with_what_is_only_in_its_log(layout: Layout) -> None:
    assert layout.database
    writer = write_rows(layout.database, "one", "two")
    assert layout.database.with_name("edgecore.db-wal").stat().st_size > 0
    backup = make_backup(Files(), layout, VERSION)
    writer.close()
    assert rows(layout.backup(VERSION) / "edgecore.db") == [("one",), ("two",)]
    assert {file.role for file in backup.files if file.name} == {"executable", "config", "database"}
    assert load_backup(layout, VERSION) == backup
    assert sorted(path.name for path in layout.backup(VERSION).iterdir()) == [
        "edgecore",
        "edgecore.db",
        "edgecore.yaml",
        "manifest.json",
    ]
    assert layout.backup(VERSION).stat().st_mode & 0o777 == 0o700
    assert backup_digests(layout) == {digest_of(layout.executable)}
    assert size_of_installed(layout) > 10


def test_a_damaged_database_is_refused_and_leaves_no_backup(layout: Layout) -> None:
    assert layout.database
    write_rows(layout.database, *("x" * 500 for _ in range(200))).close()
    content = bytearray(layout.database.read_bytes())
    content[4096 : 4096 * 8] = bytes(4096 * 7)
    layout.database.write_bytes(content)
    with pytest.raises(Refused, match=r"damaged|cannot be copied"):
        make_backup(Files(), layout, VERSION)
    assert list(layout.backups.iterdir()) == []


def test_a_restored_database_is_not_mixed_with_another_ones_log(layout: Layout) -> None:
    assert layout.database
    write_rows(layout.database, "old").close()
    make_backup(Files(), layout, VERSION)
    layout.database.unlink()
    writer = write_rows(layout.database, "new", "newer")  # as a crashed new version leaves it: with its log
    restore_database(Files(), layout.backup(VERSION) / "edgecore.db", layout.database)
    assert rows(layout.database) == [("old",)]
    writer.close()


def test_killed_at_any_step_it_is_complete_or_absent(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    assert layout.database
    layout.database.write_text("plain")
    make_backup(Files(), layout, VERSION)
    counting = KillableFiles()
    make_backup(counting, layout, VERSION)
    for point in range(len(counting.steps)):
        files = KillableFiles()
        files.kill_before = point
        with pytest.raises(Killed):
            make_backup(files, layout, VERSION)
        try:
            load_backup(layout, VERSION)
        except Refused as error:
            assert "There is no backup" in str(error)  # noqa: PT017 - whole is right too
        make_backup(Files(), layout, VERSION)
        assert [path.name for path in layout.backups.iterdir()] == [VERSION], "what was left half is gone"


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda folder: (folder / "edgecore").write_bytes(b"other"), "damaged: edgecore"),
        (lambda folder: (folder / "edgecore.yaml").unlink(), "damaged: edgecore.yaml"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "no readable manifest.json"),
        (lambda folder: (folder / "manifest.json").unlink(), "There is no backup"),
        (
            lambda folder: (folder / "manifest.json").write_text(
                '{"version":"v1.22.0","files":[{"role":"executable","name":"../../../etc/passwd","origin":"/"}]}'
            ),
            "names a file outside itself",
        ),
        (lambda folder: (folder / "manifest.json").write_text('{"version":"v1.22.0","files":[]}'), "holds no program"),
        (lambda folder: (folder / "manifest.json").write_text('{"version":"v9.9.9","files":[]}'), "holds v9.9.9"),
    ],
)
def test_a_backup_that_is_not_whole_is_refused(layout: Layout, damage: object, problem: str) -> None:
    make_backup(Files(), layout, VERSION)
    assert callable(damage)
    damage(layout.backup(VERSION))
    with pytest.raises(Refused, match=problem):
        load_backup(layout, VERSION)


def test_without_a_program_there_is_nothing_to_save(layout: Layout) -> None:
    layout.executable.unlink()
    with pytest.raises(Refused, match="There is no program"):
        make_backup(Files(), layout, VERSION)


def test_a_full_disk_leaves_the_last_backup(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make_backup(Files(), layout, VERSION)
    files = Files()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "copy", full)
    with pytest.raises(OSError, match="No space"):
        make_backup(files, layout, VERSION)
    assert load_backup(layout, VERSION) == first


@pytest.mark.parametrize(
    "version", ["../v1.2.3", "v1.2.3/..", "latest", "", "v1.2.3\n", "v1.2.3\0", "v1.2.3-" + "a" * 90]
)
def test_a_version_that_is_none_names_no_folder(layout: Layout, version: str) -> None:
    for where in (layout.backup, layout.upgrade, layout.artefact):
        with pytest.raises(Refused, match="is not a version"):
            where(version)


def test_a_copy_keeps_mode_and_attributes(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"new")
    source.chmod(0o700)
    target.write_bytes(b"old")
    target.chmod(0o4750)
    Files().install(source, target, like=target)
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o7777 == 0o4750
