"""Configuration: YAML, environment and flags -> one strict Struct per module.

All problems are reported at once, each with its line and path, so that one round mends them. A section is a Struct
whose fields have defaults and docstrings; keys in files are written in camelCase (`rename="camel"`). A section may have
a method `problems()` that says which of its settings do not fit each other.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec
from msgspec import Struct

from beehive.errors import ConfigError, Problem
from beehive.settings import Duration, Port, Reader, did_you_mean, is_struct

__all__ = ["Duration", "Judged", "Port", "Source", "build", "checked", "environment_names", "load", "where"]

S = TypeVar("S", bound=Struct)

_SERVICE = re.compile(r"[A-Z0-9_]+_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)")


@runtime_checkable
class Judged(Protocol):
    """A section, or a group in it, whose settings must fit each other."""

    def problems(self) -> Iterable[tuple[str, str]]:
        """(name of the setting in the file, what is wrong and what to write instead), for each that does not fit."""


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
    reader = Reader()
    loaded = _loaded(sections, source, reader, others)
    for name, section in loaded.items():
        reader.problems += _misfits(section, name, reader)
    if reader.problems:
        raise ConfigError(source.name, reader.problems)
    return loaded


def where(sections: Mapping[str, type[Struct]], source: Source, path: str) -> str:
    """Where the setting `path` gets its value: `line 7`, a variable's or a flag's name, or `default`."""
    reader = Reader()
    _loaded(sections, source, reader, others=True)
    return reader.lines.get(path, "default")


def _loaded(sections: Mapping[str, type[Struct]], source: Source, reader: Reader, others: bool) -> dict[str, Any]:
    root = reader.parse(source.text)
    tree = reader.mapping(root, "") if root is not None else {}
    for name, (where, _) in tree.items():
        if name not in sections and not others:
            reader.complain(where, name, f"no such section{did_you_mean(name, sections)}")
    _complain_of_unknown_flags(sections, source, reader)
    _complain_of_unknown_variables(sections, source, reader)
    loaded = {}
    for name, kind in sections.items():
        values = reader.struct(tree[name][1], kind, name) if name in tree else {}
        _override(values, kind, name, source, reader)
        loaded[name] = build(kind, values)
    return loaded


def checked(section: S, name: str) -> S:
    """The same, if its settings fit each other: for one that was not loaded. Raises ConfigError with all problems."""
    problems = list(_misfits(section, name, Reader()))
    if problems:
        raise ConfigError("the configuration", problems)
    return section


def _misfits(section: Any, path: str, reader: Reader) -> Iterator[Problem]:
    """What a section and its groups say of themselves, but not of a setting that is wrong already."""
    if isinstance(section, Judged):
        for name, text in section.problems():
            full = f"{path}.{name}"
            if all(problem.path != full for problem in reader.problems):
                yield Problem(reader.lines.get(full) or reader.lines.get(path) or "default", full, text)
    for field in msgspec.structs.fields(section):
        if is_struct(field.type):
            yield from _misfits(getattr(section, field.name), f"{path}.{field.encode_name}", reader)


def _complain_of_unknown_flags(sections: Mapping[str, type[Struct]], source: Source, reader: Reader) -> None:
    known = {path for name, kind in sections.items() for path, _ in _leaves(kind, name)}
    for path in source.flags:
        if path not in known:
            reader.complain("flag", path, f"no such setting{did_you_mean(path, known)}")


def _complain_of_unknown_variables(sections: Mapping[str, type[Struct]], source: Source, reader: Reader) -> None:
    """A name below one of our sections, or nearly one of our names, but no setting."""
    known = [name for section, kind in sections.items() for name in environment_names(kind, section)]
    ours = tuple(f"BEEHIVE_{section.upper()}_" for section in sections)
    for name, value in source.environment.items():
        if not name.startswith("BEEHIVE_") or name in known or _is_service_link(name, value):
            continue
        near = did_you_mean(name, known, cutoff=0.85)
        if near or name.startswith(ours):
            reader.complain(name, "", f"no such setting{near}")


def _is_service_link(name: str, value: str) -> bool:
    """Kubernetes puts these into every container for every Service (https://kubernetes.io/docs/concepts/services-
    networking/service/#environment-variables); for one called `beehive-admission` they begin like settings of ours.
    """
    return bool(_SERVICE.fullmatch(name)) or (name.endswith("_PORT") and "://" in value)


def build(kind: type[S], values: Mapping[str, Any]) -> S:
    """Make the Struct from values that were each checked before."""
    made = {}
    for field in msgspec.structs.fields(kind):
        value = values.get(field.encode_name, msgspec.UNSET)
        if isinstance(value, Mapping) and is_struct(field.type):
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
        if is_struct(field.type):
            yield from _leaves(field.type, below)
        else:
            yield below, field.type


def _override(values: dict[str, Any], kind: type[Struct], section: str, source: Source, reader: Reader) -> None:
    leaves = dict(_leaves(kind, section))
    said = [(name, path, source.environment[name]) for name, path in environment_names(kind, section).items()
            if name in source.environment and not _is_service_link(name, source.environment[name])]  # fmt: skip
    said += [(f"--{path}", path, text) for path, text in source.flags.items() if path in leaves]
    for where, path, text in said:
        value = reader.text(text, leaves[path], where, path)
        inner = values
        *middle, last = path.split(".")[1:]
        for key in middle:
            inner = inner.setdefault(key, {})
        inner[last] = value
