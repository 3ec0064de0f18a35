"""`keadm`, and `beehive keadm`: the tool that backs up, upgrades and rolls back a host."""

from collections.abc import Sequence

_OWNER = ("confirm", "reject")
_OURS = {"--reason": "--reason", "--settings": "--config"}


def run(arguments: Sequence[str]) -> int:
    """The exit code of the tool. An owner's word goes to the agent by its socket, as `beehive edge` says it."""
    owner = _as_edge(arguments)
    if owner:
        from beehive_cli.root import run as beehive  # noqa: PLC0415

        return beehive(owner)
    from modules.upgrader.tool import main  # noqa: PLC0415

    return main(list(arguments))


def _as_edge(arguments: Sequence[str]) -> list[str]:
    """`ctl confirm|reject [--reason TEXT] [--settings FILE]` in the words of `beehive edge`; empty: something else."""
    if len(arguments) < 2 or arguments[0] != "ctl" or arguments[1] not in _OWNER or len(arguments) % 2:
        return []
    pairs = list(zip(arguments[2::2], arguments[3::2], strict=True))
    if any(name not in _OURS or (name == "--reason" and arguments[1] == "confirm") for name, _ in pairs):
        return []
    return ["edge", arguments[1], *(word for name, value in pairs for word in (_OURS[name], value))]
