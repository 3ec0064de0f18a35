"""What is served: the version, the groups, the resources, in the old form and the aggregated one."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from modules.demo.apiserver.kinds import Kind

Object = dict[str, Any]

VERSION: Final[Object] = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.4+beehive-embedded",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "python/any",
}
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS: Final = ("get", "patch", "update")


def core_versions(address: str) -> Object:
    """``GET /api``."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def groups(kinds: Iterable[Kind]) -> Object:
    """``GET /apis``."""
    named = sorted({(kind.group, kind.version) for kind in kinds if kind.group})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*one) for one in named]}


def group(name: str, kinds: Iterable[Kind]) -> Object | None:
    """``GET /apis/{group}``."""
    version = next((kind.version for kind in kinds if kind.group == name), None)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, version)} if name and version else None


def _group(name: str, version: str) -> Object:
    served = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [served], "preferredVersion": served}


def resources(prefix: str, kinds: Iterable[Kind]) -> Object | None:
    """``GET /api/v1`` or ``GET /apis/{group}/{version}``."""
    served = [kind for kind in kinds if kind.prefix == prefix]
    if not served:
        return None
    listed = [entry for kind in served for entry in _entries(kind)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": served[0].api_version, "resources": listed}


def _entries(kind: Kind) -> Sequence[Object]:
    both = {"singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind}
    main: Object = {"name": kind.plural, **both, "verbs": list(_VERBS)}
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    sub = {"name": f"{kind.plural}/status", **both, "singularName": "", "verbs": list(_STATUS_VERBS)}
    return [main, sub] if kind.has_status else [main]


def aggregated(kinds: Iterable[Kind], core: bool) -> Object:
    """``GET /api`` or ``GET /apis`` as ``APIGroupDiscoveryList``: all that kubectl wants to know in one answer."""
    chosen = sorted(
        (kind for kind in kinds if bool(kind.group) is not core), key=lambda kind: (kind.group, kind.version)
    )
    items = [
        _aggregated_group(key, list(members))
        for key, members in groupby(chosen, key=lambda kind: (kind.group, kind.version))
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_group(key: tuple[str, str], kinds: Sequence[Kind]) -> Object:
    served = {"version": key[1], "freshness": "Current", "resources": [_aggregated(kind) for kind in kinds]}
    metadata = {"name": key[0]} if key[0] else {}
    return {"metadata": metadata, "versions": [served]}


def _aggregated(kind: Kind) -> Object:
    told = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    entry: Object = {
        "resource": kind.plural,
        "responseKind": told,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(_VERBS),
        "shortNames": list(kind.short_names),
        "categories": list(kind.categories),
    }
    if kind.has_status:
        entry["subresources"] = [{"subresource": "status", "responseKind": told, "verbs": list(_STATUS_VERBS)}]
    return {key: value for key, value in entry.items() if value != []}
