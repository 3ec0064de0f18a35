"""Programs to be upgraded in the tests: real executables with a version, a data schema, and good or bad manners."""

from enum import StrEnum
from pathlib import Path

from tests.real.running.build import Program, build


class Variant(StrEnum):
    """How a stand-in behaves once it is started; what it writes is said in ``tests/real/servers/standin/main.go``."""

    GOOD = "good"
    CRASHING = "crashing"
    """Ends at once with code 1."""
    HANGING = "hanging"
    """Ignores SIGTERM and never tells its service manager that it is up."""
    LYING = "lying"
    """Answers its version as long as it does not run, and another one while it does."""
    DYING = "dying"
    """Runs for a while, then ends with code 1."""
    LISTENING = "listening"
    """Listens on the address in the file ``listen`` of its state directory, or ends with code 1 when it can't."""
    MIGRATING = "migrating"
    """Raises data of a lower schema to its own, so that an older program can't read them any more."""
    UNPACKING = "unpacking"
    """Copies itself below its state directory and runs from there, as K3s does."""


def standin(version: str, variant: Variant = Variant.GOOD, *, schema: int = 0, lives: str = "1s") -> Path:
    """The stand-in for EdgeCore of this version, built once (about 1 s) and kept.

    ``schema`` is what its data must have, 0 for any; ``lives`` (Go's notation, ``500ms``) is how long a dying one runs.
    """
    values = {"main.version": version, "main.variant": variant.value, "main.wantSchema": str(schema)}
    if variant is Variant.DYING:
        values["main.lives"] = lives
    return build(Program("edgecore", version, "standin", ".", values))
