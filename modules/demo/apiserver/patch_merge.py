"""Merge patches: JSON merge patch (RFC 7386) and Kubernetes' strategic merge patch for built-in kinds."""

from collections.abc import Iterable, Mapping
from typing import Any

MergeKeys = Mapping[str, str]
"""Path of a list → the key by which its objects are merged; an empty key: a list of values, merged as a set."""


class MergeError(Exception):
    """The patch does not fit the document or contradicts itself."""


def merge(document: Any, patch: Any) -> Any:
    """``document`` after an RFC 7386 merge patch: ``null`` removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def strategic(document: Any, patch: Any, keys: MergeKeys, path: str = "") -> Any:
    """``document`` after a strategic merge patch, with ``keys`` saying which lists merge and by what."""
    if not isinstance(patch, dict):
        return patch
    match patch.get("$patch"):
        case "replace":
            return {key: value for key, value in patch.items() if key != "$patch"}
        case "delete":
            return {}
        case None | "merge":
            pass
        case other:
            raise MergeError(f"Unknown patch type {other!r} at {path or 'the root'}")
    merged = dict(document) if isinstance(document, dict) else {}
    _retain(merged, patch)
    for key, value in patch.items():
        _merge_field(merged, key, value, keys, f"{path}.{key}" if path else key)
    return merged


def _retain(merged: dict[str, Any], patch: dict[str, Any]) -> None:
    if "$retainKeys" in patch:
        kept = _list(patch["$retainKeys"])
        for key in [key for key in merged if key not in kept]:
            del merged[key]


def _merge_field(merged: dict[str, Any], key: str, value: Any, keys: MergeKeys, path: str) -> None:
    if key in {"$patch", "$retainKeys"}:
        return
    directive, _, target = key.partition("/")
    parent = path.removesuffix(key)
    if directive == "$deleteFromPrimitiveList":
        merged[target] = [item for item in merged.get(target) or () if item not in _list(value)]
    elif directive == "$setElementOrder":
        _reorder(merged, target, _list(value), keys.get(parent + target, ""))
    elif value is None:
        merged.pop(key, None)
    elif isinstance(value, list) and path in keys:
        merged[key] = _merge_list(merged.get(key) or [], value, keys, path)
    else:
        merged[key] = strategic(merged.get(key), value, keys, path)


def _merge_list(current: list[Any], patch: list[Any], keys: MergeKeys, path: str) -> list[Any]:
    key = keys[path]
    if not key:
        return [*current, *(item for item in patch if item not in current)]
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    merged = list(current)
    for item in patch:
        _merge_item(merged, item, key, keys, path)
    return merged


def _merge_item(merged: list[Any], item: Any, key: str, keys: MergeKeys, path: str) -> None:
    if not isinstance(item, dict) or key not in item:
        raise MergeError(f"map: {item!r} does not contain declared merge key: {key}")
    place = next((i for i, old in enumerate(merged) if isinstance(old, dict) and old.get(key) == item[key]), None)
    if item.get("$patch") == "delete":
        if place is not None:
            del merged[place]
    elif place is None:
        merged.append(strategic({}, item, keys, path))
    else:
        merged[place] = strategic(merged[place], item, keys, path)


def _reorder(merged: dict[str, Any], target: str, order: Iterable[Any], key: str) -> None:
    """Bring the items that ``order`` names into that order; the others stay behind them in theirs."""
    wanted = [item.get(key) if isinstance(item, dict) else item for item in order]

    def rank(item: Any) -> int:
        name = item.get(key) if isinstance(item, dict) else item
        return wanted.index(name) if name in wanted else len(wanted)

    if isinstance(merged.get(target), list):
        merged[target] = sorted(merged[target], key=rank)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise MergeError(f"a directive of a strategic merge patch needs a list, not {value!r}")
    return value
