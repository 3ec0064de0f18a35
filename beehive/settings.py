"""One setting at a time: its type, its spelling in YAML, and what is wrong with it and where."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
import yaml
from msgspec import Meta, Struct

from beehive.errors import Problem

Port = Annotated[int, Meta(ge=0, le=65535, title="a port; give 1 to 65535")]
"""A TCP port; 0 asks the kernel for a free one."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")


class Duration(float):
    """Seconds; written with a unit: `250ms`, `30s`, `5m`, `1h`, `7d`."""

    def spoken(self) -> str:
        """As it is written in a file, in the largest unit of which it is a whole number."""
        for unit in ("d", "h", "m", "s"):
            if self >= _UNITS[unit] and self % _UNITS[unit] == 0:
                return f"{int(self / _UNITS[unit])}{unit}"
        return f"{float(self):g}s"

    @classmethod
    def parse(cls, value: object) -> "Duration":
        """Raises ValueError with what to write instead."""
        found = _DURATION.fullmatch(str(value)) if isinstance(value, str) else None
        if found:
            return cls(float(found[1]) * _UNITS[found[2]])
        if isinstance(value, int | float) or (isinstance(value, str) and value.replace(".", "", 1).isdigit()):
            raise ValueError(f'"{value}" has no unit; write {value}s')
        raise ValueError(f'"{value}" is not a duration; write one like 30s, 5m or 1h')


_UNREADABLE = (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError)
"""What PyYAML raises on text that it can make no value of: a date that is none, a mapping as key, thousands of `[`."""


class Reader:
    """Walks PyYAML's node tree, which still knows the lines, and collects problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.lines: dict[str, str] = {}
        """Dotted path -> where it was set."""

    def complain(self, where: str, path: str, text: str) -> None:
        """One more problem."""
        self.problems.append(Problem(where, path, text))

    def parse(self, text: str) -> yaml.Node | None:
        """The tree of a whole file."""
        try:
            return yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            self.complain(
                f"line {mark.line + 1}" if mark else "file", "", f"not YAML: {error.problem or error.context}"
            )
        except RecursionError:
            self.complain("file", "", "not YAML that can be read: nested too deeply")
        except yaml.YAMLError as error:
            self.complain("file", "", f"not YAML: {error}")
        return None

    def mapping(self, node: yaml.Node, path: str) -> dict[str, tuple[str, yaml.Node]]:
        """Name -> where it stands and its node; names that stand twice or are none are complained of."""
        if not isinstance(node, yaml.MappingNode):
            if not (isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")):
                self.complain(_line(node), path, "expected settings below it, one `name: value` a line")
            return {}
        found: dict[str, tuple[str, yaml.Node]] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.complain(_line(key), path, "a list or a mapping cannot be a name")
                continue
            if key.value in found:
                self.complain(
                    _line(key), join(path, key.value), f"stands twice, first in {found[key.value][0]}; take one away"
                )
            found[str(key.value)] = (_line(key), value)
        return found

    def struct(self, node: yaml.Node, kind: type[Struct], path: str) -> dict[str, Any]:
        """The values that the file has for a section, by their names in the file; each fits its field."""
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        values: dict[str, Any] = {}
        for name, (where, below) in self.mapping(node, path).items():
            field, full = fields.get(name), join(path, name)
            self.lines[full] = where
            if field is None:
                self.complain(where, full, f"no such setting{did_you_mean(name, fields)}")
            elif is_struct(field.type):
                values[name] = self.struct(below, field.type, full)
            else:
                values[name] = self._node(below, field.type, where, full)
        return values

    def text(self, text: str, kind: Any, where: str, path: str) -> Any:
        """A value from the environment or a flag, written as in YAML."""
        self.lines[path] = where
        try:
            value = yaml.safe_load(text)
        except _UNREADABLE as error:
            self.complain(where, path, f"{text!r} cannot be read: {_first_line(error)}")
            return msgspec.UNSET
        return self._leaf(value, kind, where, path)

    def _node(self, node: yaml.Node, kind: Any, where: str, path: str) -> Any:
        try:
            value = yaml.SafeLoader("").construct_object(node, deep=True)
        except _UNREADABLE as error:
            self.complain(where, path, f"cannot be read: {_first_line(error)}")
            return msgspec.UNSET
        return self._leaf(value, kind, where, path)

    def _leaf(self, value: object, kind: Any, where: str, path: str) -> Any:
        try:
            return msgspec.convert(value, kind, dec_hook=_convert_own)
        except (msgspec.ValidationError, ValueError) as error:
            self.complain(where, path, _explain(value, kind, error))
            return msgspec.UNSET


def is_struct(kind: Any) -> bool:
    """A group of settings."""
    return isinstance(kind, type) and issubclass(kind, Struct)


def did_you_mean(word: str, known: Mapping[str, Any] | Iterable[str], cutoff: float = 0.6) -> str:
    """`; did you mean cloudhub?`, or nothing; `cutoff` is how alike they must be, at most 1."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]}?" if near else ""


def join(path: str, name: str) -> str:
    """A dotted path."""
    return f"{path}.{name}" if path else name


def _convert_own(kind: type, value: object) -> object:
    if kind is Duration:
        return Duration.parse(value)
    raise TypeError(f"a setting cannot have the type {kind}")


def _explain(value: object, kind: Any, error: Exception) -> str:
    if get_origin(kind) is Annotated:
        for meta in kind.__metadata__:
            if isinstance(meta, Meta) and meta.title:
                return f"{value} is not {meta.title}"
    if get_origin(kind) is Literal:
        return f"{value!r} is not one of {', '.join(str(one) for one in get_args(kind))}"
    text = str(error).partition(" - at `$`")[0]
    return text if "has no unit" in text or "duration" in text else f"{value!r} does not fit: {_lower(text)}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"
