"""Asks a running Beehive itself, on its own socket, which version it is (product.md 6.2).

A nonce comes back, so that the answer is of now; and the kernel says which process gave it.
"""

import secrets
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from beehive.errors import Refused, Unavailable
from beehive.local import Peer, ask
from modules.upgrader.host.programs import version_in

_POLL = 0.05
_ONE = 2.0


class _Answer(Struct):
    version: str = ""
    nonce: str = ""


def version_by_word(place: Path, pid: int, timeout: float) -> str:
    """What the process `pid` answers at `place`. Refused when it does not within `timeout` seconds, or somebody else
    does."""
    nonce = secrets.token_hex(16)
    question = msgspec.json.encode({"ask": "hello", "nonce": nonce})
    line, peer = _asked(place, question, timeout)
    if peer.pid != pid:
        raise Refused(f"pid {peer.pid} answers at {place}, not the service's own pid {pid}")
    return _version(line, nonce, place)


def _asked(place: Path, question: bytes, timeout: float) -> tuple[bytes, Peer]:
    """It may have to open its socket first."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return ask(place, question, _ONE)
        except Unavailable as error:
            if time.monotonic() > deadline:
                raise Refused(f"{error} (asked for {timeout:g} s)") from None
        time.sleep(_POLL)


def _version(line: bytes, nonce: str, place: Path) -> str:
    try:
        answer = msgspec.json.decode(line, type=_Answer)
    except msgspec.MsgspecError:
        answer = _Answer()
    if answer.nonce != nonce:
        raise Refused(f"{place} does not answer what it is asked")
    found = version_in(answer.version)
    if not found:
        raise Refused(f"{place} names no version")
    return found
