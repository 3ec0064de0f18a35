"""The conversation between the modules as a table and as a diagram (`beehive routes`)."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from beehive.journal import Journal
from beehive.message import Command, Event, Message, Request
from beehive.module import ModuleSpec
from beehive.router import KERNELS_OWN, Declaration, routes
from beehive.runtime import chosen, declarations
from beehive.world import World


def declared(registry: Sequence[ModuleSpec], mode: str) -> list[Declaration]:
    """What the modules of a mode declare."""
    specs = chosen(registry, mode)
    made = {spec.name: getattr(spec, mode)(spec.config(), World(), Journal(Path("/nonexistent"))) for spec in specs}
    return declarations(specs, made)


def lines(registry: Sequence[ModuleSpec], mode: str) -> Iterator[tuple[str, str, str, str]]:
    """(kind, message, who says it, who gets it), sorted by message."""
    known = declared(registry, mode)
    table_ = routes(known)
    for message in sorted({*table_.owners, *table_.subscribers}, key=lambda one: one.__name__):
        said = [one.name for one in known if message in (*one.sends, *one.asks)]
        got = table_.subscribers[message] if message in table_.subscribers else (table_.owners[message],)
        nobody = "kernel" if message in KERNELS_OWN else "-"
        yield _kind(message), message.__name__, ", ".join(said) or nobody, ", ".join(got) or "-"


def table(registry: Sequence[ModuleSpec], mode: str) -> str:
    """For people: who says what to whom."""
    rows = [("KIND", "MESSAGE", "FROM", "TO"), *lines(registry, mode)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    body = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:<{widths[2]}}  {d}".rstrip() for a, b, c, d in rows]
    return "\n".join((f"mode {mode}: {', '.join(one.name for one in declared(registry, mode))}", *body, ""))


_SIGNS = {"command": "-", "event": "~", "request": "="}
_WORDS = "  classDef words fill:none,stroke:none,font-size:13px"
"""The words of an arrow are a node of their own: Mermaid lets labels of arrows cover each other, nodes never."""


def mermaid(registry: Sequence[ModuleSpec], mode: str) -> str:
    """One arrow for each pair of modules, with all that the one says to the other; notes to oneself are left out."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for kind, message, said, got in lines(registry, mode):
        for sender in said.split(", "):
            for receiver in got.split(", "):
                if "-" not in (receiver, sender) and sender not in ("kernel", receiver):
                    arrows.setdefault((sender, receiver), []).append(f"{_SIGNS[kind]} {message}")
    body = [
        f'  {a} --- {a}_{b}["{"<br>".join(sorted(names))}"]:::words --> {b}' for (a, b), names in sorted(arrows.items())
    ]
    return "\n".join((f"%% mode {mode}: - command, ~ event, = request", "flowchart LR", *body, _WORDS, ""))


def _kind(message: type[Message]) -> str:
    kinds: tuple[type[Message], ...] = (Command, Event, Request)
    return next(kind.__name__.lower() for kind in kinds if issubclass(message, kind))
