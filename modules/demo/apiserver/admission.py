"""From what a client wants to what is stored: the steps that every write goes through, as pure functions.

Raises the `Refusal` of the first step that fails.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from modules.demo.apiserver import builtin, metadata, schema, shaping, status
from modules.demo.apiserver.cel import Rules
from modules.demo.apiserver.equality import same
from modules.demo.apiserver.kinds import Kind
from modules.demo.apiserver.object_schema import METADATA
from modules.demo.apiserver.status import Cause

Object = dict[str, Any]

STRICT: Final = "Strict"
WARN: Final = "Warn"


@dataclass
class Options:
    """How a write is to be done."""

    validation: str = WARN
    """``fieldValidation``: what happens to unknown fields."""
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)
    """Is filled with what the answer must warn of."""


@dataclass(frozen=True)
class Birth:
    """What only the server gives to a new object."""

    uid: str
    now: str
    """RFC 3339, UTC, whole seconds."""
    suffix: str
    """The end of a generated name."""


class Write(NamedTuple):
    """Where a write goes."""

    kind: Kind
    namespace: str
    options: Options
    subresource: str = ""
    replaces: bool = False
    """It is a PUT: a uid in it is a precondition."""


def created(write: Write, body: Any, birth: Birth, rules: Rules) -> Object:
    """The new object, without its resourceVersion."""
    kind = write.kind
    value = _shaped(kind, _typed(kind, body), shaping.NOTHING, write.options)
    given = metadata.check_place(kind, value.get("metadata") or {}, write.namespace)
    value = {**value, "metadata": metadata.born(kind, given, birth.uid, birth.now, birth.suffix)}
    if kind.has_status and not kind.status_on_create:
        value.pop("status", None)
    made: Object = shaping.default(builtin.prepared(kind, value), kind.whole)
    _refuse(kind, made, _causes(kind, made, shaping.NOTHING, rules))
    return made


def updated(write: Write, body: Any, old: Object, rules: Rules) -> Object:
    """What becomes of ``old``; ``old`` itself when nothing changes. Its resourceVersion is still the old one."""
    kind, stored = write.kind, old["metadata"]
    value = _shaped(kind, shaping.graft(_typed(kind, body), old), old, write.options)
    given = metadata.check_place(kind, value.get("metadata") or {}, write.namespace)
    _check_identity(write, given, stored)
    free = write.subresource == "" or kind.metadata_by_status
    if free:
        _refuse(kind, old, metadata.change_causes(given, stored))
    value = {**value, "metadata": metadata.kept(given, stored) if free else stored}
    value = _only(write.subresource, kind, value, old)
    filled: Object = shaping.graft(shaping.default(builtin.prepared(kind, value), kind.whole, old), old)
    if filled is old:
        return old
    changed = _with_generation(kind, filled, old)
    _refuse(kind, changed, _causes(kind, changed, old, rules))
    return changed


def _unreadable(kind: Kind, why: str) -> status.Refusal:
    return status.bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')


def _typed(kind: Kind, body: Any) -> Object:
    """The body, if it claims to be of this kind."""
    if not isinstance(body, dict):
        raise status.bad_request("the object provided is unrecognized: it must be an object")
    found_kind, found_version = body.get("kind"), body.get("apiVersion")
    if kind.custom and not found_kind:
        raise status.bad_request("Object 'Kind' is missing in the request body")
    if found_version not in {None, "", kind.api_version}:
        told = f"the API version in the data ({found_version}) does not match the expected API version"
        raise status.bad_request(f"{told} ({kind.api_version})")
    if found_kind not in {None, "", kind.kind}:
        raise _another_kind(kind, found_kind, body)
    return {**body, "apiVersion": kind.api_version, "kind": kind.kind}


def _another_kind(kind: Kind, found: Any, body: Object) -> status.Refusal:
    if not kind.custom:
        return status.bad_request(f"the kind in the data ({found}) does not match the expected kind ({kind.kind})")
    metadata = body.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return status.invalid(
        kind, name, [Cause("FieldValueInvalid", f'Invalid value: "{found}": must be {kind.kind}', "kind")]
    )


def _shaped(kind: Kind, value: Object, old: Any, options: Options) -> Object:
    unknown: list[str] = []
    note: Callable[[str], None] = unknown.append
    shaped = shaping.prune(value, kind.whole, old, unknown=note)
    told = [f'unknown field "{path}"' for path in unknown]
    if told and options.validation == STRICT:
        raise _unreadable(kind, f"strict decoding error: {', '.join(told)}")
    if options.validation == WARN:
        options.warnings.extend(told)
    for cause in schema.causes(shaped, _typed_at_once(kind), old):
        if cause.reason == "FieldValueTypeInvalid":
            raise _unreadable(kind, cause.message)
    return shaped  # type: ignore[no-any-return]


def _typed_at_once(kind: Kind) -> Mapping[str, Any]:
    """What must have the right types to be read at all: metadata, and all of a built-in kind."""
    return {"properties": {"metadata": METADATA}} if kind.custom else kind.whole


def _check_identity(write: Write, given: Object, old: Object) -> None:
    kind, name = write.kind, old["name"]
    if given.get("name", name) != name:
        told = f"the name of the object ({given['name']}) does not match the name on the URL ({name})"
        raise status.bad_request(told)
    uid = given.get("uid")
    if write.replaces and uid and uid != old["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['uid']}"
        raise status.conflict(kind, name, why)
    version = given.get("resourceVersion")
    if not version and not kind.blind_update:
        cause = Cause(
            "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
        )
        raise status.invalid(kind, name, [cause])
    if version and version != old["resourceVersion"]:
        raise status.conflict(kind, name)


def _only(subresource: str, kind: Kind, value: Object, old: Object) -> Object:
    """Keep spec and status apart: a write changes the one that it was sent to."""
    if subresource == "status":
        return _with_status({**old, "metadata": value["metadata"]}, value)
    return _with_status(value, old) if kind.has_status else value


def _with_status(value: Object, giver: Object) -> Object:
    rest = {key: part for key, part in value.items() if key != "status"}
    return {**rest, "status": giver["status"]} if "status" in giver else rest


def _with_generation(kind: Kind, value: Object, old: Object) -> Object:
    if not kind.custom:
        return value
    apart = {"metadata", "status"} if kind.has_status else {"metadata"}
    if all(same(value.get(key), old.get(key)) for key in (value.keys() | old.keys()) - apart):
        return value
    return {**value, "metadata": {**value["metadata"], "generation": old["metadata"]["generation"] + 1}}


def _causes(kind: Kind, value: Object, old: Any, rules: Rules) -> Iterator[Cause]:
    yield from metadata.causes(value["metadata"])
    found = list(schema.causes(value, kind.whole, old))
    yield from found
    yield from builtin.causes(kind, value)
    if not rules.any(kind.whole):
        return
    if schema.blocks_rules(found):
        yield schema.UNCHECKED
    else:
        yield from rules.causes(value, kind.whole, old)


def _refuse(kind: Kind, value: Object, causes: Iterator[Cause]) -> None:
    found = list(causes)
    if found:
        raise status.invalid(kind, value["metadata"].get("name", ""), found)
