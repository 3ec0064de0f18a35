"""`keadm`, and `beehive keadm`: the tool that backs up, upgrades and rolls back a host."""

from collections.abc import Sequence


def run(arguments: Sequence[str]) -> int:
    """The exit code of the tool."""
    from modules.upgrader.tool import main  # noqa: PLC0415

    return main(list(arguments))
