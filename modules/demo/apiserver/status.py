"""Refusals: the ``Status`` objects with which a Kubernetes API server says no."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from modules.demo.apiserver.kinds import Kind

Object = dict[str, Any]


class Cause(NamedTuple):
    """One thing that is wrong with one field."""

    reason: str
    """``FieldValueInvalid`` and its kin."""
    message: str
    field: str
    """Path of the field, as ``spec.nodeNames[3]``."""


class Refusal(Exception):  # noqa: N818 - an answer, not an error of ours
    """A request that is answered with a failure ``Status``."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def body(self) -> Object:
        """The ``Status`` to send."""
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message}
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = dict(self.details)
        return {**status, "code": self.code}

    @property
    def headers(self) -> dict[str, str]:
        """``Retry-After`` where the details ask for it."""
        seconds = (self.details or {}).get("retryAfterSeconds")
        return {"Retry-After": str(seconds)} if seconds else {}


def named(kind: Kind, name: str) -> Object:
    """The details of an answer about one object."""
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: value for key, value in details.items() if value}


def bad_request(message: str) -> Refusal:
    """400: the request itself makes no sense."""
    return Refusal(400, "BadRequest", message)


def not_found(kind: Kind, name: str) -> Refusal:
    """404: no such object."""
    return Refusal(404, "NotFound", f'{kind.resource} "{name}" not found', named(kind, name))


def no_such_path() -> Refusal:
    """404: nothing is served there."""
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: Kind, name: str) -> Refusal:
    """409: create of a name that is taken."""
    return Refusal(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', named(kind, name))


def conflict(kind: Kind, name: str, why: str = "") -> Refusal:
    """409: the object is not, or no longer, the one that the caller meant."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return Refusal(409, "Conflict", message, named(kind, name))


def forbidden(kind: Kind, name: str, why: str) -> Refusal:
    """403: the request is understood and not allowed."""
    return Refusal(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', named(kind, name))


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> Refusal:
    """422: the object breaks its schema or rules; every cause is named."""
    told = [f"{cause.field}: {cause.message}" for cause in causes]
    listed = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": [cause._asdict() for cause in causes]}
    message = f'{kind.qualified} "{name}" is invalid: {listed}'
    return Refusal(422, "Invalid", message, {key: value for key, value in details.items() if value})


def patch_failed() -> Refusal:
    """422 with one fixed sentence and no details: an operation of a JSON Patch could not be applied."""
    return Refusal(422, "Invalid", "the server rejected our request due to an error in our request", {})


def expired(message: str) -> Refusal:
    """410: the history that the caller asks for is gone; list again."""
    return Refusal(410, "Expired", message)


def too_old(asked: int, oldest: int) -> Refusal:
    """410 of a watch or list at a forgotten resourceVersion."""
    return expired(f"too old resource version: {asked} ({oldest})")


def too_new(asked: int, current: int) -> Refusal:
    """504: this server has not seen that resourceVersion yet."""
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return Refusal(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def unsupported_media_type(accepted: Sequence[str]) -> Refusal:
    """415: a body in a form that this resource does not take."""
    told = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return Refusal(415, "UnsupportedMediaType", told, {})


def method_not_allowed() -> Refusal:
    """405: the path exists, the verb does not."""
    return Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unauthorized() -> Refusal:
    """401: no bearer token, or another one."""
    return Refusal(401, "Unauthorized", "Unauthorized")


def too_large(limit: int) -> Refusal:
    """413: the body is longer than ``limit`` bytes."""
    return Refusal(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}", {})
