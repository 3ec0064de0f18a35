"""Defaults for a new job, as a JSON Patch: what the schema adds by itself, and nothing else. Pure.

With our CRD installed there is never anything to add. It is for an installation that keeps KubeEdge's own CRD, which
has no defaults. It refuses nothing, rewrites nothing and normalises nothing: GitOps tools would fight it (product.md
3.1), and refusing is the validating webhook's.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from beehive.api import v1alpha1
from beehive.api.nodeupgradejob import GROUP, PLURAL, VERSION, NodeUpgradeJobSpec
from beehive.api.structural import defaults
from modules.admission.envelope import Request, Response

_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    VERSION: defaults(NodeUpgradeJobSpec),
    v1alpha1.VERSION: defaults(v1alpha1.JobSpec),
}


def mutated(request: Request) -> Response:
    """Allowed, with a patch where defaults are missing."""
    operations = list(_operations(request)) if _is_new_job(request) else []
    if not operations:
        return Response(request.uid, True)
    patch = base64.b64encode(msgspec.json.encode(operations)).decode()
    return Response(request.uid, True, patch_type="JSONPatch", patch=patch)


def _is_new_job(request: Request) -> bool:
    ours = (request.resource.group, request.resource.resource) == (GROUP, PLURAL)
    return ours and request.operation == "CREATE" and not request.sub_resource


def _operations(request: Request) -> Iterator[dict[str, Any]]:
    try:
        item = msgspec.json.decode(request.object)
    except RecursionError:
        return
    spec = item.get("spec") if isinstance(item, dict) else None
    if not isinstance(spec, dict):
        return
    for field, default in _DEFAULTS.get(request.resource.version, {}).items():
        if spec.get(field) is None:
            yield {"op": "add", "path": f"/spec/{field}", "value": default}
