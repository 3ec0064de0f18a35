"""Configuration: YAML, environment and flags -> one strict Struct per module.

All problems are reported at once, each with its line and path, so that one round mends them. A section is a Struct
whose fields have defaults and docstrings; keys in files are written in camelCase (`rename="camel"`).
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar, get_origin

import msgspec
import yaml
from msgspec import Meta, Struct

from beehive.errors import ConfigError, Problem

S = TypeVar("S", bound=Struct)

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


class Source(Struct, frozen=True):
    """Where settings come from, lowest first: the file, the environment, the flags."""

    name: str = "configuration"
    """Name of the file, for people."""
    text: str = ""
    environment: Mapping[str, str] = {}
    flags: Mapping[str, str] = {}
    """Dotted path -> value as on the command line."""


def load(sections: Mapping[str, type[Struct]], source: Source, *, others: bool = False) -> dict[str, Any]:
    """Every section as its Struct; with `others` the file may have sections that are somebody else's.

    Raises ConfigError that holds all problems.
    """
    reader = _Reader()
    root = reader.parse(source)
    tree = reader.mapping(root, "") if root is not None else {}
    for name, node in tree.items():
        if name not in sections and not others:
            reader.unknown(node, name, name, sections, "section")
    loaded = {}
    for name, kind in sections.items():
        values = reader.struct(tree[name][1], kind, name) if name in tree else {}
        _override(values, kind, name, source, reader)
        loaded[name] = values
    if reader.problems:
        raise ConfigError(source.name, reader.problems)
    return {name: build(sections[name], values) for name, values in loaded.items()}


def build(kind: type[S], values: Mapping[str, Any]) -> S:
    """Make the Struct from values that were each checked before."""
    made = {}
    for field in msgspec.structs.fields(kind):
        value = values.get(field.encode_name, msgspec.UNSET)
        if isinstance(value, Mapping) and _is_struct(field.type):
            value = build(field.type, value)
        if value is not msgspec.UNSET:
            made[field.name] = value
    return kind(**made)


def environment_names(kind: type[Struct], section: str) -> dict[str, str]:
    """`BEEHIVE_CLOUDHUB_WEBSOCKET_PORT` -> `cloudhub.websocket.port`, for all leaves of a section."""
    return {"BEEHIVE_" + path.replace(".", "_").upper(): path for path, _ in _leaves(kind, section)}


def _leaves(kind: type[Struct], path: str) -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(kind):
        below = f"{path}.{field.encode_name}"
        if _is_struct(field.type):
            yield from _leaves(field.type, below)
        else:
            yield below, field.type


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _override(values: dict[str, Any], kind: type[Struct], section: str, source: Source, reader: "_Reader") -> None:
    leaves = dict(_leaves(kind, section))
    said = [(name, path, source.environment[name]) for name, path in environment_names(kind, section).items()
            if name in source.environment]  # fmt: skip
    for path, text in source.flags.items():
        if path in leaves:
            said.append((f"--{path}", path, text))
        elif path.partition(".")[0] == section:
            reader.problems.append(Problem("flag", path, f"no such setting{_did_you_mean(path, leaves)}"))
    for where, path, text in said:
        value = reader.leaf(yaml.safe_load(text), leaves[path], where, path)
        inner = values
        *middle, last = path.split(".")[1:]
        for key in middle:
            inner = inner.setdefault(key, {})
        inner[last] = value


def _did_you_mean(word: str, known: Mapping[str, Any] | list[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


class _Reader:
    """Walks PyYAML's node tree, which still knows the lines."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def parse(self, source: Source) -> yaml.Node | None:
        try:
            return yaml.compose(source.text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            where = f"line {mark.line + 1}" if mark else "file"
            self.problems.append(Problem(where, "", f"not YAML: {error.problem or error.context}"))
        except yaml.YAMLError as error:
            self.problems.append(Problem("file", "", f"not YAML: {error}"))
        return None

    def mapping(self, node: yaml.Node, path: str) -> dict[str, tuple[int, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            if not (isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")):
                self.problems.append(Problem(_line(node), path, "expected settings below it, one `name: value` a line"))
            return {}
        found: dict[str, tuple[int, yaml.Node]] = {}
        for key, value in node.value:
            if key.value in found:
                first = found[key.value][0]
                text = f"stands twice, first in line {first}; take one away"
                self.problems.append(Problem(_line(key), _join(path, key.value), text))
            found[str(key.value)] = (key.start_mark.line + 1, value)
        return found

    def unknown(self, found: tuple[int, yaml.Node], path: str, name: str, known: Mapping[str, Any], what: str) -> None:
        self.problems.append(Problem(f"line {found[0]}", path, f"no such {what}{_did_you_mean(name, known)}"))

    def struct(self, node: yaml.Node, kind: type[Struct], path: str) -> dict[str, Any]:
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        values: dict[str, Any] = {}
        for name, (line, below) in self.mapping(node, path).items():
            field = fields.get(name)
            if field is None:
                self.unknown((line, below), _join(path, name), name, fields, "setting")
            elif _is_struct(field.type):
                values[name] = self.struct(below, field.type, _join(path, name))
            else:
                loader = yaml.SafeLoader("")
                try:
                    plain = loader.construct_object(below, deep=True)
                except yaml.YAMLError as error:
                    self.problems.append(Problem(f"line {line}", _join(path, name), f"cannot be read: {error}"))
                    continue
                values[name] = self.leaf(plain, field.type, f"line {line}", _join(path, name))
        return values

    def leaf(self, value: object, kind: Any, where: str, path: str) -> Any:
        try:
            return msgspec.convert(value, kind, dec_hook=_convert_own)
        except (msgspec.ValidationError, ValueError) as error:
            self.problems.append(Problem(where, path, _explain(value, kind, error)))
            return msgspec.UNSET


def _convert_own(kind: type, value: object) -> object:
    if kind is Duration:
        return Duration.parse(value)
    raise TypeError(f"a setting cannot have the type {kind}")


def _explain(value: object, kind: Any, error: Exception) -> str:
    if get_origin(kind) is Annotated:
        for meta in kind.__metadata__:
            if isinstance(meta, Meta) and meta.title:
                return f"{value} is not {meta.title}"
    text = str(error).partition(" - at `$`")[0]
    return text if "has no unit" in text or "duration" in text else f"{value!r} does not fit: {_lower(text)}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"
