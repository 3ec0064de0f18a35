"""What can be found out about an attempt on this host, whatever anybody remembers (architecture.md 6, Resume)."""

import contextlib

from beehive.errors import Refused, Unavailable
from beehive.messages.host import Evidence
from modules.upgrader.host.backup import backup_digests
from modules.upgrader.host.host import Host
from modules.upgrader.host.lock import Holder, who_holds
from modules.upgrader.host.names import attempt_key
from modules.upgrader.tool.record import Record, load_record


def look(host: Host, uid: str, attempt: int, now: float) -> Evidence:
    """Blocking: it asks the program and the service manager."""
    record = record_of(host, uid, attempt)
    return Evidence(
        installed=host.installed_or_none(),
        healthy=is_healthy(host),
        complete=is_complete(host, record),
        unit_runs=unit_runs(host, uid, attempt),
        verdict=record.verdict if record else None,
        undecided=record is not None and record.verdict is None,
        busy_with=busy_with(who_holds(host.layout.lock), uid, attempt, now),
    )


def record_of(host: Host, uid: str, attempt: int) -> Record | None:
    """The tool's record of the attempt; None: none, or a name that can have none."""
    with contextlib.suppress(Refused):
        return load_record(host.layout, attempt_key(uid, attempt))
    return None


def unit_runs(host: Host, uid: str, attempt: int) -> bool:
    """Does the tool of this attempt still run?"""
    with contextlib.suppress(Refused, Unavailable):
        return host.services.status(host.tool_unit(uid, attempt)).active
    return False


def is_healthy(host: Host) -> bool:
    """Is the service active, with the installed program running?"""
    with contextlib.suppress(Unavailable):
        return host.runs_installed(host.services.status(host.service))
    return False


def is_complete(host: Host, record: Record | None) -> bool:
    """Is the program on disk one that is known, whole? A host that knows none yet goes by the program's own answer."""
    from modules.upgrader.artefact import extracted_digests  # noqa: PLC0415 - brings the image client

    digest = host.program.digest()
    if record:
        return bool(digest) and digest in (record.order.old_digest, record.order.new_digest)
    known = backup_digests(host.layout) | extracted_digests(host.layout)
    return digest in known or bool(digest and not backup_digests(host.layout) and host.installed_or_none())


def busy_with(holder: Holder | None, uid: str, attempt: int, now: float) -> str:
    """Somebody else, as a phrase. Pure."""
    if holder is None or (holder.uid, holder.attempt) == (uid, attempt):
        return ""
    return holder.phrase(now)
