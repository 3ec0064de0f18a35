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
    annotations = _annotations(item)
    new: Json = {**item, "apiVersion": V1ALPHA1}
    spec = item.get("spec")
    keep = None
    if isinstance(spec, dict):
        written = _read(annotations.get(ONLY_V1ALPHA1))
        pins = spec.get(_PINS, _MISSING)
        shown = _pin_shown(pins)
        if _PINS in written and _pins_taken(written[_PINS]) == pins:
            shown = written[_PINS]
        only = {key: spec[key] for key in _DEFAULTS if key in spec}
        if _pins_taken(shown) != pins:
            only[_PINS] = pins
        new["spec"] = _with({key: value for key, value in spec.items() if key not in _DEFAULTS}, _PINS, shown)
        keep = None if only == _DEFAULTS else only
    _annotate(new, annotations, ONLY_V1ALPHA2, keep)
    if isinstance(item.get("status"), dict):
        new["status"] = to_v1alpha1(item["status"], _job(item))
    return new


def _to_v1alpha2(item: Json) -> Json:
    annotations = _annotations(item)
    new: Json = {**item, "apiVersion": V1ALPHA2}
    spec = item.get("spec")
    keep = None
    if isinstance(spec, dict):
        only = _only_v1alpha2(annotations.get(ONLY_V1ALPHA2))
        pin = spec.get(_PINS, _MISSING)
        pins = _pins_taken(pin)
        if _PINS in only and _pin_shown(only[_PINS]) == pin:
            pins = only[_PINS]
        shared = {key: value for key, value in spec.items() if key not in _DEFAULTS}
        only = {key: value for key, value in only.items() if key != _PINS}
        new["spec"] = {**_with(shared, _PINS, pins), **only}
        keep = None if _pin_shown(pins) == pin else {_PINS: pin}
    _annotate(new, annotations, ONLY_V1ALPHA1, keep)
    if isinstance(item.get("status"), dict):
        new["status"] = to_v1alpha2(item["status"], _job(item))
    return new


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


def _annotate(new: Json, annotations: dict[str, Any], key: str, keep: Json | None) -> None:
    """The object's annotations without the other direction's, and with `keep` under `key`."""
    rest = {name: value for name, value in annotations.items() if name not in (ONLY_V1ALPHA1, ONLY_V1ALPHA2)}
    if keep is not None:
        rest[key] = msgspec.json.encode(keep, order="sorted").decode()
        _must_fit(rest)
    if rest == annotations:
        return
    meta = new.get("metadata")
    whole = {name: value for name, value in meta.items() if name != "annotations"} if isinstance(meta, dict) else {}
    new["metadata"] = {**whole, "annotations": rest} if rest else whole


def _must_fit(annotations: dict[str, Any]) -> None:
    size = sum(len(name.encode()) + len(str(value).encode()) for name, value in annotations.items())
    if size > MOST_ANNOTATIONS:
        raise Refused(
            "the annotations leave no room for what v1alpha1 cannot express of the spec; "
            f"shorten them by {size - MOST_ANNOTATIONS} bytes, or read the object as v1alpha2"
        )


def _read(text: Any) -> Json:
    """What is no JSON object is nothing: a reader must not stumble over it."""
    try:
        found = msgspec.json.decode(text) if isinstance(text, str) else None
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _only_v1alpha2(text: Any) -> Json:
    """A writer must not smuggle in what the schema would have refused."""
    if text is None:
        return dict(_DEFAULTS)
    try:
        _ANNOTATION.decode(text)
    except (msgspec.MsgspecError, RecursionError, TypeError) as error:
        raise Refused(f"metadata.annotations[{ONLY_V1ALPHA2}] is not what was read: {error}; leave it alone") from None
    return _read(text)


def _job(item: Json) -> Job:
    meta, spec = item.get("metadata"), item.get("spec")
    uid = meta.get("uid") if isinstance(meta, dict) else ""
    version = spec.get("version") if isinstance(spec, dict) else ""
    return Job(uid if isinstance(uid, str) else "", version if isinstance(version, str) else "")
