"""Copies a database so that the copy is whole: SQLite by its backup API, other files as they are (spec K4)."""

import contextlib
from pathlib import Path

from beehive.errors import Refused
from modules.upgrader.host.files import Files

_MAGIC = b"SQLite format 3\0"
_BUSY = 5.0
_SIBLINGS = ("-wal", "-shm", "-journal")


def is_sqlite(path: Path) -> bool:
    """By its first bytes."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def copy_database(files: Files, source: Path, target: Path) -> None:
    """Put a whole copy at `target`, durably. Refused when the source is damaged."""
    if is_sqlite(source):
        files.build(target, lambda beside: _back_up(source, beside))
    else:
        files.install(source, target)


def restore_database(files: Files, source: Path, target: Path) -> None:
    """Put a copy back; a write-ahead log that belongs to another database must not be applied to it."""
    for sibling in _SIBLINGS:
        files.remove(target.with_name(target.name + sibling))
    files.install(source, target)


def set_aside(files: Files, database: Path) -> None:
    """There was no database before: what the failed version made is kept under another name, for people."""
    if database.exists():
        files.rename(database, database.with_name(f"{database.name}.failed"))
    for sibling in _SIBLINGS:
        files.remove(database.with_name(database.name + sibling))
    if database.parent.is_dir():
        files.sync(database.parent)


def _back_up(source: Path, beside: Path) -> None:
    import sqlite3  # noqa: PLC0415 - an idle agent needs none

    try:
        with (
            contextlib.closing(
                sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY)
            ) as old,
            contextlib.closing(sqlite3.connect(beside)) as new,
        ):
            found = old.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":
                raise Refused(f"Database {source} is damaged ({found}); repair it before an upgrade")
            old.backup(new)
    except sqlite3.Error as error:
        raise Refused(f"Database {source} cannot be copied: {error}") from error
