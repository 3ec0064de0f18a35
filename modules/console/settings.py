"""docs/settings.md: every setting of the configuration, its default and its meaning, made from the code."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from beehive.api.structural import explained
from beehive.config import Duration, environment_names
from beehive.settings import is_struct

_HEAD = """\
# Settings

A process reads a YAML file (`--config FILE`), then the environment, then its flags; what comes later wins. Nothing that
is not listed here is taken: `beehive config check FILE` names every problem with its line, and a process that finds one
ends with 78 and the same words. `beehive config show FILE` prints all settings as they are in force.

`cloudhub.websocket.port` is, in a file, `cloudhub: {websocket: {port: 10000}}`; in the environment
`BEEHIVE_CLOUDHUB_WEBSOCKET_PORT=10000`; as a flag `--set cloudhub.websocket.port=10000`. Durations have a unit:
`250ms`, `30s`, `5m`, `1h`, `7d`. A file may hold the sections of both modes; each process uses those of its own
modules, and all are checked. The variables that Kubernetes makes of Services (`BEEHIVE_…_SERVICE_HOST`,
`BEEHIVE_…_PORT=tcp://…`) are left alone; any other variable that is named below a section or nearly like a setting,
and is none, is refused.

Made from the code by `make docs`.
"""


def paper(sections: Mapping[str, type[Struct]]) -> str:
    """The whole page. Raises KeyError, naming the setting, when one has no docstring."""
    parts = [_HEAD]
    for name, kind in sections.items():
        names = {path: variable for variable, path in environment_names(kind, name).items()}
        rows = [f"| `{path}` | `{names[path]}` | {default} | {text} |" for path, default, text in _leaves(kind, name)]
        if rows:
            parts += [f"\n## {name}\n", "| Setting | Environment | Default | Meaning |", "|---|---|---|---|", *rows]
    return "\n".join(parts) + "\n"


def _leaves(kind: type[Struct], path: str) -> Iterator[tuple[str, str, str]]:
    told = explained(kind)
    for field in msgspec.structs.fields(kind):
        below = f"{path}.{field.encode_name}"
        if is_struct(field.type):
            yield from _leaves(field.type, below)
        else:
            yield below, _spoken(field), told[field.name].replace("|", "\\|")


def _spoken(field: Any) -> str:
    """Its default as it would be written in a file."""
    if field.default is msgspec.NODEFAULT:
        return "required" if field.default_factory is msgspec.NODEFAULT else _written(field.default_factory())
    return _written(field.default)


def _written(value: Any) -> str:
    if isinstance(value, Duration):
        return f"`{value.spoken()}`"
    if value in ("", None, (), {}):
        return "none"
    return f"`{json.dumps(msgspec.to_builtins(value), ensure_ascii=False)}`".replace("|", "\\|")
