"""The built-in kinds that Beehive and kubectl touch, and the little that makes each of them special.

Schemas name every field that is checked; what they leave open (a Pod's spec) is kept as it comes.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import Any, Final

from modules.demo.apiserver.kinds import Column, Kind
from modules.demo.apiserver.status import Cause, bad_request

Object = dict[str, Any]

_TEXT: Final[Object] = {"type": "string"}
_INT: Final[Object] = {"type": "integer"}
_FLAG: Final[Object] = {"type": "boolean"}
_TIME: Final[Object] = {"type": "string", "format": "date-time", "nullable": True}
_MAP: Final[Object] = {"type": "object", "additionalProperties": _TEXT}
_OPEN: Final[Object] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _object(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


def _list(item: Object) -> Object:
    return {"type": "array", "items": item}


def _texts(*names: str) -> dict[str, Object]:
    return dict.fromkeys(names, _TEXT)


_CONDITIONS: Final = _list(
    {
        **_object(**_texts("type", "status", "reason", "message"), lastHeartbeatTime=_TIME, lastTransitionTime=_TIME),
        "required": ["type"],
    }
)
_REFERENCE: Final = _object(**_texts("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"))
_TAINT: Final = _object(**_texts("key", "value", "effect"), timeAdded=_TIME)
_NODE: Final = _object(
    spec=_object(
        **_texts("podCIDR", "providerID", "externalID"),
        unschedulable=_FLAG, taints=_list(_TAINT), podCIDRs=_list(_TEXT), configSource=_OPEN,
    ),
    status={
        **_OPEN,
        "properties": {"conditions": _CONDITIONS, "addresses": _list(_object(**_texts("type", "address")))},
    },
)  # fmt: skip
_LEASE: Final = _object(
    spec=_object(
        **_texts("holderIdentity", "preferredHolder", "strategy"),
        leaseDurationSeconds=_INT, leaseTransitions=_INT, acquireTime=_TIME, renewTime=_TIME,
    )
)  # fmt: skip
_EVENT: Final = _object(
    **_texts("reason", "message", "type", "action", "reportingComponent", "reportingInstance"),
    involvedObject=_REFERENCE, related=_REFERENCE, source=_object(**_texts("component", "host")), count=_INT,
    firstTimestamp=_TIME, lastTimestamp=_TIME, eventTime=_TIME, series=_object(count=_INT, lastObservedTime=_TIME),
)  # fmt: skip
_EVENT_FIELDS: Final = frozenset(
    {f"involvedObject.{name}" for name in _REFERENCE["properties"]}
    | {"metadata.name", "metadata.namespace", "reason", "type", "reportingComponent", "source"}
)
_MERGED: Final = {"metadata.finalizers": "", "metadata.ownerReferences": "uid"}
_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")
_NAME: Final = Column("Name", ".metadata.name", "string", "name")

NODES: Final = Kind(
    "", "v1", "Node", "nodes", "node", namespaced=False, schema=_NODE, short_names=("no",), has_status=True,
    status_on_create=True, metadata_by_status=True,
    field_selectors=frozenset({"metadata.name", "spec.unschedulable"}),
    merge_keys={**_MERGED, "status.conditions": "type", "status.addresses": "type"},
    columns=(
        _NAME, Column("Status", "node_status"), Column("Roles", "node_roles"), _AGE,
        Column("Version", ".status.nodeInfo.kubeletVersion"),
        Column("Internal-IP", '.status.addresses[?(@.type=="InternalIP")].address', priority=1),
        Column("OS-Image", ".status.nodeInfo.osImage", priority=1),
    ),
)  # fmt: skip
SECRETS: Final = Kind(
    "", "v1", "Secret", "secrets", "secret", namespaced=True,
    schema=_object(type=_TEXT, data={**_MAP, "nullable": True}, stringData=_MAP, immutable=_FLAG),
    field_selectors=frozenset({"metadata.name", "metadata.namespace", "type"}),
    merge_keys=_MERGED,
    columns=(_NAME, Column("Type", ".type"), Column("Data", "data_count", "string"), _AGE),
)  # fmt: skip
CONFIGMAPS: Final = Kind(
    "", "v1", "ConfigMap", "configmaps", "configmap", namespaced=True, short_names=("cm",),
    schema=_object(data={**_MAP, "nullable": True}, binaryData=_MAP, immutable=_FLAG),
    merge_keys=_MERGED,
    columns=(_NAME, Column("Data", "data_count", "string"), _AGE),
)  # fmt: skip
NAMESPACES: Final = Kind(
    "", "v1", "Namespace", "namespaces", "namespace", namespaced=False, short_names=("ns",), has_status=True,
    schema=_object(spec=_object(finalizers=_list(_TEXT)), status=_OPEN), returns_deleted=True, metadata_by_status=True,
    merge_keys={**_MERGED, "status.conditions": "type"},
    columns=(_NAME, Column("Status", ".status.phase"), _AGE),
)  # fmt: skip
EVENTS: Final = Kind(
    "", "v1", "Event", "events", "event", namespaced=True, short_names=("ev",), schema=_EVENT, create_on_update=True,
    field_selectors=_EVENT_FIELDS, merge_keys=_MERGED,
    columns=(
        Column("Last Seen", ".lastTimestamp", "date"), Column("Type", ".type"), Column("Reason", ".reason"),
        Column("Object", "event_object"), Column("Source", ".source.component", priority=1),
        Column("Message", ".message"),
        Column("First Seen", ".firstTimestamp", "date", priority=1), Column("Count", ".count", priority=1),
        Column("Name", ".metadata.name", "string", "name", priority=1),
    ),
)  # fmt: skip
PODS: Final = Kind(
    "", "v1", "Pod", "pods", "pod", namespaced=True, short_names=("po",), has_status=True, returns_deleted=True,
    schema=_object(spec=_OPEN, status=_OPEN), metadata_by_status=True,
    field_selectors=frozenset({"metadata.name", "metadata.namespace", "spec.nodeName", "status.phase"}),
    merge_keys={
        "spec.containers": "name", "spec.containers.env": "name", "spec.volumes": "name", "status.conditions": "type",
        **_MERGED,
    },
    columns=(_NAME, Column("Status", ".status.phase"), _AGE, Column("Node", ".spec.nodeName", priority=1)),
)  # fmt: skip
LEASES: Final = Kind(
    "coordination.k8s.io", "v1", "Lease", "leases", "lease", namespaced=True, schema=_LEASE, blind_update=False,
    create_on_update=True, merge_keys=_MERGED,
    columns=(_NAME, Column("Holder", ".spec.holderIdentity"), _AGE),
)  # fmt: skip
KINDS: Final = (NODES, SECRETS, CONFIGMAPS, NAMESPACES, EVENTS, PODS, LEASES)

FIRST_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


def prepared(kind: Kind, value: Object) -> Object:
    """``value`` with what the server fills in for this kind."""
    if kind is SECRETS:
        return _secret(value)
    if kind is NAMESPACES:
        value = {**value, "spec": {"finalizers": ["kubernetes"], **(value.get("spec") or {})}}
        return {**value, "status": {"phase": "Active", **(value.get("status") or {})}}
    if kind is NODES:  # Go's structs are always written, so a patch below them finds its place
        return {**value, "spec": value.get("spec") or {}, "status": value.get("status") or {}}
    if kind is PODS:
        return {**value, "status": {"phase": "Pending", **(value.get("status") or {})}}
    return value


def _secret(value: Object) -> Object:
    for key, text in (value.get("data") or {}).items():
        if not _is_base64(text):
            raise bad_request(
                f'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at data[{key}]'
            )
    filled = {key: part for key, part in value.items() if key != "stringData"}
    if texts := value.get("stringData"):
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        filled["data"] = {**(value.get("data") or {}), **encoded}
    return {**filled, "type": value.get("type") or "Opaque"}


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def causes(kind: Kind, value: Object) -> Iterator[Cause]:
    """What is wrong with an object of this kind beyond its schema."""
    if kind is EVENTS:
        yield from _wrong_event(value)
    elif kind is LEASES:
        yield from _wrong_lease(value.get("spec") or {})
    elif kind is PODS and not (value.get("spec") or {}).get("containers"):
        yield Cause("FieldValueRequired", "Required value", "spec.containers")


def _wrong_event(value: Object) -> Iterator[Cause]:
    about = (value.get("involvedObject") or {}).get("namespace", "")
    lives = value["metadata"].get("namespace", "")
    fits = lives in {"default", "kube-system"} if not about else about == lives
    if not fits:
        yield Cause(
            "FieldValueInvalid", f'Invalid value: "{about}": does not match event.namespace', "involvedObject.namespace"
        )


def _wrong_lease(spec: Object) -> Iterator[Cause]:
    for name, least, word in (
        ("leaseDurationSeconds", 1, "greater than 0"),
        ("leaseTransitions", 0, "greater than or equal to 0"),
    ):
        if isinstance(spec.get(name), int) and spec[name] < least:
            yield Cause("FieldValueInvalid", f"Invalid value: {spec[name]}: must be {word}", f"spec.{name}")
