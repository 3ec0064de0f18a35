"""Manifests judged offline, by the rules of the schema and the webhook, each problem with its line and path. Pure."""

import difflib
import re
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import yaml
from msgspec import Struct
from msgspec import inspect as shapes

from beehive.api import limits, v1alpha1
from beehive.api.changes import creation_problems
from beehive.api.convert import V1ALPHA1, V1ALPHA2, converted
from beehive.api.nodeupgradejob import KIND, NodeUpgradeJobSpec
from beehive.api.validate import is_text, shown
from beehive.errors import Refused

Node = yaml.Node
_SPECS: Mapping[str, type[Struct]] = {V1ALPHA2: NodeUpgradeJobSpec, V1ALPHA1: v1alpha1.JobSpec}
_PLACES = {
    "invalid version ": "spec.version",
    "invalid image repo ": "spec.image",
    "both NodeNames ": "spec",
}
"""KubeEdge's sentences name no field."""
_SELECTORS = frozenset({"nodeNames", "labelSelector"})
_HALF = re.compile(r"[\ud800-\udfff]")
_LONGEST_NUMBER = 18


class _Loader(yaml.SafeLoader):
    """Without aliases: a few lines of them can stand for more nodes than there is memory."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not taken here; write it out", mark)
        return super().compose_node(parent, index)


class Problem(NamedTuple):
    """One thing that is wrong."""

    line: int
    """From 1; 0 where there is none."""
    path: str
    sentence: str


class Judged(NamedTuple):
    """A file: how many jobs it holds, and all that is wrong."""

    jobs: int
    problems: tuple[Problem, ...]


def judged(text: str) -> Judged:
    """YAML or JSON, several documents, lists too."""
    try:
        documents = [one for one in yaml.compose_all(text, Loader=_Loader) if not _is_null(one)]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "it is no YAML"
        return Judged(0, (Problem(mark.line + 1 if mark else 0, "", what),))
    except RecursionError:
        return Judged(0, (Problem(0, "", "it is nested too deeply"),))
    items = [item for document in documents for item in _items(document)]
    found = tuple(problem for item in items for problem in sorted(_judge(item), key=attrgetter("line")))
    return Judged(len(items), found if items else (Problem(0, "", f"it holds no {KIND}"),))


def _items(node: Node) -> list[Node]:
    """The items of a List, or the document itself."""
    below = dict(_children(node))
    items = below.get("items")
    is_list = isinstance(items, yaml.SequenceNode) and _text(below.get("kind")).endswith("List")
    return list(items.value) if is_list and items is not None else [node]


def _judge(node: Node) -> Iterator[Problem]:
    if unwritable := list(_unwritable(node)):
        yield from unwritable
        return
    below = dict(_children(node))
    if not isinstance(node, yaml.MappingNode) or _text(below.get("kind")) != KIND:
        yield Problem(_line(node), "kind", f"expected a {KIND}, found {shown(_text(below.get('kind'))) or 'none'}")
        return
    version = _text(below.get("apiVersion"))
    kind = _SPECS.get(version)
    if kind is None:
        yield Problem(_line(below.get("apiVersion", node)), "apiVersion", f"write {V1ALPHA2} or {V1ALPHA1}")
        return
    yield from _unknown(node, ("apiVersion", "kind", "metadata", "spec", "status"), "")
    yield from _twice(node, "")
    yield from _metadata(below.get("metadata", node))
    if "spec" not in below:
        yield Problem(_line(node), "spec", "it is missing; it says what to upgrade")
        return
    shape = list(_shape(below["spec"], shapes.type_info(kind), "spec"))
    yield from shape
    yield from _meaning(node, version, frozenset(_field_of(one.path) for one in shape))


def _field_of(path: str) -> str:
    """The field of the spec that a problem lies in; empty: the spec itself."""
    return path.removeprefix("spec").lstrip(".").partition(".")[0].partition("[")[0]


def _unwritable(node: Node) -> Iterator[Problem]:
    """Texts that no JSON can hold: half of a character that is written as two."""
    if isinstance(node, yaml.ScalarNode):
        if _HALF.search(str(node.value)):
            yield Problem(_line(node), "", f"{shown(str(node.value))} holds half a character (\\ud800 to \\udfff)")
        return
    for part in node.value:
        for one in part if isinstance(part, tuple) else (part,):
            yield from _unwritable(one)


def _metadata(node: Node) -> Iterator[Problem]:
    below = dict(_children(node))
    name, stem = _text(below.get("name")), _text(below.get("generateName"))
    if not name and not stem:
        yield Problem(_line(node), "metadata.name", "it is missing")
    elif name and not is_text(name, limits.SUBDOMAIN, limits.LONGEST_JOB_NAME):
        text = (
            f'"{shown(name)}" cannot be the name of a job; write up to {limits.LONGEST_JOB_NAME} of a-z, 0-9, - and .'
        )
        yield Problem(_line(below["name"]), "metadata.name", text)


# ---- shape -----------------------------------------------------------------------------------------------------------


def _shape(node: Node, kind: shapes.Type, path: str) -> Iterator[Problem]:
    """Fields that do not exist, stand twice, are missing, or are of another type."""
    if isinstance(kind, shapes.UnionType):
        if _is_null(node):
            return
        kind = next(one for one in kind.types if not isinstance(one, shapes.NoneType))
    if isinstance(kind, shapes.StructType) and isinstance(node, yaml.MappingNode):
        fields = {one.encode_name: one for one in kind.fields}
        yield from _unknown(node, tuple(fields), path)
        yield from _twice(node, path)
        below = dict(_children(node))
        for name, field in fields.items():
            if name in below and not (_is_null(below[name]) and not field.required):
                yield from _shape(below[name], field.type, f"{path}.{name}")
            elif field.required:
                yield Problem(_line(node), f"{path}.{name}", "it is missing")
    elif isinstance(kind, shapes.VarTupleType) and isinstance(node, yaml.SequenceNode):
        for index, one in enumerate(node.value):
            yield from _shape(one, kind.item_type, f"{path}[{index}]")
    elif isinstance(kind, shapes.DictType) and isinstance(node, yaml.MappingNode):
        yield from _twice(node, path)
        for name, one in _children(node):
            yield from _shape(one, kind.value_type, f"{path}.{name}")
    else:
        yield from _leaf(node, kind, path)


_WORDS: Mapping[type[shapes.Type], tuple[str, str]] = {
    shapes.StrType: ("str", "a text"),
    shapes.IntType: ("int", "a whole number"),
    shapes.BoolType: ("bool", "true or false"),
    shapes.StructType: ("map", "fields"),
    shapes.DictType: ("map", "fields"),
    shapes.VarTupleType: ("seq", "a list"),
}


def _leaf(node: Node, kind: shapes.Type, path: str) -> Iterator[Problem]:
    tag, wanted = _WORDS[type(kind)]
    found = node.tag.rpartition(":")[2]
    if found == tag:
        if tag == "int" and len(node.value) > _LONGEST_NUMBER:
            yield Problem(_line(node), path, f"a number of {len(node.value):,} digits is too large")
        return
    written = shown(str(node.value)) if isinstance(node, yaml.ScalarNode) else {"map": "fields", "seq": "a list"}[found]
    hint = f'; write it in quotes: "{written}"' if tag == "str" and isinstance(node, yaml.ScalarNode) else ""
    yield Problem(_line(node), path, f"expected {wanted}, found {written}{hint}")


def _unknown(node: Node, known: tuple[str, ...], path: str) -> Iterator[Problem]:
    for name, value in _children(node):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield Problem(_line(value), f"{path}.{shown(name)}".lstrip("."), f"no such field{hint}")


def _twice(node: Node, path: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for name, value in _children(node):
        if name in seen:
            yield Problem(_line(value), f"{path}.{shown(name)}".lstrip("."), "it stands twice; take one away")
        seen.add(name)


# ---- meaning ---------------------------------------------------------------------------------------------------------


def _meaning(node: Node, version: str, without: frozenset[str]) -> Iterator[Problem]:
    """Judged by the rules; `without` the fields of the spec that have no shape."""
    if "" in without or "version" in without:
        return
    below = dict(_children(node))
    meta = _plain(below["metadata"]) if isinstance(below.get("metadata"), yaml.MappingNode) else {}
    plain = {"apiVersion": version, "kind": KIND, "metadata": meta, "spec": _plain(below["spec"])}
    plain["spec"] = {name: value for name, value in plain["spec"].items() if name not in without}
    try:
        whole = converted(plain, V1ALPHA2)
    except Refused as problem:
        yield Problem(_line(node), "metadata.annotations", problem.reason)
        return
    spec = {name: value for name, value in whole["spec"].items() if value is not None}
    for sentence in creation_problems(msgspec.convert(spec, NodeUpgradeJobSpec)):
        path, sentence_alone = _placed(sentence)
        if path == "spec" and without & _SELECTORS:
            continue  # which one is given cannot be told
        yield Problem(_line_of(node, path), path, sentence_alone)


def _placed(sentence: str) -> tuple[str, str]:
    path, colon, rest = sentence.partition(": ")
    if colon and path.startswith("spec.") and " " not in path:
        return path, rest
    return next((place for start, place in _PLACES.items() if sentence.startswith(start)), "spec"), sentence


def _line_of(node: Node, path: str) -> int:
    """Where the field stands, or the last of its parents that does."""
    for name in path.split("."):
        below = dict(_children(node))
        if name not in below:
            break
        node = below[name]
    return _line(node)


# ---- nodes -----------------------------------------------------------------------------------------------------------


def _children(node: Node | None) -> list[tuple[str, Node]]:
    return [(str(key.value), value) for key, value in node.value] if isinstance(node, yaml.MappingNode) else []


def _plain(node: Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {name: _plain(value) for name, value in _children(node)}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(one) for one in node.value]
    try:
        return yaml.SafeLoader("").construct_object(node)
    except ValueError:  # a number of thousands of digits, the 31st of February
        return str(node.value)


def _text(node: Node | None) -> str:
    return node.value if isinstance(node, yaml.ScalarNode) and isinstance(node.value, str) else ""


def _is_null(node: Node) -> bool:
    return node.tag.endswith(":null")


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1
