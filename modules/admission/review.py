"""The verdict on one AdmissionReview (admission.k8s.io/v1). Pure: a body in, an answer out.

Words are KubeEdge's where its webhook has them (spec/kubeedge.md 2.3), so that its clients find what they know. A body
that is no review gets 400 and a sentence; KubeEdge answers some of these with an empty 200, or drops the connection.
"""

import msgspec
from msgspec import Raw, Struct

from beehive.api.changes import change_problems, creation_problems
from beehive.api.nodeupgradejob import GROUP, PLURAL, NodeUpgradeJobSpec

MOST_BYTES = 3 * 1024 * 1024
"""Size limit of a review: it holds the object twice at an update."""
API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


class Resource(Struct, frozen=True):
    group: str = ""
    version: str = ""
    resource: str = ""


class Request(Struct, frozen=True, rename="camel"):
    """What the API server asks."""

    uid: str = ""
    resource: Resource = Resource()
    sub_resource: str = ""
    name: str = ""
    operation: str = ""
    object: Raw = Raw(b"null")
    old_object: Raw = Raw(b"null")


class Review(Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: Request | None = None


class Status(Struct, frozen=True):
    """Why not; `message` is what a person sees."""

    message: str
    code: int = 422
    reason: str = "Invalid"


class Response(Struct, frozen=True, omit_defaults=True):
    """Our answer to one request."""

    uid: str
    allowed: bool
    status: Status | None = None
    warnings: tuple[str, ...] = ()


class Answered(Struct, frozen=True, rename="camel"):
    """An AdmissionReview that holds an answer."""

    response: Response
    kind: str = KIND
    api_version: str = API_VERSION


class Reply(Struct, frozen=True):
    """What goes back over HTTP: JSON with 200, a sentence with everything else."""

    status: int
    body: bytes


class _Meta(Struct, frozen=True, rename="camel"):
    deletion_timestamp: str | None = None


class _Object(Struct, frozen=True):
    metadata: _Meta | None = None
    spec: Raw = Raw(b"null")


_REVIEW = msgspec.json.Decoder(Review)
_OBJECT = msgspec.json.Decoder(_Object | None)
_SPEC = msgspec.json.Decoder(NodeUpgradeJobSpec)


def reply(content_type: str, body: bytes) -> Reply:
    """The answer to one HTTP request's body."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        return _no(415, f"send application/json instead of {content_type[:80] or 'nothing'}")
    if len(body) > MOST_BYTES:
        return _no(413, f"a review may have {MOST_BYTES // 2**20} MiB")
    try:
        review = _REVIEW.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return _no(400, f"the body is not an AdmissionReview: {error}")
    except RecursionError:
        return _no(400, "the body is nested too deeply")
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        return _no(400, f"send {KIND} of {API_VERSION} instead of {review.kind[:80]} of {review.api_version[:80]}")
    if review.request is None or not review.request.uid:
        return _no(400, f"the review has no {'uid' if review.request else 'request'}")
    return Reply(200, msgspec.json.encode(Answered(judge(review.request))))


def _no(status: int, sentence: str) -> Reply:
    return Reply(status, sentence.encode(errors="replace") + b"\n")


def judge(request: Request) -> Response:
    """May this be written?"""
    if (request.resource.group, request.resource.resource) != (GROUP, PLURAL):
        warning = f"this webhook judges {PLURAL}.{GROUP} only; take {request.resource.resource} out of its rules"
        return Response(request.uid, True, warnings=(warning,))
    if request.sub_resource or request.operation == "DELETE":
        return Response(request.uid, True)
    if request.operation not in ("CREATE", "UPDATE"):
        return _denied(request, [f"unsupported webhook operation {request.operation}"])
    try:
        problems = _created(request) if request.operation == "CREATE" else _updated(request)
    except msgspec.MsgspecError as error:
        problems = [f"validation failed with error: {_readable(error)}"]
    except RecursionError:
        problems = ["validation failed with error: the object is nested too deeply"]
    return _denied(request, problems) if problems else Response(request.uid, True)


def _created(request: Request) -> list[str]:
    new = _OBJECT.decode(request.object)
    if new is None:
        return ["validation failed with error: the request has no object"]
    return creation_problems(_spec(new))


def _updated(request: Request) -> list[str]:
    """What changes is judged, nothing else: an object that was stored before our rules can still lose its finalizer."""
    new, old = _OBJECT.decode(request.object), _OBJECT.decode(request.old_object)
    if new is None or old is None:
        return ["validation failed with error: the request lacks the object or the old object"]
    if (new.metadata and new.metadata.deletion_timestamp) or msgspec.json.decode(new.spec) == msgspec.json.decode(
        old.spec
    ):
        return []
    after = _spec(new)
    try:
        before = _spec(old)
    except msgspec.MsgspecError:
        return creation_problems(after)
    return change_problems(before, after)


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
