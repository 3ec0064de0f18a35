"""Structs -> structural schemas, as a CustomResourceDefinition wants them.

msgspec's own JSON schema is none: it has references, `anyOf` with null, and titles (libraries.md 9).
"""

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct
from msgspec import inspect as shapes

Schema = dict[str, Any]
Rules = Mapping[type[Struct], Mapping[str, Schema]]


class Converter:
    """Turns Structs into schemas; `of_fields` and `of_objects` hold what a type alone does not say."""

    def __init__(self, of_fields: Rules, of_objects: Mapping[type[Struct], Schema]) -> None:
        self._of_fields, self._of_objects = of_fields, of_objects

    def struct(self, kind: type[Struct]) -> Schema:
        """The schema of an object; fields without a default are required."""
        info = shapes.type_info(kind)
        assert isinstance(info, shapes.StructType)
        schema: Schema = {
            "type": "object",
            "properties": {one.encode_name: self._field(kind, one) for one in info.fields},
        }
        if required := [one.encode_name for one in info.fields if one.required]:
            schema["required"] = required
        return merged(schema, self._of_objects.get(kind, {}))

    def _field(self, kind: type[Struct], field: shapes.Field) -> Schema:
        schema = {"description": docstrings(kind)[field.name], **self._type(field.type)}
        if _is_told(field.default):
            schema["default"] = field.default
        return merged(schema, self._of_fields.get(kind, {}).get(field.encode_name, {}))

    def _type(self, type_: shapes.Type) -> Schema:
        match type_:
            case shapes.UnionType(types=types):
                (inner,) = (one for one in types if not isinstance(one, shapes.NoneType))
                return self._type(inner)
            case shapes.StructType(cls=cls):
                return self.struct(cls)
            case shapes.VarTupleType(item_type=item):
                return {"type": "array", "items": self._type(item)}
            case shapes.DictType(value_type=shapes.AnyType()):
                return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            case shapes.DictType(value_type=value):
                return {"type": "object", "additionalProperties": self._type(value)}
        return {"type": _SCALARS[type(type_)]}


def _is_told(default: object) -> bool:
    """Only a plain value stands in the schema; an empty text says nothing."""
    return isinstance(default, bool | int) or (isinstance(default, str) and default != "")


def defaults(kind: type[Struct]) -> dict[str, object]:
    """The fields to which the schema gives a value where none is written, in their order."""
    return {one.encode_name: one.default for one in msgspec.structs.fields(kind) if _is_told(one.default)}


_SCALARS: Mapping[type[shapes.Type], str] = {
    shapes.StrType: "string",
    shapes.IntType: "integer",
    shapes.BoolType: "boolean",
}


def merged(one: Schema, other: Mapping[str, Any]) -> Schema:
    """Both schemas in one, those of items and properties too; `other` has the last word."""
    whole = dict(one)
    for key, value in other.items():
        below = whole.get(key)
        whole[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return whole


def docstrings(kind: type[Struct]) -> dict[str, str]:
    """The docstring under each field, on one line. Raises KeyError, naming the field, when one has none."""
    found = explained(kind)
    missing = [one.name for one in msgspec.structs.fields(kind) if one.name not in found]
    if missing:
        raise KeyError(f"{kind.__name__} does not explain {', '.join(missing)}")
    return found


@lru_cache
def explained(kind: type[Struct]) -> dict[str, str]:
    """The docstring under each field that has one, on one line; an inherited field has its base's."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if issubclass(one, Struct) and one is not Struct:
            found |= _below_fields(one)
    return found


def _below_fields(kind: type[Struct]) -> dict[str, str]:
    tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    return {
        field.target.id: " ".join(str(ast.literal_eval(text.value)).split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr)
    }
