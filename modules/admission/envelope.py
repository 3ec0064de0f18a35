"""AdmissionReview of admission.k8s.io/v1: opening one and closing it with an answer. Pure.

A body that is no review gets 400 and a sentence; KubeEdge answers some of these with an empty 200, or drops the
connection (spec/kubeedge.md 2.2).
"""

from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

MOST_BYTES = 3 * 1024 * 1024
"""Size limit of a review: it holds the object twice at an update."""
API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


class Resource(Struct, frozen=True):
    group: str = ""
    version: str = ""
    resource: str = ""


class Kind(Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class Request(Struct, frozen=True, rename="camel"):
    """What the API server asks."""

    uid: str = ""
    resource: Resource = Resource()
    request_kind: Kind | None = None
    """What the client wrote, where it was converted before we were asked."""
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


class Response(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Our answer to one request."""

    uid: str
    allowed: bool
    status: Status | None = None
    warnings: tuple[str, ...] = ()
    patch_type: str = ""
    """`JSONPatch`, where there is a patch."""
    patch: str = ""
    """A JSON Patch (RFC 6902) in base64."""


class Answered(Struct, frozen=True, rename="camel"):
    """An AdmissionReview that holds an answer."""

    response: Response
    kind: str = KIND
    api_version: str = API_VERSION


class Reply(Struct, frozen=True):
    """What goes back over HTTP: JSON with 200, a sentence with everything else."""

    status: int
    body: bytes


class Reviewed(Protocol):
    """A review of one kind or the other, as far as opening it looks at it."""

    @property
    def api_version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def request(self) -> Any: ...


R = TypeVar("R", bound=Reviewed)

_REVIEW = msgspec.json.Decoder(Review)


def opened(content_type: str, body: bytes) -> Request | Reply:
    """The request of an AdmissionReview, or why there is none."""
    review = read(content_type, body, _REVIEW, KIND, API_VERSION, MOST_BYTES)
    return review if isinstance(review, Reply) else review.request or Request()


def read(
    content_type: str, body: bytes, decoder: msgspec.json.Decoder[R], kind: str, api_version: str, most: int
) -> R | Reply:
    """A review that has a request with a uid, or why not; for both kinds of review."""
    if wrong := unreadable(content_type, body, most):
        return wrong
    try:
        review = decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return refused(400, f"the body is no {kind}: {error}")
    except RecursionError:
        return refused(400, "the body is nested too deeply")
    if (review.api_version, review.kind) != (api_version, kind):
        return refused(400, f"send {kind} of {api_version} instead of {review.kind[:80]} of {review.api_version[:80]}")
    if review.request is None or not review.request.uid:
        return refused(400, f"the review has no {'uid' if review.request else 'request'}")
    return review


def closed(response: Response) -> Reply:
    """The review with its answer."""
    return Reply(200, msgspec.json.encode(Answered(response)))


def unreadable(content_type: str, body: bytes, most: int) -> Reply | None:
    """Why such a body is not even read."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        return refused(415, f"send application/json instead of {content_type[:80] or 'nothing'}")
    if len(body) > most:
        return refused(413, f"a review may have {most // 2**20} MiB")
    return None


def refused(status: int, sentence: str) -> Reply:
    return Reply(status, sentence.encode(errors="replace") + b"\n")
