"""JSON Patch (RFC 6902) as Kubernetes applies it (evanphx/json-patch v4), on values that are never changed in place.

Each operation copies only the containers on its path, so whatever a patch does not touch stays the identical object:
later steps (pruning, validation, "did anything change?") skip it. Differences from RFC 6902, as upstream: negative
indices count from the end; a key that an object does not have reads as null, so ``replace`` adds it, ``copy`` copies
null and ``test`` of null passes; an absent ``value`` is null.
"""

from collections.abc import Callable
from typing import Any, Final

from modules.demo.apiserver.equality import same

Path = tuple[str, ...]
Leaf = Callable[[Any, str], Any]
"""(container, key) -> a changed copy of the container."""

MAX_OPERATIONS: Final = 10_000


class PatchError(Exception):
    """An operation cannot be applied to this document."""


class PatchFormatError(Exception):
    """The patch itself is no JSON Patch."""


def apply(document: Any, operations: Any) -> Any:
    """``document`` after all operations. Raises `PatchFormatError` or `PatchError`; ``document`` is left as it was."""
    if not isinstance(operations, list):
        raise PatchFormatError("a JSON patch is a list of operations")
    for operation in operations:
        if not isinstance(operation, dict):
            raise PatchFormatError("each operation of a JSON patch is an object")
        document = _apply_one(document, operation)
    return document


def _apply_one(document: Any, operation: dict[str, Any]) -> Any:
    path = _path(operation.get("path"))
    match operation.get("op"):
        case "test":
            return _tested(document, path, operation.get("value"))
        case "add":
            return _edit(document, path, _adder(operation.get("value")))
        case "replace":
            return _edit(document, path, _replacer(operation.get("value")))
        case "remove":
            return _edit(document, path, _removed)
        case "copy":
            return _edit(document, path, _adder(_found(document, _path(operation.get("from")))))
        case "move":
            source = _path(operation.get("from"))
            moved = _found(document, source)
            return _edit(_edit(document, source, _removed), path, _adder(moved))
        case other:
            raise PatchError(f"unexpected kind: {other}")


def _path(pointer: Any) -> Path:
    if not isinstance(pointer, str) or not pointer.startswith("/"):
        raise PatchError(f"not a JSON pointer: {pointer!r}")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))


def _tested(document: Any, path: Path, expected: Any) -> Any:
    if not same(_found(document, path), expected):
        raise PatchError(f"testing value /{'/'.join(path)} failed")
    return document


def _found(document: Any, path: Path) -> Any:
    """What ``path`` names; None for a key that the last object does not have, which upstream reads as null."""
    for token in path[:-1]:
        document = _child(document, token)
    return document.get(path[-1]) if isinstance(document, dict) else _child(document, path[-1])


def _child(container: Any, token: str) -> Any:
    if isinstance(container, list):
        return container[_index(token, len(container))]
    found = container.get(token) if isinstance(container, dict) else None
    if found is None:
        raise PatchError(f"missing value: {token}")
    return found


def _edit(document: Any, path: Path, leaf: Leaf) -> Any:
    """A copy of ``document`` in which the container at the end of ``path`` is replaced by what ``leaf`` makes of it."""
    if len(path) == 1:
        if not isinstance(document, dict | list):
            raise PatchError(f"no container at {path[0]}")
        return leaf(document, path[0])
    changed = _edit(_child(document, path[0]), path[1:], leaf)
    if isinstance(document, dict):
        return {**document, path[0]: changed}
    copied = list(document)
    copied[_index(path[0], len(document))] = changed
    return copied


def _adder(value: Any) -> Leaf:
    def add(container: Any, key: str) -> Any:
        if isinstance(container, dict):
            return {**container, key: value}
        place = len(container) if key == "-" else _index(key, len(container) + 1)
        return [*container[:place], value, *container[place:]]

    return add


def _replacer(value: Any) -> Leaf:
    def replace(container: Any, key: str) -> Any:
        if isinstance(container, dict):
            return {**container, key: value}
        place = _index(key, len(container))
        return [*container[:place], value, *container[place + 1 :]]

    return replace


def _removed(container: Any, key: str) -> Any:
    if isinstance(container, dict):
        if key not in container:
            raise PatchError(f"nothing to remove: {key}")
        return {name: value for name, value in container.items() if name != key}
    place = _index(key, len(container))
    return [*container[:place], *container[place + 1 :]]


def _index(token: str, length: int) -> int:
    """The place that ``token`` names in a list with ``length`` places."""
    digits = token.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise PatchError(f"not an index: {token!r}")
    index = int(token)
    index = index + length if index < 0 else index
    if not 0 <= index < length:
        raise PatchError(f"index {token} is out of bounds")
    return index
