"""Certificates that count no more although they have not expired. Pure.

The Secret (`Config.secrets.revoked`) holds a list under `revoked`. An entry is about a node: what it was given before a
moment is refused. So nobody needs to know serial numbers, and the node may join again, with a new token.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from beehive.errors import Refused

REVOKED = "revoked"


class Revocation(Struct, frozen=True, omit_defaults=True):
    """One node's."""

    node: str
    before: int
    """Seconds since the epoch: a certificate that begins earlier is refused."""
    reason: str = ""


class Revocations:
    """The list, by node."""

    def __init__(self, entries: tuple[Revocation, ...] = ()) -> None:
        self._by_node: dict[str, Revocation] = {}
        for one in entries:
            known = self._by_node.get(one.node)
            if known is None or one.before > known.before:
                self._by_node[one.node] = one

    def __len__(self) -> int:
        return len(self._by_node)

    def all(self) -> tuple[Revocation, ...]:
        """In the order of the nodes' names."""
        return tuple(self._by_node[node] for node in sorted(self._by_node))

    def check(self, node: str, begins: float) -> None:
        """Raises Refused when this node's certificate, good from `begins` on, counts no more."""
        found = self._by_node.get(node)
        if found is not None and begins < found.before:
            raise Refused(f"its certificate was revoked{': ' * bool(found.reason)}{found.reason}")

    def not_before(self, node: str) -> float:
        """A new certificate of this node must not begin earlier, or it would be refused like the old one."""
        found = self._by_node.get(node)
        return float(found.before) if found else 0.0

    def revoke(self, node: str, now: float, reason: str = "") -> "Revocations":
        """Refuse what this node has now."""
        return Revocations((*self.all(), Revocation(node, int(now) + 1, reason)))


def read(data: Mapping[str, bytes]) -> Revocations:
    """The Secret's list. Raises Refused when it cannot be read: then nobody knows who is to be refused."""
    try:
        return Revocations(_ENTRIES.decode(data.get(REVOKED, b"[]")))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refused(f"the list of revoked certificates cannot be read: {error}") from None


def write(revocations: Revocations) -> dict[str, bytes]:
    """The Secret's data."""
    return {REVOKED: msgspec.json.encode(revocations.all())}


_ENTRIES = msgspec.json.Decoder(tuple[Revocation, ...])
