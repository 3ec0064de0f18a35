"""Go: the machine's own if it is new enough, else one installed beside this Python."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "servers" / "go.lock"
AT_LEAST = (1, 26)
"""The oldest Go that the modules' ``go`` lines allow."""


class BuildError(Exception):
    """A program can't be built on this machine; the text says why and what to do."""


def find_go() -> Path:
    """A Go that is new enough: the machine's, or the one beside this Python; ``BuildError`` if there is none."""
    seen = []
    for place in (shutil.which("go"), shutil.which("go", path=str(Path(sys.executable).parent))):
        if place is None:
            continue
        version = _version(place)
        if version >= AT_LEAST:
            return Path(place)
        seen.append(f"{place} is {'.'.join(map(str, version)) or 'broken'}")
    wanted = ".".join(map(str, AT_LEAST))
    raise BuildError(f"No Go {wanted} or newer here ({'; '.join(seen) or 'none at all'}): run `make servers`.")


def _version(go: str) -> tuple[int, ...]:
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, env=go_environment(), check=False
        )
    except OSError:
        return ()
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else ()


def install_go() -> None:
    """Installs the locked Go beside this Python (a virtual environment) unless one is new enough already."""
    try:
        find_go()
    except BuildError as missing:
        if sys.prefix == sys.base_prefix:
            raise
        sys.stderr.write("installing Go … ")
        sys.stderr.flush()
        command = [sys.executable, "-m", "pip", "install", "-q", "--require-hashes", "-r", str(LOCK)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"{missing}\nInstalling it failed: {done.stderr.strip()[-500:]}") from None
        find_go()


def go_environment() -> dict[str, str]:
    """The environment for Go: no C compiler needed, and the programs run on any Linux root."""
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
