"""The tool that swaps a program, verifies it and rolls back by itself; run as `keadm backup|upgrade|rollback edge`.

It lives in a process of its own, outlives the agent, and needs neither agent nor cloud to end well.
"""


def main(argv: list[str]) -> int:
    """Run the command line (without the program's name); returns the exit code (0, 1, 2 usage, 3 busy, 78 settings)."""
    from modules.upgrader.tool.cli import run  # noqa: PLC0415 - light import for who only wants the package

    return run(argv)
