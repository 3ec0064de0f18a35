"""What an attempt is to do, worked out from the host as it is now."""

import contextlib

from beehive.errors import Refused
from modules.upgrader.host.backup import load_backup
from modules.upgrader.host.host import Host
from modules.upgrader.host.layout import MANIFEST
from modules.upgrader.host.names import attempt_key
from modules.upgrader.tool.record import Order, load_record
from modules.upgrader.tool.request import Request
from modules.upgrader.tool.verdict import rollback_to


def by_request(host: Host, request: Request) -> Order:
    """What the agent asked for: the order that stands in the attempt's record, or a new one."""
    record = load_record(host.layout, attempt_key(request.uid, request.attempt))
    if record:
        return record.order
    if request.undo:
        installed = host.installed_or_none() or request.to_version
        return rollback(host, request.uid, installed, request.from_version, job=request.job, attempt=request.attempt)
    return Order(
        job=request.job,
        uid=request.uid,
        attempt=request.attempt,
        from_version=request.from_version,
        to_version=request.to_version,
        old_digest=host.program.digest(),
        new_digest=request.digest,
        tool=request.tool,
        image=request.image,
        backup=request.from_version,
    )


def upgrade_by_hand(host: Host, uid: str, from_version: str, to_version: str, digest: str) -> Order:
    """What a person asked for."""
    old = host.program.digest()
    return Order(
        uid=uid,
        from_version=from_version,
        to_version=to_version,
        old_digest=old,
        new_digest=digest,
        backup=from_version,
    )


def rollback(host: Host, uid: str, from_version: str, backup: str, *, job: str = "", attempt: int = 0) -> Order:
    """Back to a backup: for the phases, "old" is what the backup holds. Refused when it is not whole."""
    program = load_backup(host.layout, backup).file("executable")
    assert program is not None
    return Order(
        job=job,
        uid=uid,
        attempt=attempt,
        event="Rollback",
        from_version=from_version,
        to_version=backup,
        old_digest=program.sha256,
        new_digest=host.program.digest(),
        backup=backup,
    )


def how_to_mend(host: Host, backup: str) -> str:
    """What a person types after a rollback that failed: the backup that should be there, another, or an image again."""
    whole = [version for _, version, _ in _backups(host)]
    if not backup or backup in whole:
        return rollback_to(backup)
    return rollback_to(whole[-1]) if whole else f"keadm upgrade edge --toVersion {backup}"


def is_as_saved(host: Host, installed: str) -> bool:
    """Is the newest backup that of the installed program, byte by byte?"""
    found = _backups(host)
    return bool(found) and found[-1][1] == installed and found[-1][2] == host.program.digest()


def last_backup(host: Host, installed: str) -> str:
    """The newest whole backup of another version than the installed one, by its manifest's time."""
    others = [name for _, name, _ in _backups(host) if name != installed]
    if not others:
        raise Refused(f"There is no backup of another version in {host.layout.backups}; nothing to roll back to")
    return others[-1]


def _backups(host: Host) -> list[tuple[int, str, str]]:
    """Of all whole backups, oldest first: when it was made, its version, its program's digest."""
    found = []
    for folder in host.layout.backups.glob("[!.]*"):
        with contextlib.suppress(Refused, OSError):
            saved = load_backup(host.layout, folder.name)
            found.append(((folder / MANIFEST).stat().st_mtime_ns, folder.name, saved.executable.sha256))
    return sorted(found)
