"""Everything the server remembers: objects by kind, one counter of versions, the history of each kind."""

from typing import Any, Final

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


class Store:
    """Versions grow by one with each write, whatever its kind."""

    def __init__(self, kinds: list[Kind], history: int) -> None:
        self.tables = {(kind.prefix, kind.plural): Table(kind, history) for kind in kinds}
        self.version = 1

    def write(self, table: Table, key: Key, value: Object) -> Stored:
        """Create or change one object; its resourceVersion is set here. Raises 500 when it is too large to be kept."""
        before = table.objects.get(key)
        after = self._next(value)
        if len(after.json) > OBJECT_LIMIT:
            raise Refusal(500, "", "etcdserver: request is too large")
        self.version = after.version
        table.objects[key] = after
        table.history.record(Change(after.version, before, after))
        return after

    def remove(self, table: Table, key: Key, value: Object) -> Stored:
        """Delete one object whose last state was ``value``."""
        before = table.objects.pop(key)
        after = self._next(value)
        self.version = after.version
        table.history.record(Change(after.version, before, after, gone=True))
        return after

    def compact(self) -> None:
        """Forget all history: every watch and continue token from before gets 410."""
        for table in self.tables.values():
            table.history.forget(self.version)

    def _next(self, value: Object) -> Stored:
        version = self.version + 1
        return Stored(version, {**value, "metadata": {**value["metadata"], "resourceVersion": str(version)}})
