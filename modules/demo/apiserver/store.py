"""Everything the server remembers: objects by kind, one counter of versions, the history of each kind."""

from typing import Any, Final, NamedTuple

from modules.demo.apiserver.history import Change, History, Stored
from modules.demo.apiserver.kinds import Kind
from modules.demo.apiserver.status import Refusal

Object = dict[str, Any]
Key = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-scoped kinds."""

OBJECT_LIMIT: Final = 1_572_864
"""Bytes of one object as JSON: etcd's limit of a request, which is what ends large objects in a real cluster."""


class Table:
    """The objects of one kind."""

    def __init__(self, kind: Kind, history: int) -> None:
        self.kind = kind
        self.objects: dict[Key, Stored] = {}
        self.history = History(history)

    def under(self, namespace: str) -> list[Stored]:
        """The objects of a namespace (empty: of all), ordered as a list shows them."""
        keys = sorted(key for key in self.objects if not namespace or key[0] == namespace)
        return [self.objects[key] for key in keys]


class Target(NamedTuple):
    """A collection, an object in it, or a subresource of that."""

    table: Table
    namespace: str = ""
    name: str = ""
    """Empty: the collection."""
    sub: str = ""
    """Empty or ``status``."""

    @property
    def key(self) -> Key:
        """The key in the table."""
        return (self.namespace, self.name)


class Store:
    """Versions grow by one with each write, whatever its kind."""

    def __init__(self, kinds: list[Kind], history: int) -> None:
        self.tables = {(kind.prefix, kind.plural): Table(kind, history) for kind in kinds}
        self.version = 1

    def write(self, target: Target, value: Object) -> Stored:
        """Create or change one object; its resourceVersion is set here. Raises 500 when it is too large to be kept."""
        before = target.table.objects.get(target.key)
        after = self._next(value)
        if len(after.json) > OBJECT_LIMIT:
            raise Refusal(500, "", "etcdserver: request is too large")
        self.version = after.version
        target.table.objects[target.key] = after
        target.table.history.record(Change(after.version, before, after))
        return after

    def remove(self, target: Target, value: Object) -> Stored:
        """Delete one object whose last state is ``value``; watches are told what was stored, as upstream."""
        before = target.table.objects.pop(target.key)
        last = self._next(value)
        self.version = last.version
        target.table.history.record(Change(last.version, before, at_version(before.value, last.version), gone=True))
        return last

    def compact(self) -> None:
        """Forget all history: every watch and continue token from before gets 410."""
        for table in self.tables.values():
            table.history.forget(self.version)

    def _next(self, value: Object) -> Stored:
        return at_version(value, self.version + 1)


def at_version(value: Object, version: int) -> Stored:
    """``value`` with the resourceVersion ``version``."""
    return Stored(version, {**value, "metadata": {**value["metadata"], "resourceVersion": str(version)}})
