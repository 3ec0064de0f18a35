"""What is true in the API server, as far as we know, and which news about it is a change. No clock, no network.

Versions are compared as the numbers that they are (etcd's revisions), so that nothing ever goes back to an older
object, in whatever order the answers to our writes, lists, reads and the watch arrive.
"""

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from beehive.api.meta import ObjectMeta


class Kept(Protocol):
    """An object with metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=Kept)

_MOST_DELETED = 10_000


class Changed(Struct, Generic[T], frozen=True):
    """It is new, or differs from before in something that rules look at."""

    object: T


class Gone(Struct, frozen=True):
    """It is no longer there."""

    name: str
    uid: str


Change: TypeAlias = Changed[T] | Gone


class _Entry(Struct, Generic[T]):
    object: T
    version: int
    since: int
    """The version at which it began to look as it does: what was decided on any version since then still holds."""


class Cache(Generic[T]):
    """All objects of one kind, by name."""

    def __init__(self, alike: Callable[[T, T], bool]) -> None:
        self._alike = alike
        """Are two states of one object the same to every rule?"""
        self._entries: dict[str, _Entry[T]] = {}
        self._deleted: dict[str, int] = {}
        """When objects were deleted, since the last list: a list that was read earlier must not revive them."""
        self.floor = 0
        """Version of the newest complete list: news up to it are old."""

    def __len__(self) -> int:
        return len(self._entries)

    def objects(self) -> tuple[T, ...]:
        """All of them."""
        return tuple(entry.object for entry in self._entries.values())

    def get(self, name: str) -> T | None:
        """One of them."""
        entry = self._entries.get(name)
        return entry.object if entry else None

    def replace(self, objects: Iterable[T], version: str) -> list[Change[T]]:
        """A complete list came. One that is older than the last means that the store was set back: it rules."""
        number = int(version)
        set_back = number < self.floor
        if set_back:
            self._deleted.clear()
        listed = {one.metadata.name: one for one in objects if not self._outlived(one)}
        changes: list[Change[T]] = []
        for name, entry in list(self._entries.items()):
            if name not in listed and (set_back or entry.version <= number):
                del self._entries[name]
                changes.append(Gone(name, entry.object.metadata.uid))
        for one in listed.values():
            changes += self._take(one, anyway=set_back)
        self.floor = number
        self._deleted = {name: at for name, at in self._deleted.items() if at > number}
        return changes

    def put(self, one: T) -> list[Change[T]]:
        """The watch says that it is new or changed."""
        return self._take(one) if int(one.metadata.resource_version) > self.floor else []

    def learn(self, one: T) -> list[Change[T]]:
        """A write or a read was answered with it. It adds nothing: the object may have been deleted meanwhile."""
        return self._take(one) if one.metadata.name in self._entries else []

    def remove(self, name: str, version: str) -> list[Change[T]]:
        """The watch says that it was deleted at this version."""
        entry, number = self._entries.get(name), int(version)
        if entry is None or number <= self.floor or number < entry.version:
            return []
        del self._entries[name]
        self._deleted[name] = number
        if len(self._deleted) > _MOST_DELETED:
            del self._deleted[next(iter(self._deleted))]
        return [Gone(name, entry.object.metadata.uid)]

    def _outlived(self, one: T) -> bool:
        return int(one.metadata.resource_version) <= self._deleted.get(one.metadata.name, -1)

    def guard(self, name: str, uid: str, version: str) -> str:
        """The version by which to guard a write that was decided on `version`.

        It is the newest that looks the same to every rule, so that a heartbeat does not spoil a decision.
        """
        entry = self._entries.get(name)
        if entry is None or entry.object.metadata.uid != uid or not version.isdecimal():
            return version
        return str(entry.version) if entry.since <= int(version) <= entry.version else version

    def _take(self, one: T, anyway: bool = False) -> list[Change[T]]:
        name, version = one.metadata.name, int(one.metadata.resource_version)
        entry = self._entries.get(name)
        if entry is None:
            self._entries[name] = _Entry(one, version, version)
            return [Changed(one)]
        if version <= entry.version and not anyway:
            return []
        old = entry.object
        reborn = old.metadata.uid != one.metadata.uid
        same = not reborn and self._alike(old, one)
        entry.object, entry.version = one, version
        if same and not anyway:
            return []
        entry.since = version
        if same:
            return []
        return [Gone(name, old.metadata.uid), Changed(one)] if reborn else [Changed(one)]
