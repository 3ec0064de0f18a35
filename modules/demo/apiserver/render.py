"""The forms in which an object can be asked for: itself, its metadata alone, a row of a table."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from modules.demo.apiserver.cells import cell
from modules.demo.apiserver.history import Stored
from modules.demo.apiserver.kinds import Kind
from modules.demo.apiserver.status import Refusal

Object = dict[str, Any]
PLAIN, TABLE, PARTIAL = "", "Table", "PartialObjectMetadata"


class Form(NamedTuple):
    """How the caller wants it."""

    shape: str = PLAIN
    include: str = "Metadata"
    """``includeObject`` of a table: ``None``, ``Metadata`` or ``Object``."""


def form(accept: str, include: str) -> Form:
    """The first form in an Accept header that this server has; 406 when there is none."""
    for wanted in accept.split(",") if accept else ["*/*"]:
        media, *parameters = [part.strip() for part in wanted.split(";")]
        options = dict(part.split("=", 1) for part in parameters if "=" in part)
        shape = options.get("as", PLAIN).removesuffix("List")
        if media in {"application/json", "application/*", "*/*"} and _served(shape, options):
            return Form(shape, include or "Metadata")
    told = "only the following media types are accepted: application/json"
    raise Refusal(406, "NotAcceptable", told, {})


def _served(shape: str, options: Mapping[str, str]) -> bool:
    return shape == PLAIN or (
        shape in {TABLE, PARTIAL} and options.get("v") == "v1" and options.get("g") == "meta.k8s.io"
    )


def one(kind: Kind, stored: Stored, wanted: Form, now: datetime) -> bytes:
    """The answer about one object."""
    if wanted.shape == PLAIN:
        return stored.json
    if wanted.shape == PARTIAL:
        return msgspec.json.encode(_partial(stored.value))
    version = stored.value["metadata"].get("resourceVersion", "")
    return msgspec.json.encode(_table(kind, [stored], wanted, now, {"resourceVersion": version}))


def many(kind: Kind, items: Sequence[Stored], wanted: Form, now: datetime, metadata: Object) -> bytes:
    """The answer to a list."""
    if wanted.shape == TABLE:
        return msgspec.json.encode(_table(kind, items, wanted, now, metadata))
    if wanted.shape == PARTIAL:
        parts = [_partial(stored.value) for stored in items]
        whole = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "items": parts,
        }
        return msgspec.json.encode(whole)
    head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata}
    listed = [msgspec.Raw(stored.json) for stored in items]
    return msgspec.json.encode({**head, "items": listed})


def event(kind: Kind, name: str, stored: Stored, wanted: Form, now: datetime) -> bytes:
    """One line of a watch."""
    return b'{"type":"' + name.encode() + b'","object":' + one(kind, stored, wanted, now) + b"}\n"


def _table(kind: Kind, items: Sequence[Stored], wanted: Form, now: datetime, metadata: Object) -> Object:
    columns = [_definition(column) for column in kind.columns]
    if not kind.columns or kind.columns[0].name != "Name":
        told = {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}
        columns.insert(0, told)
    row = _row_maker(kind, wanted, now)
    rows = [row(stored.value) for stored in items]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    }


def _definition(column: Any) -> Object:
    told = {"name": column.name, "type": column.type, "format": column.format}
    return {**told, "description": column.description, "priority": column.priority}


def _row_maker(kind: Kind, wanted: Form, now: datetime) -> Callable[[Object], Object]:
    named = not kind.columns or kind.columns[0].name != "Name"

    def row(value: Object) -> Object:
        cells = [cell(column, value, now) for column in kind.columns]
        made: Object = {"cells": [value["metadata"]["name"], *cells] if named else cells}
        if wanted.include == "Metadata":
            made["object"] = _partial(value)
        elif wanted.include == "Object":
            made["object"] = value
        return made

    return row


def _partial(value: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"]}


def media_type(header: str) -> str:
    """The media type of a Content-Type header, without parameters."""
    return re.split(r"[;\s]", header.strip(), maxsplit=1)[0].lower()
