"""Structural schemas: bring an object into the shape that is stored.

No value is changed in place; what needs no change is returned as the identical value.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from modules.demo.apiserver.equality import same
from modules.demo.apiserver.kinds import Schema

Unknown = Callable[[str], None]
"""Is told the path of each field that was pruned."""

NOTHING: Final[Any] = object()
"""There is no stored counterpart."""


def graft(value: Any, old: Any) -> Any:
    """``value`` with every part that equals its counterpart in ``old`` replaced by that very part."""
    if value is old:
        return old
    if isinstance(value, dict) and isinstance(old, dict):
        grafted = {key: graft(child, old.get(key, NOTHING)) for key, child in value.items()}
        unchanged = len(grafted) == len(old) and all(child is old.get(key, NOTHING) for key, child in grafted.items())
        return old if unchanged else grafted
    if isinstance(value, list) and isinstance(old, list):
        listed = [graft(child, old[i] if i < len(old) else NOTHING) for i, child in enumerate(value)]
        unchanged = len(listed) == len(old) and all(new is before for new, before in zip(listed, old, strict=True))
        return old if unchanged else listed
    return old if same(value, old) else value


def prune(value: Any, schema: Schema, old: Any = NOTHING, path: str = "", unknown: Unknown = lambda _: None) -> Any:
    """``value`` without the fields that the schema does not specify, and without ``null`` where none is allowed."""
    if value is old:
        return value
    if isinstance(value, dict):
        pruned = dict(_kept(value, schema, old, path, unknown))
        same_parts = len(pruned) == len(value) and all(child is value[key] for key, child in pruned.items())
        return value if same_parts else pruned
    if isinstance(value, list):
        items = schema.get("items", {})
        return _unless_same(value, [prune(v, items, at(old, i), f"{path}[{i}]", unknown) for i, v in enumerate(value)])
    return value


def _kept(value: dict[str, Any], schema: Schema, old: Any, path: str, unknown: Unknown) -> Iterator[tuple[str, Any]]:
    loose = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("additionalProperties") is True
    for key, child in value.items():
        child_schema = field_schema(schema, key)
        where = join(path, key)
        if child_schema is None and not loose:
            unknown(where)
        elif child_schema is None:
            yield key, child
        elif child is not None or child_schema.get("nullable") or "default" in child_schema:
            yield key, prune(child, child_schema, at(old, key), where, unknown)


def default(value: Any, schema: Schema, old: Any = NOTHING) -> Any:
    """``value`` with the schema's defaults; ``null`` where it is not allowed counts as absent."""
    if value is old:
        return value
    if isinstance(value, dict):
        return _with_defaults(value, schema, old)
    if isinstance(value, list):
        items = schema.get("items", {})
        return _unless_same(value, [default(v, items, at(old, i)) for i, v in enumerate(value)])
    return value


def _with_defaults(value: dict[str, Any], schema: Schema, old: Any) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for key, child_schema in schema.get("properties", {}).items():
        missing = key not in value or (value[key] is None and not child_schema.get("nullable"))
        if missing and "default" in child_schema:
            changed[key] = default(child_schema["default"], child_schema)
    for key, child in value.items():
        child_schema = field_schema(schema, key)
        filled = child if key in changed or child_schema is None else default(child, child_schema, at(old, key))
        if filled is not child:
            changed[key] = filled
    return {**value, **changed} if changed else value


def field_schema(schema: Schema, key: str) -> Schema | None:
    """What the schema says about the field ``key``; None when it does not know it."""
    found = schema.get("properties", {}).get(key)
    if found is None and isinstance(schema.get("additionalProperties"), dict):
        found = schema["additionalProperties"]
    return found  # type: ignore[no-any-return]


def at(old: Any, key: Any) -> Any:
    """The counterpart of the part ``key``."""
    if isinstance(old, dict):
        return old.get(key, NOTHING)
    if isinstance(old, list) and isinstance(key, int) and key < len(old):
        return old[key]
    return NOTHING


def join(path: str, key: str) -> str:
    """The path of a field of the object at ``path``."""
    return f"{path}.{key}" if path else key


def _unless_same(value: list[Any], listed: list[Any]) -> list[Any]:
    return value if all(new is before for new, before in zip(listed, value, strict=True)) else listed
