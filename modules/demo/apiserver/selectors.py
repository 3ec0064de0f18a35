"""Label and field selectors, from query parameter to predicate."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from modules.demo.apiserver.status import bad_request

Matches = Callable[[Mapping[str, Any]], bool]
Labels = Mapping[str, str]

_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_SET: Final = re.compile(rf"({_NAME})\s+(in|notin)\s*\(([^()]*)\)")
_EQUALITY: Final = re.compile(rf"({_NAME})\s*(==|=|!=)\s*([A-Za-z0-9._-]*)")
_COMPARISON: Final = re.compile(rf"({_NAME})\s*([<>])\s*(-?[0-9]+)")
_EXISTENCE: Final = re.compile(rf"(!?)\s*({_NAME})")


class Selection(NamedTuple):
    """Which objects of a kind a request is about."""

    labels: tuple[Callable[[Labels], bool], ...] = ()
    fields: tuple[tuple[str, str, bool], ...] = ()
    """(field, value, wanted equal)."""

    @property
    def everything(self) -> bool:
        """Nothing is selected away."""
        return not self.labels and not self.fields

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether ``obj`` is selected."""
        labels = obj["metadata"].get("labels") or {}
        return all(test(labels) for test in self.labels) and all(
            (_field(obj, name) == value) is equal for name, value, equal in self.fields
        )


def parse(label_selector: str, field_selector: str, known_fields: frozenset[str]) -> Selection:
    """The selection that two query parameters describe; 400 when one cannot be read or names an unknown field."""
    labels = tuple(_requirement(part) for part in _split(label_selector))
    return Selection(
        labels, tuple(_field_term(part, known_fields) for part in field_selector.split(",") if part.strip())
    )


def _split(selector: str) -> list[str]:
    """Split at commas outside parentheses."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", selector)] if selector.strip() else []


def _requirement(text: str) -> Callable[[Labels], bool]:
    if found := _SET.fullmatch(text):
        key, operator, values = found[1], found[2], {value.strip() for value in found[3].split(",")}
        return lambda labels: (
            (key in labels and labels[key] in values) if operator == "in" else labels.get(key) not in values
        )
    if found := _EQUALITY.fullmatch(text):
        key, operator, value = found[1], found[2], found[3]
        return lambda labels: (labels.get(key) != value) if operator == "!=" else labels.get(key) == value
    if found := _COMPARISON.fullmatch(text):
        key, greater, bound = found[1], found[2] == ">", int(found[3])
        return lambda labels: _compare(labels.get(key), greater, bound)
    if found := _EXISTENCE.fullmatch(text):
        absent, key = bool(found[1]), found[2]
        return lambda labels: (key in labels) is not absent
    raise bad_request(f"unable to parse requirement: found '{text}'")


def _compare(value: str | None, greater: bool, bound: int) -> bool:
    if value is None or not re.fullmatch(r"-?[0-9]+", value):
        return False
    return int(value) > bound if greater else int(value) < bound


def _field_term(text: str, known: frozenset[str]) -> tuple[str, str, bool]:
    found = re.fullmatch(r"\s*([^=!\s]+)\s*(==|=|!=)(.*)", text)
    if not found:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    if found[1] not in known:
        raise bad_request(f"field label not supported: {found[1]}")
    return found[1], found[3].strip(), found[2] != "!="


def _field(obj: Any, name: str) -> str:
    for part in name.split("."):
        obj = obj.get(part) if isinstance(obj, Mapping) else None
    if isinstance(obj, bool):
        return "true" if obj else "false"
    return "" if obj is None else str(obj)
