"""``metadata``: what the server sets, what it keeps, what it refuses."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from modules.demo.apiserver.kinds import Kind
from modules.demo.apiserver.status import Cause, Refusal, bad_request

Object = dict[str, Any]

ANNOTATIONS_LIMIT: Final = 256 * 1024
"""Bytes of all annotations of one object, keys and values."""
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_NAME_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NAME_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_FROM_OLD: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "generateName",
)


def born(kind: Kind, metadata: Object, uid: str, now: str, suffix: str) -> Object:
    """The metadata of a new object. ``suffix`` ends a generated name; ``now`` is RFC 3339 in UTC."""
    if metadata.get("resourceVersion"):
        raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
    born = {
        key: value
        for key, value in metadata.items()
        if key not in {*_FROM_OLD, "resourceVersion", "managedFields", "selfLink"}
    }
    if prefix := metadata.get("generateName"):
        born["generateName"] = prefix
        born["name"] = metadata.get("name") or prefix[: 63 - len(suffix)] + suffix
    born |= {"uid": uid, "creationTimestamp": now}
    return {**born, "generation": 1} if kind.custom else born


def kept(metadata: Object, old: Object) -> Object:
    """The metadata of a changed object: what only the server sets stays as it was."""
    free = {key: value for key, value in metadata.items() if key not in {*_FROM_OLD, "managedFields", "selfLink"}}
    fixed: Object = {key: old[key] for key in _FROM_OLD if key in old}
    return {**free, **fixed, "resourceVersion": old["resourceVersion"]}


def check_place(kind: Kind, metadata: Object, namespace: str) -> Object:
    """``metadata`` with the namespace of the request's path; 400 when it names another."""
    named = metadata.get("namespace", "")
    if kind.namespaced and named not in {"", namespace}:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    rest = {key: value for key, value in metadata.items() if key != "namespace"}
    return {**rest, "namespace": namespace} if kind.namespaced else rest


def causes(metadata: Mapping[str, Any]) -> Iterator[Cause]:
    """What is wrong with name, labels, annotations and finalizers."""
    name = metadata.get("name", "")
    if not name:
        yield Cause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
    elif len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        yield Cause("FieldValueInvalid", f'Invalid value: "{name}": {_NAME_RULE}', "metadata.name")
    for key, value in (metadata.get("labels") or {}).items():
        yield from _wrong_key(key, "metadata.labels")
        if len(value) > 63 or not _LABEL_VALUE.fullmatch(value):
            yield Cause(
                "FieldValueInvalid",
                f'Invalid value: "{value}": a valid label must be at most 63 of [-A-Za-z0-9_.]',
                "metadata.labels",
            )
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        yield from _wrong_key(key.lower(), "metadata.annotations")
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        yield Cause(
            "FieldValueTooLong", f"Too long: may not be more than {ANNOTATIONS_LIMIT} bytes", "metadata.annotations"
        )
    for finalizer in metadata.get("finalizers") or ():
        yield from _wrong_key(finalizer, "metadata.finalizers")


def _wrong_key(key: str, path: str) -> Iterator[Cause]:
    prefix, slash, name = key.rpartition("/")
    prefix_ok = not slash or (len(prefix) <= 253 and bool(_SUBDOMAIN.fullmatch(prefix)))
    if not (prefix_ok and len(name) <= 63 and _NAME_PART.fullmatch(name)):
        told = f'Invalid value: "{key}": name part must consist of alphanumeric characters, "-", "_" or "."'
        yield Cause("FieldValueInvalid", told, path)


def change_causes(given: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[Cause]:
    """What a change of metadata may not do: change identity, delete by hand, hold what is being deleted."""
    if (given.get("uid") or old["uid"]) != old["uid"]:
        yield Cause("FieldValueInvalid", f'Invalid value: "{given["uid"]}": field is immutable', "metadata.uid")
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in given and name not in old:
            yield Cause("FieldValueInvalid", f'Invalid value: "{given[name]}": field is immutable', f"metadata.{name}")
    before = set(old.get("finalizers") or ())
    added = [one for one in given.get("finalizers") or () if one not in before]
    if added and "deletionTimestamp" in old:
        why = f"no new finalizers can be added if the object is being deleted, found new finalizers {added}"
        yield Cause("FieldValueForbidden", f"Forbidden: {why}", "metadata.finalizers")
