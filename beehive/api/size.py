"""Would a job's status fit into one object (product.md 3.2)?"""

import msgspec

from beehive.api.nodeupgradejob import NodeEntry

LARGEST_OBJECT = 1024 * 1024
"""Bytes that a job may have in the API server, its status filled (product.md 3.2)."""
RESERVE = 16 * 1024


def fits(beside: int, names: tuple[str, ...]) -> bool:
    """Could the status of these nodes stay under 1 MiB, where the rest of the object has `beside` bytes?

    Every entry has the same share, which must hold the longest name and what an entry always has (product.md 3.2).
    """
    if not names:
        return True
    share = (LARGEST_OBJECT - RESERVE - beside) // len(names)
    return share >= max(len(msgspec.json.encode(name)) for name in names) + _ALWAYS


_ALWAYS = len(
    msgspec.json.encode(
        NodeEntry(
            node_name="",
            phase="InProgress",
            reason_code="WaitingConfirmation",
            attempt=100,
            revision=100,
            since="2026-11-29T20:31:07Z",
        )
    )
)
"""Bytes of an entry beside its name when everything that may be left out is left out."""
