"""Values and functions of the part of CEL (Common Expression Language) that CRD rules use."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from modules.demo.apiserver.equality import same


class CelError(Exception):
    """An expression has no value: a missing key, a type that does not fit."""


class Optional(NamedTuple):
    """An optional value (``a.?b``)."""

    present: bool
    value: Any = None


def select(container: Any, key: Any) -> Any:
    """``container.key`` or ``container[key]``; of an optional: an optional."""
    if isinstance(container, Optional):
        return select_optional(container, key)
    found = select_optional(container, key)
    if not found.present:
        raise CelError(f"no such key: {key}")
    return found.value


def select_optional(container: Any, key: Any) -> Optional:
    """``container.?key``."""
    if isinstance(container, Optional):
        return select_optional(container.value, key) if container.present else container
    if isinstance(container, Mapping):
        return Optional(True, container[key]) if key in container else Optional(False)
    if isinstance(container, list) and isinstance(key, int):
        return Optional(True, container[key]) if 0 <= key < len(container) else Optional(False)
    raise CelError(f"no such overload: cannot look up {key!r} here")


def equal(left: Any, right: Any) -> bool:
    """``==``: numbers across their types, everything else by structure."""
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    return (
        left == right if numbers and not isinstance(left, bool) and not isinstance(right, bool) else same(left, right)
    )


def ordered(left: Any, right: Any) -> tuple[Any, Any]:
    """Two values that have an order; CelError for others."""
    number = isinstance(left, int | float) and isinstance(right, int | float)
    if number or type(left) is type(right) is str:
        return left, right
    raise CelError("no such overload: these have no order")


def truth(value: Any) -> bool:
    """A boolean, which CEL never makes of anything else."""
    if not isinstance(value, bool):
        raise CelError("no such overload: not a boolean")
    return value


def size(value: Any) -> int:
    """``size()`` of a string, list or map."""
    if isinstance(value, str | list | Mapping):
        return len(value)
    raise CelError("no such overload: size")


def contained(item: Any, container: Any) -> bool:
    """``in``."""
    if isinstance(container, Mapping):
        return item in container
    if isinstance(container, list):
        return any(equal(item, one) for one in container)
    raise CelError("no such overload: in")


def add(left: Any, right: Any) -> Any:
    """``+`` of numbers, strings, lists."""
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    fits = numbers or type(left) is type(right) in {str, list}
    if not fits:
        raise CelError("no such overload: +")
    return left + right


def arithmetic(operator: str, left: Any, right: Any) -> Any:
    """``- * / %``; integers divide towards zero."""
    if not (isinstance(left, int | float) and isinstance(right, int | float)):
        raise CelError(f"no such overload: {operator}")
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if right == 0:
        raise CelError("division by zero")
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if operator == "/" else left - right * quotient


@lru_cache(maxsize=1024)
def pattern(text: str) -> re.Pattern[str]:
    """A regular expression in Go's reading: ``$`` is the very end, classes are ASCII."""
    return re.compile(re.sub(r"(?<!\\)\$", r"\\Z", text), re.ASCII)


def _text(function: Callable[[str, str], Any]) -> Callable[..., Any]:
    def checked(target: Any, argument: Any) -> Any:
        if not (isinstance(target, str) and isinstance(argument, str)):
            raise CelError("no such overload: not a string")
        return function(target, argument)

    return checked


def to_string(value: Any) -> str:
    """``string()``."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def to_number(kind: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``int()`` and ``double()``."""

    def convert(value: Any) -> Any:
        try:
            return kind(value)
        except (TypeError, ValueError) as error:
            raise CelError(f"type conversion error: {value!r}") from error

    return convert


def _value_of(optional: Any) -> Any:
    if not optional.present:
        raise CelError("optional.none() dereference")
    return optional.value


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "size": size,
    "string": to_string,
    "int": to_number(int),
    "double": to_number(float),
}
METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "size": size,
    "matches": _text(lambda target, text: bool(pattern(text).search(target))),
    "startsWith": _text(str.startswith),
    "endsWith": _text(str.endswith),
    "contains": _text(lambda target, text: text in target),
    "split": _text(lambda target, text: target.split(text)),
    "lowerAscii": lambda target: str(target).lower(),
    "orValue": lambda optional, other: optional.value if optional.present else other,
    "hasValue": lambda optional: optional.present,
    "value": _value_of,
}
