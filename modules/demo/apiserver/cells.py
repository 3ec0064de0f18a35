"""The cells of ``kubectl get``: JSONPath as CRDs use it, the computed cells of built-in kinds, ages."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from modules.demo.apiserver.kinds import Column

_STEP: Final = re.compile(
    r"""\.(?P<name>[A-Za-z0-9_-]+)|\[['"](?P<quoted>[^'"]+)['"]\]|\[(?P<index>-?\d+)\]|\[(?P<all>\*)\]"""
    r"""|\[\?\(@\.(?P<key>[A-Za-z0-9_.]+)\s*==\s*['"](?P<value>[^'"]*)['"]\)\]""",
    re.ASCII,
)


def cell(column: Column, obj: Mapping[str, Any], now: datetime) -> Any:
    """What stands in one column of an object's row."""
    computed = COMPUTED.get(column.path)
    if computed:
        return computed(obj)
    found = list(select(_steps(column.path), obj))
    if not found or found[0] is None:
        return None
    if column.type == "date":
        return age(found[0], now)
    return str(found[0]) if column.type == "string" and not isinstance(found[0], dict | list) else found[0]


def steps(path: str) -> tuple[re.Match[str], ...]:
    """The steps of a JSONPath of fields, indices, ``[*]`` and ``[?(@.key=="value")]``; ``ValueError`` for others."""
    found: list[re.Match[str]] = []
    while path:
        step = _STEP.match(path)
        if step is None:
            raise ValueError(f"the embedded API server does not cover this JSONPath of a column: {path!r}")
        found.append(step)
        path = path[step.end() :]
    return tuple(found)


def select(path: Sequence[re.Match[str]], value: Any) -> Iterator[Any]:
    """All that the steps of a path name in ``value``."""
    if not path:
        yield value
        return
    for found in _step(path[0], value):
        yield from select(path[1:], found)


def _step(step: re.Match[str], value: Any) -> Iterator[Any]:
    name = step["name"] or step["quoted"]
    if name:
        if isinstance(value, Mapping) and name in value:
            yield value[name]
    elif isinstance(value, list) and step["index"]:
        yield from value[int(step["index"]) :][:1]
    elif isinstance(value, list) and step["all"]:
        yield from value
    elif isinstance(value, list):
        yield from (item for item in value if isinstance(item, Mapping) and item.get(step["key"]) == step["value"])


_steps = lru_cache(maxsize=256)(steps)


def check(columns: Iterable[Column]) -> None:
    """``ValueError`` for a column that cannot be shown."""
    for column in columns:
        if column.path not in COMPUTED:
            steps(column.path)


def age(timestamp: Any, now: datetime) -> str:
    """How long ago, as kubectl words it: ``45s``, ``3m20s``, ``5h``, ``2d``."""
    try:
        then = datetime.fromisoformat(str(timestamp))
    except ValueError:
        return "<invalid>"
    seconds = int((now.astimezone(UTC) - then).total_seconds())
    if seconds < 0:
        return "0s" if seconds >= -2 else "<invalid>"
    return human(seconds)


def human(seconds: int) -> str:
    """A duration with one or two units, as kubectl words it."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 2920 else f"{days // 365}y"


def _two(much: int, unit: str, rest: int, smaller: str) -> str:
    return f"{much}{unit}{rest}{smaller}" if rest else f"{much}{unit}"


def _node_status(node: Mapping[str, Any]) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((one.get("status") for one in conditions if one.get("type") == "Ready"), None)
    told = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return f"{told},SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else told


def _node_roles(node: Mapping[str, Any]) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))) or "<none>"


def _data_count(obj: Mapping[str, Any]) -> str:
    return str(len(obj.get("data") or ()) + len(obj.get("binaryData") or ()))


def _event_object(event: Mapping[str, Any]) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


COMPUTED: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    "node_status": _node_status,
    "node_roles": _node_roles,
    "data_count": _data_count,
    "event_object": _event_object,
}
