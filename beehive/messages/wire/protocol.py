"""What our own two ends agree on beside the messages: a header, and how long to wait after a close."""

import re

PROTOCOL_HEADER = "Beehive-Protocol"
PROTOCOL = "1"
"""Header of our own ends: in the edge's upgrade request, and in the cloud's answer to it."""
CA_HEADER = "Beehive-CA"
"""In the cloud's answer: the SHA-256 of its CA's certificate, in hex. An edge that has another one renews soon."""

_SPREAD = re.compile(r"spread=([0-9]{1,6})ms(?: .*)?", re.DOTALL)


def spread_reason(seconds: float, why: str) -> str:
    """Reason of a close with 1012: come back at a random moment within `seconds`, so that a fleet spreads itself."""
    return f"spread={round(seconds * 1000)}ms {why}"[:120]


def spread_of(reason: str) -> float | None:
    """The seconds in such a reason; None where there are none."""
    found = _SPREAD.fullmatch(reason)
    return int(found[1]) / 1000 if found else None
