"""ConversionReview of apiextensions.k8s.io/v1: opening one, converting its objects one by one, closing it. Pure.

A list of v1alpha1 is one review with all its objects, so it may be large; the server lets others in between two
objects. The API server takes all or none: one object that cannot be converted fails the review, with its name.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from beehive.api.convert import converted
from beehive.errors import Refused
from modules.admission.envelope import Reply, read

MOST_BYTES = 64 * 1024 * 1024
"""Size limit of a review: some sixty of the largest jobs; `kubectl get` asks for pages."""
API_VERSION = "apiextensions.k8s.io/v1"
KIND = "ConversionReview"


class Request(Struct, frozen=True):
    """What the API server wants."""

    uid: str = ""
    desired_api_version: str = msgspec.field(name="desiredAPIVersion", default="")
    objects: tuple[Raw, ...] | None = None


class Review(Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: Request | None = None


class Result(Struct, frozen=True, omit_defaults=True):
    """metav1.Status, as far as the API server reads it."""

    status: str
    message: str = ""


class Response(Struct, frozen=True, rename="camel"):
    uid: str
    converted_objects: tuple[Raw, ...]
    result: Result


class Answered(Struct, frozen=True, rename="camel"):
    response: Response
    kind: str = KIND
    api_version: str = API_VERSION


_REVIEW = msgspec.json.Decoder(Review)


def opened(content_type: str, body: bytes) -> Request | Reply:
    """The request of a ConversionReview, or why there is none."""
    review = read(content_type, body, _REVIEW, KIND, API_VERSION, MOST_BYTES)
    return review if isinstance(review, Reply) else review.request or Request()


def one_converted(item: Raw, wanted: str) -> Raw:
    """The object in the version `wanted`, as JSON. Raises Refused with a sentence."""
    try:
        plain = msgspec.json.decode(item)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Refused("an object cannot be read: it is nested too deeply or not UTF-8") from None
    if not isinstance(plain, dict):
        raise Refused(f"an object is expected, not {str(plain)[:80]}")
    try:
        return Raw(msgspec.json.encode(converted(plain, wanted)))
    except Refused as problem:
        meta = plain.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else None
        raise Refused(f"{str(name or 'an object without a name')[:253]}: {problem.reason}") from None


def closed(request: Request, objects: Sequence[Raw]) -> Reply:
    """All of them, in their order."""
    return _reply(Response(request.uid, tuple(objects), Result("Success")))


def failed(request: Request, sentence: str) -> Reply:
    """None of them, and why."""
    return _reply(Response(request.uid, (), Result("Failed", sentence)))


def _reply(response: Response) -> Reply:
    return Reply(200, msgspec.json.encode(Answered(response)))
