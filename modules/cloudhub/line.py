"""Who is served next, so that nobody can take all places: fair between addresses. Pure.

Laws: never more than `places` at once, never more than `places_each` for one address; whoever waits is served in the
order of its own address, and addresses take turns; a full queue turns away only the address that fills it, or, when the
whole queue is full, who comes last.
"""

from collections import Counter, deque
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Room(Struct, frozen=True):
    """How many at once."""

    places: int
    places_each: int
    """For one address."""
    queue: int = 4096
    queue_each: int = 2048
    """A whole site may stand behind one address."""


def origin(host: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 that an IPv6 host chooses its addresses from."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    mapped = address.ipv4_mapped
    return str(mapped) if mapped else address.exploded[:19]


class Line(Generic[T]):
    """Who waits, and how many are being served."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._waiting: dict[str, deque[T]] = {}
        """By address, the one whose turn it is first."""
        self._served: Counter[str] = Counter()
        self._all_served = 0
        self._all_waiting = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._all_waiting

    @property
    def served(self) -> int:
        """How many places are taken."""
        return self._all_served

    def arrive(self, address: str, one: T) -> bool:
        """It stands in line now, or False: there is no room for it."""
        queue = self._waiting.get(address, ())
        if self._all_waiting >= self._room.queue or len(queue) >= self._room.queue_each:
            return False
        self._waiting.setdefault(address, deque()).append(one)
        self._all_waiting += 1
        return True

    def next(self) -> tuple[str, T] | None:
        """Who takes a place now; None when nobody may."""
        if self._all_served >= self._room.places:
            return None
        for address, queue in self._waiting.items():
            if self._served[address] < self._room.places_each:
                return address, self._serve(address, queue)
        return None

    def _serve(self, address: str, queue: deque[T]) -> T:
        one = queue.popleft()
        del self._waiting[address]
        if queue:
            self._waiting[address] = queue  # at the end: the others come first
        self._served[address] += 1
        self._all_served += 1
        self._all_waiting -= 1
        return one

    def left(self, address: str) -> None:
        """A place of this address is free again."""
        self._all_served -= 1
        self._served[address] -= 1
        if not self._served[address]:
            del self._served[address]

    def clear(self) -> Iterator[T]:
        """All who wait, and nobody waits any more."""
        for queue in self._waiting.values():
            yield from queue
        self._waiting.clear()
        self._all_waiting = 0
