"""A record is the old one or the new one, whole."""

import errno
import os
import stat
from pathlib import Path

import pytest
from msgspec import Struct

from beehive.files import Files
from beehive.journal import Journal, write_durably


class Record(Struct):
    name: str
    steps: list[str] = []


def test_what_was_saved_is_loaded_by_the_next_process(tmp_path: Path) -> None:
    Journal(tmp_path / "j").save("task", Record("a", ["Check"]))
    assert Journal(tmp_path / "j").load("task", Record) == Record("a", ["Check"])


def test_there_is_nothing_where_nothing_was_saved(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    assert journal.load("task", Record) is None
    assert journal.keys() == []
    journal.forget("task")


def test_forgetting_removes_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.save("a", Record("a"))
    journal.save("b", Record("b"))
    journal.forget("a")
    assert journal.keys() == ["b"]


@pytest.mark.parametrize("content", [b"", b'{"name": "a', b"\x00" * 64, b'{"steps": []}', b"[1]"])
def test_a_file_that_is_no_record_is_set_aside_and_kept(tmp_path: Path, content: bytes) -> None:
    journal = Journal(tmp_path)
    (tmp_path / "task.json").write_bytes(content)
    assert journal.load("task", Record) is None
    assert (tmp_path / "task.bad").read_bytes() == content
    assert journal.faults == [f"{tmp_path / 'task.json'} is no record that can be read; it is kept as task.bad"]
    journal.save("task", Record("new"))
    assert journal.load("task", Record) == Record("new")


def replaced_by(path: Path, what: str, patch: pytest.MonkeyPatch) -> None:
    """Something else stands where the record was."""
    if what == "folder":
        path.unlink()
        path.mkdir()
    elif what == "link":
        path.rename(path.with_name("elsewhere"))
        path.symlink_to("elsewhere")
    elif what == "pipe":
        path.unlink()
        os.mkfifo(path)
    elif os.geteuid() == 0:
        os.chown(path, 4711, 4711)
    else:
        patch.setattr(os, "geteuid", lambda: 4711)


@pytest.mark.parametrize("what", ["folder", "link", "pipe", "a stranger's"])
def test_what_nobody_of_ours_wrote_is_never_read_but_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    journal = Journal(tmp_path)
    journal.save("task", Record("theirs"))
    replaced_by(tmp_path / "task.json", what, monkeypatch)
    assert journal.load("task", Record) is None
    assert len(journal.faults) == 1
    assert "it is kept as task.bad" in journal.faults[0]
    monkeypatch.undo()
    journal.save("task", Record("new"))
    assert Journal(tmp_path).load("task", Record) == Record("new")


class ReadOnlyFiles(Files):
    """A disk that was mounted anew after a fault: nothing can be changed on it."""

    def rename(self, source: Path, target: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    def write(self, path: Path, data: bytes, mode: int) -> None:
        raise OSError(errno.EROFS, "Read-only file system")


def test_a_bad_record_on_a_read_only_disk_ends_nobody(tmp_path: Path) -> None:
    (tmp_path / "task.json").write_bytes(b"half")
    journal = Journal(tmp_path, ReadOnlyFiles())
    assert journal.load("task", Record) is None
    assert journal.faults == [
        f"{tmp_path / 'task.json'} is no record that can be read; it cannot be set aside: Read-only file system"
    ]
    with pytest.raises(OSError, match="Read-only"):
        journal.save("task", Record("new"))


@pytest.mark.parametrize("there", ["a file", "a link to nowhere"])
def test_a_folder_that_is_none_holds_no_records_and_says_so_when_one_is_saved(tmp_path: Path, there: str) -> None:
    place = tmp_path / "journal"
    if there == "a file":
        place.write_text("")
    else:
        place.symlink_to("nowhere")
    journal = Journal(place)
    assert journal.keys() == []
    assert journal.load("task", Record) is None
    with pytest.raises(OSError, match="journal"):
        journal.save("task", Record("new"))


def test_unknown_fields_of_a_newer_schema_are_no_fault(tmp_path: Path) -> None:
    (tmp_path / "task.json").write_bytes(b'{"name": "a", "later": 1}')
    assert Journal(tmp_path).load("task", Record) == Record("a")


@pytest.mark.parametrize("key", ["", "../a", "a/b", ".hidden", "a\0", "a" * 300, "ä"])
def test_a_key_that_could_leave_the_directory_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a record"):
        Journal(tmp_path).save(key, Record("a"))
    assert list(tmp_path.iterdir()) == []


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    Journal(tmp_path / "j").save("task", Record("secret"))
    assert stat.S_IMODE((tmp_path / "j").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "j" / "task.json").stat().st_mode) == 0o600


class FullFiles(Files):
    """A disk that is full after the first bytes of a file."""

    def write(self, path: Path, data: bytes, mode: int) -> None:
        super().write(path, data[:3], mode)
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["fsync", "replace", "write"])
def test_when_the_disk_is_full_the_old_record_stands_and_nothing_is_left_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    Journal(tmp_path).save("task", Record("old"))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    journal = Journal(tmp_path, FullFiles() if call == "write" else None)
    if call == "replace":
        monkeypatch.setattr(Path, "replace", full)
    elif call == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        journal.save("task", Record("new" * 10_000))
    monkeypatch.undo()
    assert journal.load("task", Record) == Record("old")
    assert [path.name for path in tmp_path.iterdir()] == ["task.json"]


def test_the_order_is_write_sync_rename_sync_of_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    real_sync, real_replace = os.fsync, Path.replace

    def sync(descriptor: int) -> None:
        done.append("sync directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        real_sync(descriptor)

    def replace(path: Path, target: Path) -> Path:
        done.append("rename")
        return real_replace(path, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", replace)
    write_durably(tmp_path / "file", b"x", 0o600)
    assert done == ["sync file", "rename", "sync directory"]
