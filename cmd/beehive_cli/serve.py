"""`beehive --mode cloud|edge`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from beehive import runtime
from beehive.config import Source
from beehive.errors import ConfigError, Problem
from modules.registry import MODULES


def read(file: str | None, flags: Mapping[str, str]) -> Source:
    """The configuration's sources. Raises ConfigError for a file that can't be read."""
    if file is None:
        return Source("the configuration", "", os.environ, flags)
    try:
        return Source(file, Path(file).read_text(encoding="utf-8"), os.environ, flags)
    except OSError as error:
        raise ConfigError(file, [Problem("file", "", f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise ConfigError(file, [Problem("file", "", "is not text in UTF-8")]) from None


def serve(mode: str, file: str | None, only: Sequence[str], flags: Mapping[str, str], trace: bool) -> None:
    """Run until told to stop."""
    runtime.run(MODULES, mode, read(file, flags), only, trace=trace)
