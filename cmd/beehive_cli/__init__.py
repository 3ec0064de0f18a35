"""The front door: one executable under four names.

`beehive` is the whole of it; `cloudcore` means `beehive --mode cloud`, `edgecore` means `beehive --mode edge`, and
`keadm` is the tool that changes a host. As `kubectl-beehive` and `kubectl-nuj` it is a plugin of kubectl: `kubectl nuj`
means `beehive job`; as `kubectl_complete-nuj` it is what kubectl asks at TAB. Argument parsing and exit codes, no
logic.
"""

import sys
from pathlib import Path


def main() -> None:
    """Look at the name that it was called by, run, and exit."""
    if getattr(sys, "frozen", False) and started_as_python():
        return
    name = Path(sys.argv[0]).name
    arguments = sys.argv[1:]
    if name == "keadm":
        from beehive_cli.keadm import run as keadm  # noqa: PLC0415 - start fast: import what is used

        sys.exit(keadm(arguments))
    mode = {"cloudcore": "cloud", "edgecore": "edge"}.get(name)
    if mode:
        arguments = ["--mode", mode, *arguments]
    if name.startswith("kubectl_complete-"):
        from beehive_cli.completing import kubectl  # noqa: PLC0415

        sys.exit(kubectl(name, arguments))
    if name == "kubectl-nuj":
        arguments = ["job", *arguments]
    from beehive_cli.root import run  # noqa: PLC0415

    sys.exit(run(arguments))


def started_as_python() -> bool:
    """A frozen executable has no Python beside it: its children ask it to be one (libraries.md traps 16, 19)."""
    from beehive_cli import frozen  # noqa: PLC0415

    frozen.clean()
    asked = frozen.module_asked(sys.argv[1:])
    if asked is None:
        return False
    sys.argv[1:] = asked[1]
    frozen.run_module(asked[0])
    return True
