"""The frozen executable: started by its own children as if it were a Python, and clean in what it hands them."""

import os
import runpy
from collections.abc import MutableMapping, Sequence
from pathlib import PurePath

_OWN = ("beehive_cli", "modules.upgrader.tool", "modules.demo.apiserver")
_KEEPER = "modules.upgrader.host.keeper"


def module_asked(arguments: Sequence[str]) -> tuple[str, list[str]] | None:
    """The module of ours that `-m NAME …` or `-I -S …/keeper.py …` means, and its arguments; None for all else."""
    if len(arguments) >= 2 and arguments[0] == "-m" and arguments[1] in _OWN:
        return arguments[1], list(arguments[2:])
    if len(arguments) >= 3 and list(arguments[:2]) == ["-I", "-S"]:
        place = PurePath(arguments[2]).with_suffix("").parts
        if place[-4:] == tuple(_KEEPER.split(".")):
            return _KEEPER, list(arguments[3:])
    return None


def clean(environment: MutableMapping[str, str] = os.environ) -> None:
    """Take out what the bootloader put in: the programs that we start must find their own libraries."""
    before = environment.pop("LD_LIBRARY_PATH_ORIG", None)
    if before is not None:
        environment["LD_LIBRARY_PATH"] = before
    else:
        environment.pop("LD_LIBRARY_PATH", None)
    for name in [name for name in environment if name.startswith("_PYI_")]:
        del environment[name]


def run_module(name: str) -> None:
    """As `python -m NAME` would; `sys.argv` stands already."""
    runpy.run_module(name, run_name="__main__", alter_sys=True)
