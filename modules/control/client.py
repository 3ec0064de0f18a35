"""The other end of the socket: one question to the agent of this host."""

from pathlib import Path

import msgspec

from beehive.errors import Unavailable
from beehive.local import ask
from modules.control.requests import Answer, Question, decode

_TIMEOUT = 30.0


def asked(place: Path, question: Question) -> Answer:
    """Raises Unavailable where no agent answers, or none that can be understood."""
    line, _ = ask(place, msgspec.json.encode(question), _TIMEOUT)
    try:
        return decode(line)
    except ValueError as error:
        raise Unavailable(f"{place}: {error}") from None
