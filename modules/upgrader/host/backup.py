"""The backup of one version: program, configuration, database, and a manifest of their digests. Complete or absent."""

import stat
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from beehive.api.version import same
from beehive.errors import Refused
from modules.upgrader.host.database import copy_database
from modules.upgrader.host.files import Files, digest_of
from modules.upgrader.host.layout import MANIFEST, Layout
from modules.upgrader.host.program import program_of
from modules.upgrader.host.service import Unit

Role = Literal["executable", "config", "database", "unit", "tool"]


_NO_UNIT = Unit()


class SavedFile(Struct, frozen=True):
    """One file of a backup."""

    role: Role
    name: str
    """In the backup's folder, the name of a file or of a tree; empty: there was none, and a rollback leaves none."""
    origin: str
    """Where it came from, below the host's root."""
    size: int = 0
    sha256: str = ""
    access: tuple[int, int, int] | None = None
    """Owner, group and mode of the file there; None: not known, a unit, or a tree, in which each file has its own."""


class Backup(Struct, frozen=True):
    """What `manifest.json` says."""

    version: str
    files: tuple[SavedFile, ...]
    enablement: str = ""
    """Whether the service started at boot, in systemd's words; empty: there was no systemd to ask."""

    def file(self, role: Role) -> SavedFile | None:
        """The file of this role; None: the target has none, or had none."""
        return next((file for file in self.files if file.role == role and file.name), None)

    @property
    def executable(self) -> SavedFile:
        """The program; every whole backup has one."""
        found = self.file("executable")
        assert found
        return found

    def summary(self) -> str:
        """`3 files, 41.0 MB`."""
        kept = [file for file in self.files if file.name]
        return f"{len(kept)} files, {sum(file.size for file in kept) / 1_000_000:.1f} MB"


def make_backup(files: Files, layout: Layout, version: str, unit: Unit = _NO_UNIT) -> Backup:
    """Save the installed version, built beside and renamed: a cut leaves the whole backup or none.

    Raises Refused (damaged database, missing program), OSError.
    """
    place = layout.backup(version)
    beside = place.with_name(f".{place.name}.new")
    files.directory(layout.backups)
    files.remove_tree(beside)
    files.make_directory(beside)
    try:
        saved = [_save(files, layout, beside, role) for role in _roles(layout)]
        saved += [_save_unit(files, layout, beside, origin) for origin in unit.files]
        backup = Backup(version, tuple(saved), unit.enablement)
        files.write(beside / MANIFEST, msgspec.json.format(msgspec.json.encode(backup), indent=1) + b"\n", 0o600)
        files.sync(beside)
        files.remove_tree(place)
        files.rename(beside, place)
    except (OSError, Refused):
        files.remove_tree(beside)
        raise
    files.sync(layout.backups)
    return backup


def load_backup(layout: Layout, version: str) -> Backup:
    """The backup of a version, every digest verified. Refused, with the reason, if it is not whole."""
    place = layout.backup(version)
    try:
        backup = msgspec.json.decode((place / MANIFEST).read_bytes(), type=Backup)
    except FileNotFoundError as error:
        raise Refused(f"There is no backup of {version} in {layout.backups}") from error
    except msgspec.MsgspecError as error:
        raise Refused(f"Backup {place} has no readable {MANIFEST}; make it again: keadm backup edge") from error
    if not same(backup.version, version):
        raise Refused(f"Backup {place} holds {backup.version}, not {version}")
    for file in backup.files:
        if Path(file.name).name != file.name:
            raise Refused(f"Backup {place} names a file outside itself: {file.name!r}")
        if file.name and _digest(layout, place, file) != file.sha256:
            raise Refused(f"Backup {place} is damaged: {file.name} has not the digest that its manifest says")
    if backup.file("executable") is None:
        raise Refused(f"Backup {place} holds no program")
    return backup


def give_back(files: Files, layout: Layout, backup: Backup) -> None:
    """Give the files in their places the owners and modes that they had: a copy's owner is who could make it."""
    for role, place in _roles(layout):
        file = backup.file(role)
        if file and file.access and place.is_file() and _access(place) != file.access:
            files.give(place, *file.access)


def backup_digests(layout: Layout) -> set[str]:
    """Digests of the programs in all backups, from their manifests."""
    found = set()
    for manifest in layout.backups.glob(f"*/{MANIFEST}"):
        try:
            program = msgspec.json.decode(manifest.read_bytes(), type=Backup).file("executable")
        except (OSError, msgspec.MsgspecError):
            continue
        found.update({program.sha256} if program else set())
    return found


def size_of_installed(layout: Layout) -> int:
    """Bytes that a backup of the installed version takes."""
    rest = sum(place.stat().st_size for place in (layout.config, layout.database) if place and place.is_file())
    tool = layout.keadm.stat().st_size if _has_tool(layout) else 0
    return rest + tool + program_of(Files(), layout).size()


def _roles(layout: Layout) -> list[tuple[Role, Path]]:
    roles: list[tuple[Role, Path | None]] = [
        ("executable", layout.executable),
        ("config", layout.config),
        ("database", layout.database),
        ("tool", layout.keadm if _has_tool(layout) else None),
    ]
    return [(role, place) for role, place in roles if place]


def _save(files: Files, layout: Layout, directory: Path, what: tuple[Role, Path]) -> SavedFile:
    role, place = what
    origin = f"/{place.relative_to(layout.root)}"
    if not place.is_file():
        if role == "executable":
            raise Refused(f"There is no program at {place}")
        return SavedFile(role, "", origin)
    if role == "executable":
        return _save_program(files, layout, directory, origin)
    copy = directory / place.name
    if role == "database":
        copy_database(files, place, copy)
    else:
        files.copy(place, copy)
    return SavedFile(role, place.name, origin, copy.stat().st_size, digest_of(copy), _access(place))


def _access(place: Path) -> tuple[int, int, int]:
    found = place.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


def _has_tool(layout: Layout) -> bool:
    """A file of its own: where it is a link, it is a part of what it leads to."""
    return layout.keadm.is_file() and not layout.keadm.is_symlink() and layout.keadm != layout.executable


def _save_unit(files: Files, layout: Layout, directory: Path, origin: str) -> SavedFile:
    """`edgecore.service`, and a drop-in as `edgecore.service.d-10-limits.conf`."""
    place = layout.below(origin)
    name = place.name if place.suffix != ".conf" else f"{place.parent.name}-{place.name}"
    if not place.is_file():  # a unit in /dev/null, or removed since
        return SavedFile("unit", "", origin)
    files.copy(place, directory / name)
    return SavedFile("unit", name, origin, place.stat().st_size, digest_of(directory / name))


def _save_program(files: Files, layout: Layout, directory: Path, origin: str) -> SavedFile:
    program, copy = program_of(files, layout), directory / layout.program
    size, access = program.save(copy), None if layout.link else _access(layout.executable)
    return SavedFile("executable", layout.program, origin, size, program.digest_of(copy), access)


def _digest(layout: Layout, place: Path, file: SavedFile) -> str:
    copy = place / file.name
    return program_of(Files(), layout).digest_of(copy) if file.role == "executable" else digest_of(copy)
