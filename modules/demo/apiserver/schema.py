"""Structural schemas: find what breaks them, in the API server's words.

``old`` is the stored counterpart of a value. A part that is *identical* to its counterpart (see ``shaping.graft``) is
not looked into: a patch of one entry among thousands costs one entry, and what was valid when it was stored stays
accepted, as upstream ("ratcheting").
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from modules.demo.apiserver.equality import same
from modules.demo.apiserver.kinds import Schema
from modules.demo.apiserver.shaping import NOTHING, at, join
from modules.demo.apiserver.status import Cause

_NUMBERS: Final = (int, float)


def causes(value: Any, schema: Schema, old: Any = NOTHING, path: str = "") -> Iterator[Cause]:
    """Everything in ``value`` that the schema forbids, in the API server's words."""
    if value is old:
        return
    if value is None and schema.get("nullable"):
        return
    wrong = _wrong_type(value, schema, path)
    if wrong:
        yield wrong
        return
    yield from _of_any(value, schema, path)
    if isinstance(value, str):
        yield from _of_string(value, schema, path)
    elif isinstance(value, _NUMBERS) and not isinstance(value, bool):
        yield from _of_number(value, schema, path)
    elif isinstance(value, list):
        yield from _of_list(value, schema, old, path)
    elif isinstance(value, dict):
        yield from _of_object(value, schema, old, path)


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,), "integer": (int,), "number": _NUMBERS, "boolean": (bool,), "array": (list,), "object": (dict,),
}  # fmt: skip


def type_name(value: Any) -> str:
    """The JSON type of ``value``."""
    if isinstance(value, bool):
        return "boolean"
    return next((name for name, types in _TYPES.items() if isinstance(value, types)), "null")


def _wrong_type(value: Any, schema: Schema, path: str) -> Cause | None:
    if schema.get("x-kubernetes-int-or-string"):
        wanted = "integer,string"
        fits = isinstance(value, int | str) and not isinstance(value, bool)
    else:
        wanted = schema.get("type", "")
        fits = not wanted or (isinstance(value, _TYPES[wanted]) and (wanted == "boolean") == isinstance(value, bool))
        fits = fits or (wanted == "integer" and isinstance(value, float) and value.is_integer())
    if fits:
        return None
    found = type_name(value)
    return Cause(
        "FieldValueTypeInvalid", f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"', path
    )


def _of_any(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    allowed = schema.get("enum")
    if allowed is not None and not any(same(value, one) for one in allowed):
        told = ", ".join(quoted(one) for one in allowed)
        yield Cause("FieldValueNotSupported", f"Unsupported value: {quoted(value)}: supported values: {told}", path)
    for part in schema.get("allOf", ()):
        yield from causes(value, part, path=path)
    branches = schema.get("anyOf")
    if branches and not any(_fits(value, branch) for branch in branches):
        yield _invalid(value, path, f"{path} in body must validate at least one schema (anyOf)")
    branches = schema.get("oneOf")
    if branches and sum(_fits(value, branch) for branch in branches) != 1:
        yield _invalid(value, path, f"{path} in body must validate one and only one schema (oneOf)")
    if "not" in schema and _fits(value, schema["not"]):
        yield _invalid(value, path, f"{path} in body must not validate the schema (not)")


def _fits(value: Any, schema: Schema) -> bool:
    return next(causes(value, schema), None) is None


def _of_string(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    if longest is not None and len(value) > longest:
        yield Cause("FieldValueTooLong", f"Too long: may not be more than {longest} bytes", path)
    if shortest is not None and len(value) < shortest:
        yield _invalid(value, path, f"{path} in body should be at least {shortest} chars long")
    pattern = schema.get("pattern")
    if pattern and not _compiled(pattern).search(value):
        yield _invalid(value, path, f"{path} in body should match '{pattern}'")
    if schema.get("format") == "date-time" and not _is_time(value):
        told = f'Invalid value: "{value}": {path} in body must be of type date-time: "{value}"'
        yield Cause("FieldValueTypeInvalid", told, path)


def _of_number(value: float, schema: Schema, path: str) -> Iterator[Cause]:
    least, most, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    over, under = ("greater than", "less than")
    if least is not None and (value <= least if schema.get("exclusiveMinimum") else value < least):
        word = over if schema.get("exclusiveMinimum") else f"{over} or equal to"
        yield _invalid(value, path, f"{path} in body should be {word} {least}")
    if most is not None and (value >= most if schema.get("exclusiveMaximum") else value > most):
        word = under if schema.get("exclusiveMaximum") else f"{under} or equal to"
        yield _invalid(value, path, f"{path} in body should be {word} {most}")
    if step and value % step:
        yield _invalid(value, path, f"{path} in body should be a multiple of {step}")


def _of_list(value: list[Any], schema: Schema, old: Any, path: str) -> Iterator[Cause]:
    most, least = schema.get("maxItems"), schema.get("minItems")
    if most is not None and len(value) > most:
        yield Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} items", path)
    if least is not None and len(value) < least:
        yield _invalid(value, path, f"{path} in body should have at least {least} items")
    yield from _duplicates(value, schema, path)
    for i, item in enumerate(value):
        yield from causes(item, schema.get("items", {}), at(old, i), f"{path}[{i}]")


def _duplicates(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in {"set", "map"}:
        return
    names = schema.get("x-kubernetes-list-map-keys", ())
    seen: set[str] = set()
    for i, item in enumerate(value):
        key = {name: item.get(name) for name in names} if kind == "map" and isinstance(item, dict) else item
        if repr(key) in seen:
            yield Cause("FieldValueDuplicate", f"Duplicate value: {quoted(key)}", f"{path}[{i}]")
        seen.add(repr(key))


def _of_object(value: dict[str, Any], schema: Schema, old: Any, path: str) -> Iterator[Cause]:
    for name in schema.get("required", ()):
        if name not in value:
            yield Cause("FieldValueRequired", "Required value", join(path, name))
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if most is not None and len(value) > most:
        yield Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} items", path)
    if least is not None and len(value) < least:
        yield _invalid(value, path, f"{path} in body should have at least {least} properties")
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    for key, child in value.items():
        child_schema = properties.get(key, others)
        if isinstance(child_schema, dict):
            yield from causes(child, child_schema, at(old, key), join(path, key))


_BLOCKING: Final = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
UNCHECKED: Final = Cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    "<nil>",
)
"""Is told instead of what the rules in CEL would find, when the object is too wrong for them."""


def blocks_rules(found: Sequence[Cause]) -> bool:
    """Whether an object with these faults is not judged by the rules in CEL."""
    return any(cause.reason in _BLOCKING for cause in found)


def quoted(value: Any) -> str:
    """A value as the API server's messages print it."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f'"{type_name(value)}"' if isinstance(value, dict | list) else str(value)


def _invalid(value: Any, path: str, what: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {quoted(value)}: {what}", path)


def _is_time(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", text, re.ASCII):
        return False
    try:
        datetime.fromisoformat(re.sub(r"\.\d+", "", text.upper()))
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Go's RE2 in Python's terms: ``$`` is the very end, classes are ASCII."""
    return re.compile(re.sub(r"(?<!\\)\$", r"\\Z", pattern), re.ASCII)
