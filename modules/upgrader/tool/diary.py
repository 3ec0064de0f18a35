"""The tool's log on this host, beside what its unit's journal keeps: it is there after a reboot, and bounded."""

import contextlib
import logging
import os
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler

from modules.upgrader.host.host import Host

NAME = "keadm.log"
LARGEST = 512 * 1024
"""Bytes; there is one older file of this size beside it."""


@contextlib.contextmanager
def kept(host: Host) -> Iterator[None]:
    """Meanwhile every line goes to the file too. A disk that takes none stops nothing."""
    handler = _handler(host)
    if handler is None:
        yield
        return
    log = logging.getLogger("beehive.tool")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
        handler.close()


def _handler(host: Host) -> RotatingFileHandler | None:
    place = host.layout.logs / NAME
    try:
        host.files.directory(place.parent)
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        handler = _Quiet(place, maxBytes=LARGEST, backupCount=1, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-5s %(message)s"))
    return handler


class _Quiet(RotatingFileHandler):
    """Its own failures are nobody's."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        del record
