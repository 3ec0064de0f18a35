"""Who gets a message of this type? Pure: declarations in, a table or a list of complaints out.

A runtime refuses to start on a complaint, so that a conversation that cannot work is found before the first message.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from beehive.message import Command, Draining, Event, Lagged, Message, ModuleFailed, Request

Kinds = tuple[type[Message], ...]


KERNELS_OWN = frozenset({Lagged, ModuleFailed, Draining})
"""Events that only the kernel publishes."""


class Declaration(NamedTuple):
    """What one module says about its conversation."""

    name: str
    accepts: Kinds = ()
    sends: Kinds = ()
    """Commands that it sends and events that it publishes."""
    asks: Kinds = ()
    optional: bool = False
    """Others may send to it although it is not there (it was left out of this process)."""


class Routes(NamedTuple):
    """The table: one owner for each command and request, the subscribers of each event."""

    owners: Mapping[type[Message], str]
    subscribers: Mapping[type[Message], tuple[str, ...]]


def routes(declarations: Iterable[Declaration]) -> Routes:
    """Build the table; events without subscribers are in it with none."""
    owners: dict[type[Message], str] = {}
    subscribers: dict[type[Message], tuple[str, ...]] = {}
    for declaration in declarations:
        for kind in declaration.accepts:
            if issubclass(kind, Event):
                subscribers[kind] = (*subscribers.get(kind, ()), declaration.name)
            else:
                owners[kind] = declaration.name
        for kind in declaration.sends:
            if issubclass(kind, Event):
                subscribers.setdefault(kind, ())
    return Routes(owners, subscribers)


def complaints(declarations: Iterable[Declaration], absent: Kinds = ()) -> list[str]:
    """Everything that makes this set of modules impossible, as sentences that name the modules.

    `absent` are the kinds that modules left out of this process on purpose would own.
    """
    known = tuple(declarations)
    return [*_misused(known), *_twice_owned(known), *_unowned(known, absent), *_cycles(known)]


def _misused(known: tuple[Declaration, ...]) -> list[str]:
    said = []
    for one in known:
        said += [
            f"{one.name} declares that it sends {kind.__name__}, which is a request: it must be asked."
            for kind in one.sends
            if issubclass(kind, Request)
        ]
        said += [
            f"{one.name} declares that it asks {kind.__name__}, which is not a request: it must be sent."
            for kind in one.asks
            if not issubclass(kind, Request)
        ]
    return said


def _twice_owned(known: tuple[Declaration, ...]) -> list[str]:
    owners: dict[type[Message], list[str]] = {}
    for one in known:
        for kind in one.accepts:
            if not issubclass(kind, Event):
                owners.setdefault(kind, []).append(one.name)
    return [
        f"{kind.__name__} has two owners, {' and '.join(names)}: exactly one module may accept it."
        for kind, names in owners.items()
        if len(names) > 1
    ]


def _unowned(known: tuple[Declaration, ...], absent: Kinds) -> list[str]:
    owned = {kind for one in known for kind in one.accepts} | set(absent)
    said = []
    for one in known:
        for kind in (*one.sends, *one.asks):
            if kind not in owned and issubclass(kind, Command | Request):
                verb = "asks" if issubclass(kind, Request) else "sends"
                said.append(f"{one.name} {verb} {kind.__name__}, but no module in this mode accepts it.")
    published = {kind for one in known for kind in one.sends} | KERNELS_OWN | set(absent)
    said += [
        f"{one.name} waits for {kind.__name__}, but no module in this mode publishes it."
        for one in known
        for kind in one.accepts
        if issubclass(kind, Event) and kind not in published
    ]
    return said


def _cycles(known: tuple[Declaration, ...]) -> list[str]:
    """Asks must form no cycle: two modules that wait for each other's answer never get one."""
    owner = {kind: one.name for one in known for kind in one.accepts}
    asked = {one.name: sorted({owner[kind] for kind in one.asks if kind in owner}) for one in known}
    for start in sorted(asked):
        path = _path_back(start, asked)
        if path:
            return [f"Asks form a cycle: {' asks '.join(path)}. One of them must send a command instead."]
    return []


def _path_back(start: str, asked: Mapping[str, list[str]]) -> list[str]:
    ways = [[start]]
    seen = set()
    while ways:
        way = ways.pop()
        for following in asked.get(way[-1], ()):
            if following == start:
                return [*way, start]
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return []
