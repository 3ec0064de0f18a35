"""The verdict on one AdmissionReview. Pure: a request in, a response out.

Words are KubeEdge's where its webhook has them (spec/kubeedge.md 2.3), so that its clients find what they know. The
API server hands us v1alpha2, whatever the client wrote: a v1alpha1 write cannot slip past (product.md 3.1). A review
of v1alpha1, from a registration of KubeEdge's, is converted here.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from beehive.api import limits, v1alpha1
from beehive.api.changes import change_problems, creation_problems
from beehive.api.convert import ONLY_V1ALPHA2, V1ALPHA2, converted
from beehive.api.nodeupgradejob import GROUP, KIND, PLURAL, NodeUpgradeJobSpec
from beehive.api.validate import size_problems
from beehive.errors import Refused
from modules.admission.advice import advice
from modules.admission.envelope import Request, Response, Status
from modules.admission.known import NOTHING, Known


class _Meta(Struct, frozen=True):
    name: str = ""


class _Object(Struct, frozen=True):
    metadata: _Meta | None = None
    spec: Raw = Raw(b"null")


_OBJECT = msgspec.json.Decoder(_Object | None)
_SPEC = msgspec.json.Decoder(NodeUpgradeJobSpec)


def judge(request: Request, known: Known = NOTHING) -> Response:
    """May this be written? `known` is what warnings about a new job are made from."""
    if (request.resource.group, request.resource.resource) != (GROUP, PLURAL):
        warning = f"this webhook judges {PLURAL}.{GROUP} only; take {request.resource.resource} out of its rules"
        return Response(request.uid, True, warnings=(warning,))
    if request.sub_resource or request.operation == "DELETE":
        return Response(request.uid, True)
    if request.operation not in ("CREATE", "UPDATE"):
        return _denied(request, [f"unsupported webhook operation {request.operation}"])
    try:
        return _created(request, known) if request.operation == "CREATE" else _updated(request)
    except Refused as error:
        problem = error.reason
    except msgspec.MsgspecError as error:
        problem = f"validation failed with error: {_readable(error)}"
    except RecursionError:
        problem = "validation failed with error: the object is nested too deeply"
    return _denied(request, [problem])


def _created(request: Request, known: Known) -> Response:
    new = _OBJECT.decode(_in_v1alpha2(request, request.object))
    if new is None:
        return _denied(request, ["validation failed with error: the request has no object"])
    spec = _spec(new)
    problems = [*creation_problems(spec), *_name_problems(request, new)]
    problems = problems or size_problems(len(bytes(request.object)), spec.node_names or ())
    if problems:
        return _denied(request, problems)
    return Response(request.uid, True, warnings=advice(spec, known, _spoken_in(request)))


def _name_problems(request: Request, new: _Object) -> list[str]:
    """Every name of an object is a DNS subdomain; Events are named after the job and must fit too."""
    name = request.name or (new.metadata.name if new.metadata else "")
    if len(name) <= limits.LONGEST_JOB_NAME:
        return []
    return [
        f"metadata.name: {len(name)} characters; a job's has at most {limits.LONGEST_JOB_NAME}, "
        "for its Events are named after it"
    ]


def _updated(request: Request) -> Response:
    """What changes is judged, nothing else: an object that was stored before our rules can still lose its finalizer."""
    now, was = msgspec.json.decode(request.object), msgspec.json.decode(request.old_object)
    if not isinstance(now, dict) or not isinstance(was, dict):
        return _denied(request, ["validation failed with error: the request lacks the object or the old object"])
    if _part(now, "metadata").get("deletionTimestamp") or _whole_spec(now) == _whole_spec(was):
        return Response(request.uid, True)
    new = _OBJECT.decode(_in_v1alpha2(request, request.object))
    old = _OBJECT.decode(_in_v1alpha2(request, request.old_object))
    after = _spec(new or _Object())
    try:
        before = _spec(old or _Object())
    except msgspec.MsgspecError:
        problems = creation_problems(after)
    else:
        problems = change_problems(before, after)
    return _denied(request, problems) if problems else Response(request.uid, True)


def _whole_spec(item: dict[str, Any]) -> tuple[object, object]:
    """The spec, and what v1alpha1 keeps of it in an annotation."""
    annotations = _part(_part(item, "metadata"), "annotations")
    in_v1alpha1 = item.get("apiVersion") == v1alpha1.API_VERSION
    return item.get("spec"), annotations.get(ONLY_V1ALPHA2) if in_v1alpha1 else None


def _part(item: dict[str, Any], name: str) -> dict[str, Any]:
    part = item.get(name)
    return part if isinstance(part, dict) else {}


def _in_v1alpha2(request: Request, raw: Raw) -> Raw | bytes:
    if request.resource.version != v1alpha1.VERSION:
        return raw
    item = msgspec.json.decode(raw)
    if not isinstance(item, dict):
        return raw
    plain = {**item, "kind": KIND, "apiVersion": v1alpha1.API_VERSION, "status": None}
    return msgspec.json.encode(converted(plain, V1ALPHA2))


def _spoken_in(request: Request) -> str:
    """The version that the client wrote."""
    return request.request_kind.version if request.request_kind else request.resource.version


def _spec(of: _Object) -> NodeUpgradeJobSpec:
    """Raises msgspec.MsgspecError; an object without a spec lacks what a spec must have."""
    return _SPEC.decode(b"{}" if bytes(of.spec) == b"null" else of.spec)


def _denied(request: Request, problems: list[str]) -> Response:
    return Response(request.uid, False, Status("; ".join(problems)))


def _readable(error: Exception) -> str:
    """msgspec's words with the field's path in front."""
    text, at, path = str(error).partition(" - at `$")
    where = path.rstrip("`").lstrip(".")
    return f"spec.{where}: {text}" if at and where else f"spec: {text}"
