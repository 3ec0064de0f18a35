"""How much room an upgrade needs on this host, and how much there is."""

from pathlib import Path

from modules.upgrader.checks import Room
from modules.upgrader.host import measures
from modules.upgrader.host.backup import size_of_installed
from modules.upgrader.host.host import Host


def rooms(host: Host, image: int) -> list[Room]:
    """One per file system; `image` is what its layers take, 0 when the program is extracted already."""
    layout, reserve = host.layout, host.config.limits.reserve_bytes
    # Extracted, and once more beside its place while it is swapped.
    needs = {"backup": size_of_installed(layout), "program": 2 * host.program.size()}
    if _device(layout.etc) == _device(layout.state):
        return [_room(layout.etc, {"image": image, **needs, "reserve": reserve})]
    return [
        _room(layout.etc, {**needs, "reserve": reserve}),
        _room(layout.state, {"image": image, "reserve": reserve}),
    ]


def _room(place: Path, needs: dict[str, int]) -> Room:
    return Room(str(place), measures.disk_free(place), needs)


def _device(path: Path) -> int:
    while not path.exists():
        path = path.parent
    return path.stat().st_dev
