"""`kubectl nuj <TAB>`: kubectl asks `kubectl_complete-nuj`, beside the plugin, with the words typed so far."""

from collections.abc import Sequence

import click
from click.shell_completion import ShellComplete

_NO_FILES = ":4"
"""The last line, in Cobra's words: complete no names of files."""


def kubectl(name: str, arguments: Sequence[str]) -> int:
    """Print what may follow; the last of the arguments is the word that was begun."""
    from beehive_cli.root import beehive  # noqa: PLC0415 - only when it is asked

    *before, begun = arguments or [""]
    inside = ["job"] if name.endswith("-nuj") else []
    found = ShellComplete(beehive, {}, "beehive", "_BEEHIVE_COMPLETE").get_completions([*inside, *before], begun)
    for one in found:
        click.echo(f"{one.value}\t{one.help}" if one.help else str(one.value))
    click.echo(_NO_FILES)
    return 0
