"""Old programs and backups that this host can do without: nobody else takes them away, and its disk is small."""

import contextlib
from collections.abc import Iterable, Sequence, Set
from pathlib import Path

from modules.upgrader.host.files import Files
from modules.upgrader.host.host import Host
from modules.upgrader.host.layout import MANIFEST
from modules.upgrader.tool.record import Order, open_records

KEPT_VERSIONS = 2
"""Of extracted programs, and of backups."""


def outdated(newest_first: Sequence[str], needed: Set[str], keep: int = KEPT_VERSIONS) -> list[str]:
    """The versions to forget: all but those needed, and as many of the newest beside them as make up `keep`. Pure."""
    room = max(0, keep - sum(version in needed for version in newest_first))
    return [version for version in newest_first if version not in needed][room:]


def forget_outdated(host: Host, ended: Order) -> None:
    """Remove them; whoever calls this holds the host's lock, and `ended` is the attempt that has its verdict now.

    Never what an attempt without a verdict needs, and nothing that is not ours: only folders with a manifest.
    """
    orders = [ended, *(record.order for record in open_records(host.layout).values())]
    needed = {version for order in orders for version in (order.from_version, order.to_version, order.backup)}
    for place in (host.layout.upgrades, host.layout.backups):
        for version in outdated(_newest_first(place), needed):
            with contextlib.suppress(OSError):  # the next attempt tries again
                _remove(host.files, place / version)
    host.program.forget_others(KEPT_VERSIONS)


def _newest_first(place: Path) -> list[str]:
    return [path.parent.name for path in sorted(_ours(place), key=_written, reverse=True)]


def _ours(place: Path) -> Iterable[Path]:
    return (path for path in place.glob(f"[!.]*/{MANIFEST}") if not path.parent.is_symlink())


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _remove(files: Files, folder: Path) -> None:
    """Out of sight first: half a folder is never there, and the boot sweeps what a cut leaves."""
    beside = folder.with_name(f".{folder.name}.new")
    files.remove_tree(beside)
    files.rename(folder, beside)
    files.sync(folder.parent)
    files.remove_tree(beside)
