"""What a command would do, for `--dry-run`: it looks, and changes nothing, not even a lock file."""

import asyncio
import time
from pathlib import Path

from msgspec.structs import replace

from beehive.api.version import same
from beehive.errors import Refused
from modules.upgrader import checks
from modules.upgrader.host.backup import load_backup, size_of_installed
from modules.upgrader.host.files import digest_of
from modules.upgrader.host.host import Host
from modules.upgrader.host.lock import Busy, who_holds
from modules.upgrader.room import rooms
from modules.upgrader.tool.record import open_records

_MB = 1_000_000


def backup(host: Host) -> list[str]:
    """Raises as the command itself would."""
    _check_free(host)
    installed = host.installed()
    return [*_first(host), f"save {installed}: {_size(host)} to {host.layout.backup(installed)}"]


def upgrade(host: Host, version: str, image: str, pin: str) -> list[str]:
    """Raises as the command itself would before it begins. The image is looked up, nothing of it is fetched."""
    from modules.upgrader import artefact  # noqa: PLC0415 - brings the image client
    from modules.upgrader.images import check_digest  # noqa: PLC0415

    _check_free(host)
    host.check_unit()
    installed = host.installed()
    if same(installed, version):
        return [f"{host.service.name} is at {version} already: nothing"]
    request = artefact.image_request(image, version, None)
    request = replace(request, pin=check_digest(pin) if pin else "")
    artefact.check_policy(host.config.images, request)
    found = artefact.load_extracted(host.layout, version)
    if found is None or (pin and found.manifest_digest != request.pin):
        resolved = asyncio.run(artefact.look_up(host, request))
        brought = f"fetch {resolved.reference} from {resolved.source}: {resolved.size / _MB:.1f} MB"
        image_size = resolved.size
    else:
        brought, image_size = f"use what was extracted from {found.image} already", 0
    objection = checks.judge_room(rooms(host, image_size))
    if objection:
        raise Refused(objection.reason)
    return [
        *_first(host),
        brought,
        f"save {installed}: {_size(host)} to {host.layout.backup(installed)}, unless it is saved as it is now",
        *_swapped(host, f"replace {_place(host)} by {version}"),
        f"if anything of that fails, put {installed} back with its configuration, database and unit",
    ]


def rollback(host: Host, to: str) -> list[str]:
    """Raises as the command itself would before it begins."""
    _check_free(host)
    saved = load_backup(host.layout, to)
    changed = [saved.executable.origin] if host.program.digest() != saved.executable.sha256 else []
    changed += [
        file.origin
        for file in saved.files
        if file.role in ("config", "unit", "tool") and file.name and digest_of(_below(host, file.origin)) != file.sha256
    ]
    changed += [file.origin for file in saved.files if file.role == "database" and file.name]
    what = ", ".join(changed) or "nothing, for all is as it was saved"
    return [*_first(host), *_swapped(host, f"restore from {host.layout.backup(to)}: {what}")]


def _below(host: Host, origin: str) -> Path:
    return host.layout.below(origin)


def _check_free(host: Host) -> None:
    holder = who_holds(host.layout.lock)
    if holder:
        raise Busy(holder, time.time())


def _first(host: Host) -> list[str]:
    """What a killed tool left is settled before anything else."""
    return [
        f"first end what was interrupted in {record.phase.value}: {_whose(record.order.job, record.order.attempt)}"
        for record in open_records(host.layout).values()
    ]


def _whose(job: str, attempt: int) -> str:
    return f"job {job}, attempt {attempt}" if job else "asked for by hand"


def _swapped(host: Host, change: str) -> list[str]:
    name, soak = host.service.name, host.config.soak
    return [f"stop {name}", change, f"start {name}, which must stay up for {soak:g} s without a restart"]


def _place(host: Host) -> Path:
    return host.layout.link or host.layout.executable


def _size(host: Host) -> str:
    return f"{size_of_installed(host.layout) / _MB:.1f} MB"
