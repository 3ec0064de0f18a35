"""What the check decides, from what was measured. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from beehive.api.version import is_newer, same
from modules.upgrader.config import Limits

KEADM, IMAGE_KEADM = "keadm", "image-keadm"
"""The providers that every host knows: our own tool, and the image's own keadm (product.md 6.3)."""
_ITEMS = ("cpu", "mem", "disk")
_GIB = 1024**3
_MIB = 1024**2


class Objection(Struct, frozen=True):
    """Why the upgrade does not begin."""

    code: str
    reason: str


class Room(Struct, frozen=True):
    """What one file system must hold."""

    place: str
    free: int
    needs: Mapping[str, int]
    """For what → bytes."""


def judge_tool(tool: str, more: Iterable[str] = ()) -> Objection | None:
    """An unknown provider fails the check; `more` are those of the host's owner."""
    known = (KEADM, IMAGE_KEADM, *more)
    if tool in known:
        return None
    return Objection("CheckFailed", f"upgradeTool {tool[:64]!r} is not known on this host; it knows {', '.join(known)}")


def judge_version(installed: str, wanted: str, *, allow_downgrade: bool) -> Objection | None:
    """Already there, or newer."""
    if same(installed, wanted):
        return Objection("AlreadyAtVersion", f"already at {installed}")
    if is_newer(installed, wanted) and not allow_downgrade:
        return Objection("Newer", f"{installed} is installed, newer than {wanted}; allowDowngrade is false")
    return None


def unknown_items(items: Sequence[str]) -> Objection | None:
    """A check that nobody can make must not count as passed."""
    unknown = [item[:32] for item in items if item not in _ITEMS]
    if not unknown:
        return None
    return Objection("CheckFailed", f"check item {unknown[0]!r} is not known; known are {', '.join(_ITEMS)}")


def judge_load(measured: Mapping[str, float], limits: Limits) -> Objection | None:
    """`measured`: percent by `cpu`, `mem`, `disk /path`; strictly more than the limit fails, as in KubeEdge."""
    allowed = {"cpu": limits.cpu_percent, "mem": limits.mem_percent, "disk": limits.disk_percent}
    over = [
        f"{what}: {percent:.1f} % used, {allowed[what.partition(' ')[0]]:g} % allowed"
        for what, percent in measured.items()
        if percent > allowed[what.partition(" ")[0]]
    ]
    return Objection("CheckFailed", "; ".join(over)) if over else None


def judge_room(rooms: Sequence[Room]) -> Objection | None:
    """`disk: 1.2 GB free on /etc/kubeedge, 2.0 GB needed: image 0.4, backup 0.9, program 0.1, reserve 0.6`."""
    for room in rooms:
        needed = sum(room.needs.values())
        if room.free < needed:
            unit, name = (_GIB, "GiB") if needed >= _GIB else (_MIB, "MiB")
            parts = ", ".join(f"{what} {size / unit:.1f}" for what, size in room.needs.items())
            text = (
                f"disk: {room.free / unit:.1f} {name} free on {room.place}, {needed / unit:.1f} {name} needed: {parts}"
            )
            return Objection("CheckFailed", text)
    return None
