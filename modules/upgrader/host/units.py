"""Puts a service's unit back as its backup holds it: the unit file, its drop-ins, and whether it starts at boot."""

from pathlib import Path, PurePosixPath

from beehive.errors import Refused
from modules.upgrader.host.backup import Backup, SavedFile
from modules.upgrader.host.files import Files, digest_of
from modules.upgrader.host.layout import Layout
from modules.upgrader.host.service import Service, ServiceManager

_FOLDERS = ("/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
_AT_BOOT = ("enabled", "enabled-runtime")
_NOT_AT_BOOT = ("disabled", "masked", "masked-runtime")


def restore_unit(
    files: Files, layout: Layout, backup: Backup, services: ServiceManager, service: Service, *, aside: bool
) -> bool:
    """Put the saved files back, and say to systemd what changed; True: something had.

    `aside`: drop-ins that the backup does not know are renamed, for they came with what is taken back.
    Raises Refused, Unavailable, OSError.
    """
    saved = [file for file in backup.files if file.role == "unit" and file.name]
    if not saved:
        return False
    now = services.unit(service)
    changed = [file for file in saved if digest_of(_place(layout, file.origin)) != file.sha256]
    for file in changed:
        place = _place(layout, file.origin)
        files.directory(place.parent)
        files.install(layout.backup(backup.version) / file.name, place)
    known = {_place(layout, file.origin) for file in saved}
    strange = (
        [place for place in map(layout.below, now.files) if place not in known and place.exists()] if aside else []
    )
    for place in strange:
        files.rename(place, place.with_name(f"{place.name}.failed"))
        files.sync(place.parent)
    if changed or strange:
        services.reload()
    return enable_as(services, service, now.enablement, backup.enablement) or bool(changed or strange)


def enable_as(services: ServiceManager, service: Service, now: str, before: str) -> bool:
    """Start it at boot, or not, as it was; states that systemd has no word for stay as they are."""
    if before in _AT_BOOT and now not in _AT_BOOT:
        services.enable(service, at_boot=True)
    elif before in _NOT_AT_BOOT and now in _AT_BOOT:
        services.enable(service, at_boot=False)
    else:
        return False
    return True


def _place(layout: Layout, origin: str) -> Path:
    """Where systemd looks for units, and nowhere else."""
    path = PurePosixPath(origin)
    if ".." in path.parts or not any(path.is_relative_to(folder) for folder in _FOLDERS):
        raise Refused(f"The backup names a unit file at {origin}, where no unit belongs")
    return layout.below(origin)


def is_current(layout: Layout, backup: Backup, unit_files: tuple[str, ...]) -> bool:
    """Does the backup hold the configuration and the unit as they are now?"""
    config = backup.file("config")
    if layout.config and digest_of(layout.config) != (config.sha256 if config else ""):
        return False
    saved = {file.origin: file.sha256 for file in _units(backup)}
    return saved == {origin: digest_of(layout.below(origin)) for origin in unit_files}


def _units(backup: Backup) -> list[SavedFile]:
    return [file for file in backup.files if file.role == "unit"]
