"""The part of a schema that every object has."""

from collections.abc import Mapping
from typing import Any, Final

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "object", "additionalProperties": _TEXT}
_OWNER: Final = {
    "type": "object",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _TEXT),
        "controller": {"type": "boolean"},
        "blockOwnerDeletion": {"type": "boolean"},
    },
}
METADATA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink"), _TEXT),
        "creationTimestamp": {"type": "string", "format": "date-time", "nullable": True},
        "deletionTimestamp": {"type": "string", "format": "date-time"},
        "deletionGracePeriodSeconds": {"type": "integer"},
        "generation": {"type": "integer"},
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": {"type": "array", "items": _TEXT},
        "ownerReferences": {"type": "array", "items": _OWNER},
        "managedFields": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    },
}


def whole(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a kind with ``apiVersion``, ``kind`` and ``metadata`` filled in."""
    properties = {**schema.get("properties", {}), "apiVersion": _TEXT, "kind": _TEXT, "metadata": METADATA}
    return {**schema, "type": "object", "properties": properties}
