"""``/openapi/v3``: as much as kubectl needs to trust server-side validation and to explain fields."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from modules.demo.apiserver.kinds import Kind

Object = dict[str, Any]

_GVK: Final = "x-kubernetes-group-version-kind"
_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def index(kinds: Iterable[Kind]) -> Object:
    """``GET /openapi/v3``."""
    prefixes = sorted({kind.prefix for kind in kinds})
    return {"paths": {prefix: {"serverRelativeURL": f"/openapi/v3/{prefix}?hash=1"} for prefix in prefixes}}


def document(prefix: str, kinds: Iterable[Kind]) -> Object | None:
    """``GET /openapi/v3/{prefix}``: the paths and schemas of one group and version."""
    served = [kind for kind in kinds if kind.prefix == prefix]
    if not served:
        return None
    paths = {path: item for kind in served for path, item in _paths(kind).items()}
    schemas = {_name(kind): _schema(kind) for kind in served}
    info = {"title": "Kubernetes", "version": "v1.34.4"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _name(kind: Kind) -> str:
    reverse = ".".join(reversed((kind.group or "core.k8s.io").split(".")))
    return f"{reverse}.{kind.version}.{kind.kind}"


def _identity(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _schema(kind: Kind) -> Object:
    return {**_plain(kind.whole), _GVK: [_identity(kind)]}


def _plain(value: Any) -> Any:
    """A schema as plain data."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _paths(kind: Kind) -> Object:
    place = "namespaces/{namespace}/" if kind.namespaced else ""
    collection = f"/{kind.prefix}/{place}{kind.plural}"
    one = f"{collection}/{{name}}"
    paths = {
        collection: {"get": _operation(kind, "list", read=True), "post": _operation(kind, "post")},
        one: {
            "get": _operation(kind, "get", read=True),
            "put": _operation(kind, "put"),
            "patch": _operation(kind, "patch"),
            "delete": _operation(kind, "delete"),
        },
    }
    if kind.has_status:
        paths[f"{one}/status"] = {"put": _operation(kind, "put"), "patch": _operation(kind, "patch")}
    return paths


def _operation(kind: Kind, action: str, read: bool = False) -> Object:
    reference = {"$ref": f"#/components/schemas/{_name(kind)}"}
    answer = {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}}
    told: Object = {"responses": answer, "x-kubernetes-action": action, _GVK: _identity(kind)}
    if not read:
        told["parameters"] = _PARAMETERS
    if action == "patch":
        media = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
        told["requestBody"] = {"content": {one: {"schema": {"type": "object"}} for one in media}, "required": True}
    return told
