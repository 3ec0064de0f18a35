"""NodeUpgradeJob between v1alpha2, which is stored, and v1alpha1. Pure, lossless both ways (product.md 3.3).

What one version cannot express of the spec travels in an annotation of the other; of the status, in a preserved field
(`convert_status`). Both belong to the conversion: what somebody else writes there is checked, and refused or dropped.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from beehive.api import v1alpha1
from beehive.api.convert_entry import Job
from beehive.api.convert_status import to_v1alpha1, to_v1alpha2
from beehive.api.nodeupgradejob import API_VERSION, GROUP, KIND, ImageDigests
from beehive.errors import Refused

Json = dict[str, Any]

V1ALPHA1 = v1alpha1.API_VERSION
V1ALPHA2 = API_VERSION
ONLY_V1ALPHA2 = f"{GROUP}/only-in-v1alpha2"
"""Annotation of a v1alpha1 object: the part of the spec that only v1alpha2 knows. Missing: its defaults."""
ONLY_V1ALPHA1 = f"{GROUP}/only-in-v1alpha1"
"""Annotation of a v1alpha2 object: the pin as v1alpha1 wrote it, where v1alpha2 would spell it otherwise."""
SPARE = "v1alpha2Spec"
"""Field of a v1alpha1 status: the same part, where the annotations have no room left. A reader never goes without."""
MOST_ANNOTATIONS = 256 * 1024
"""Bytes of all keys and values of an object's annotations (Kubernetes' own limit)."""

_PINS = "imageDigestGatter"
_ARCHITECTURES = ("amd64", "arm64")
_MISSING: Any = object()


class _OnlyV1alpha2(Struct, rename="camel", forbid_unknown_fields=True):
    """Keys and types that the annotation may have."""

    on_offline: str | UnsetType = UNSET
    allow_downgrade: bool | UnsetType = UNSET
    suspend: bool | UnsetType = UNSET
    abort: bool | UnsetType = UNSET
    retry: int | UnsetType = UNSET
    image_digest_gatter: ImageDigests | UnsetType | None = UNSET


_DEFAULTS: Json = {"onOffline": "Skip", "allowDowngrade": False, "suspend": False, "abort": False, "retry": 0}
_ANNOTATION = msgspec.json.Decoder(_OnlyV1alpha2)


def converted(item: Json, wanted: str) -> Json:
    """The object in the API version `wanted`; the very same where it is in it already.

    Raises Refused, with a sentence, for another kind or version and for a broken annotation of ours.
    """
    found = item.get("apiVersion")
    if item.get("kind") != KIND:
        raise Refused(f"only {KIND} can be converted, not {str(item.get('kind'))[:80]}")
    if found == wanted:
        return item
    if (found, wanted) == (V1ALPHA2, V1ALPHA1):
        return _to_v1alpha1(item)
    if (found, wanted) == (V1ALPHA1, V1ALPHA2):
        return _to_v1alpha2(item)
    raise Refused(f"{KIND} cannot be converted from {str(found)[:80]} to {wanted[:80]}; it has v1alpha1 and v1alpha2")


def _to_v1alpha1(item: Json) -> Json:
    annotations, spec, status = _annotations(item), item.get("spec"), item.get("status")
    new: Json = {**item, "apiVersion": V1ALPHA1}
    if isinstance(status, dict):
        new["status"] = to_v1alpha1(status, _job(item))
    keep = None
    if isinstance(spec, dict):
        new["spec"], only = _spec_shown(spec, _read(annotations.get(ONLY_V1ALPHA1)))
        keep = None if only == _DEFAULTS else only
    if not _annotate(new, annotations, ONLY_V1ALPHA2, keep):
        new["status"] = {**new.get("status", {}), SPARE: keep}
    return new


def _spec_shown(spec: Json, written: Json) -> tuple[Json, Json]:
    """What v1alpha1 can express of a spec, and the rest; `written` is the annotation that v1alpha1 left."""
    pins = spec.get(_PINS, _MISSING)
    shown = _pin_shown(pins)
    if _PINS in written and _pins_taken(written[_PINS]) == pins:
        shown = written[_PINS]
    only = {key: spec[key] for key in _DEFAULTS if key in spec}
    if _pins_taken(shown) != pins:
        only[_PINS] = pins
    return _with({key: value for key, value in spec.items() if key not in _DEFAULTS}, _PINS, shown), only


def _to_v1alpha2(item: Json) -> Json:
    annotations, spec, status = _annotations(item), item.get("spec"), item.get("status")
    new: Json = {**item, "apiVersion": V1ALPHA2}
    spare = None
    if isinstance(status, dict):
        own = {key: value for key, value in status.items() if key != SPARE}
        spare = status.get(SPARE)
        new["status"] = to_v1alpha2(own, _job(item))
        if spare is not None and not own:
            del new["status"]
    keep = None
    if isinstance(spec, dict):
        new["spec"], keep = _spec_taken(spec, _only_v1alpha2(annotations.get(ONLY_V1ALPHA2), spare))
    if not _annotate(new, annotations, ONLY_V1ALPHA1, keep):
        raise Refused("the annotations leave no room for spec.imageDigestGatter as v1alpha1 has it; shorten them")
    return new


def _spec_taken(spec: Json, only: Json) -> tuple[Json, Json | None]:
    """The spec with what only v1alpha2 knows, and what only v1alpha1 can express."""
    pin = spec.get(_PINS, _MISSING)
    pins = _pins_taken(pin)
    if _PINS in only and _pin_shown(only[_PINS]) == pin:
        pins = only[_PINS]
    shared = {key: value for key, value in spec.items() if key not in _DEFAULTS}
    beyond = {key: value for key, value in only.items() if key != _PINS}
    return {**_with(shared, _PINS, pins), **beyond}, None if _pin_shown(pins) == pin else {_PINS: pin}


# ---- pins ------------------------------------------------------------------------------------------------------------


def _pin_shown(pins: Any) -> Any:
    """One value where amd64 and arm64 have the same digest and nobody else has one, else none."""
    if not isinstance(pins, dict):
        return pins
    shown = {key: value for key, value in pins.items() if key not in (*_ARCHITECTURES, "digests", "value")}
    digest = pins.get("amd64")
    if isinstance(digest, str) and digest and digest == pins.get("arm64") and "digests" not in pins:
        shown["value"] = digest
    return shown


def _pins_taken(pin: Any) -> Any:
    """The value holds for amd64 and arm64; another architecture has no pin then and fails its check."""
    if not isinstance(pin, dict):
        return pin
    pins = {key: value for key, value in pin.items() if key not in (*_ARCHITECTURES, "digests", "value")}
    value = pin.get("value")
    return pins | dict.fromkeys(_ARCHITECTURES, value) if isinstance(value, str) and value else pins


def _with(spec: Json, key: str, value: Any) -> Json:
    """The key in its old place, or gone."""
    if value is _MISSING:
        return {name: one for name, one in spec.items() if name != key}
    return {**spec, key: value}


# ---- annotations -----------------------------------------------------------------------------------------------------


def _annotations(item: Json) -> dict[str, Any]:
    meta = item.get("metadata")
    found = meta.get("annotations") if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


def _annotate(new: Json, annotations: dict[str, Any], key: str, keep: Json | None) -> bool:
    """Put `keep` under `key` in place of what either direction left before. False: there is no room for it."""
    rest = {name: value for name, value in annotations.items() if name not in (ONLY_V1ALPHA1, ONLY_V1ALPHA2)}
    whole = rest if keep is None else {**rest, key: msgspec.json.encode(keep, order="sorted").decode()}
    fits = keep is None or _size(whole) <= MOST_ANNOTATIONS
    wanted = whole if fits else rest
    if wanted != annotations:
        meta = new.get("metadata")
        plain = {name: one for name, one in meta.items() if name != "annotations"} if isinstance(meta, dict) else {}
        new["metadata"] = {**plain, "annotations": wanted} if wanted else plain
    return fits


def _size(annotations: dict[str, Any]) -> int:
    return sum(len(name.encode()) + len(str(value).encode()) for name, value in annotations.items())


def _read(text: Any) -> Json:
    """What is no JSON object is nothing: a reader must not stumble over it."""
    try:
        found = msgspec.json.decode(text) if isinstance(text, str) else None
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _only_v1alpha2(text: Any, spare: Any) -> Json:
    """A writer must not smuggle in what the schema would have refused."""
    if text is None and spare is None:
        return dict(_DEFAULTS)
    where = SPARE if text is None else ONLY_V1ALPHA2
    try:
        if text is None:
            text = msgspec.json.encode(spare)
        _ANNOTATION.decode(text)
    except (msgspec.MsgspecError, RecursionError, TypeError) as error:
        raise Refused(f"{where} is not what was read: {error}; leave it alone") from None
    return _read(text if isinstance(text, str) else text.decode())


def _job(item: Json) -> Job:
    meta, spec = item.get("metadata"), item.get("spec")
    uid = meta.get("uid") if isinstance(meta, dict) else ""
    version = spec.get("version") if isinstance(spec, dict) else ""
    return Job(uid if isinstance(uid, str) else "", version if isinstance(version, str) else "")
