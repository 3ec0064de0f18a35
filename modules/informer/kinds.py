"""The kinds that the informer keeps: where they are, how they are read, when two of them are the same to rules."""

import hashlib
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from beehive.api.meta import ObjectMeta
from beehive.api.node import Node, NodeCondition
from beehive.api.nodeupgradejob import API_VERSION, PLURAL, NodeUpgradeJob
from modules.informer.cache import Kept

T = TypeVar("T", bound=Kept)


class ListMeta(Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    token: str = msgspec.field(name="continue", default="")


class ListBody(Struct, frozen=True):
    """A page; each item is read by itself, so that one that cannot be read spoils only itself."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class WatchLine(Struct, frozen=True):
    type: str
    """`ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`."""
    object: msgspec.Raw


class _Headed(Struct, frozen=True):
    metadata: ObjectMeta


page_of = msgspec.json.Decoder(ListBody).decode
line_of = msgspec.json.Decoder(WatchLine).decode
_headed = msgspec.json.Decoder(_Headed).decode


class SecretMark(Struct, frozen=True):
    """What is kept of a Secret: enough to see that it changed, nothing that is secret."""

    metadata: ObjectMeta
    digest: bytes


class _SecretBody(Struct, frozen=True):
    metadata: ObjectMeta
    data: msgspec.Raw = msgspec.Raw(b"null")


class Kind(Struct, Generic[T], frozen=True):
    """One kind in the API."""

    title: str
    """In the plural, for people."""
    path: str
    """Of its list."""
    read: Callable[[bytes | msgspec.Raw], T]
    """Raises msgspec.MsgspecError for what cannot be read, and ValueError for a version that is no number."""
    alike: Callable[[T, T], bool]
    page: int
    """Objects asked for at once."""
    absent: str = ""
    """What to do when the API server does not know the kind."""


def header(raw: bytes | msgspec.Raw) -> ObjectMeta:
    """The metadata of anything; empty where even that cannot be read."""
    try:
        return _headed(raw).metadata
    except msgspec.MsgspecError:
        return ObjectMeta()


def same_job(one: NodeUpgradeJob, other: NodeUpgradeJob) -> bool:
    """Equal but for the version."""
    return _same_meta(one.metadata, other.metadata) and one.spec == other.spec and one.status == other.status


def same_node(one: Node, other: Node) -> bool:
    """Equal but for the version and the heartbeats."""
    return (
        _same_meta(one.metadata, other.metadata)
        and one.spec == other.spec
        and one.status.node_info == other.status.node_info
        and _standings(one) == _standings(other)
    )


def _standings(node: Node) -> list[tuple[str, str, str, str, str | None]]:
    return [_standing(one) for one in node.status.conditions or ()]


def _standing(one: NodeCondition) -> tuple[str, str, str, str, str | None]:
    return one.type, one.status, one.reason, one.message, one.last_transition_time


def same_secret(one: SecretMark, other: SecretMark) -> bool:
    """Equal in their data."""
    return one.metadata.uid == other.metadata.uid and one.digest == other.digest


def _same_meta(one: ObjectMeta, other: ObjectMeta) -> bool:
    return (
        one.uid == other.uid
        and one.generation == other.generation
        and one.labels == other.labels
        and one.annotations == other.annotations
        and one.finalizers == other.finalizers
        and one.deletion_timestamp == other.deletion_timestamp
    )


_job = msgspec.json.Decoder(NodeUpgradeJob).decode
_node = msgspec.json.Decoder(Node).decode
_secret = msgspec.json.Decoder(_SecretBody).decode


def _numbered(one: T) -> T:
    version = one.metadata.resource_version
    if not version.isdecimal() or not one.metadata.name:
        raise ValueError(f"{one.metadata.name!r} has the version {version!r}, which is not a number")
    return one


def _read_secret(raw: bytes | msgspec.Raw) -> SecretMark:
    body = _secret(raw)
    return _numbered(SecretMark(body.metadata, hashlib.sha256(body.data).digest()))


JOBS: Kind[NodeUpgradeJob] = Kind(
    title="NodeUpgradeJobs",
    path=f"/apis/{API_VERSION}/{PLURAL}",
    read=lambda raw: _numbered(_job(raw)),
    alike=same_job,
    page=20,  # a job may be 1 MiB
    absent="its definition is not installed: kubectl apply -f configs/crd, or beehive crd | kubectl apply -f -",
)
NODES: Kind[Node] = Kind(
    title="Nodes",
    path="/api/v1/nodes",
    read=lambda raw: _numbered(_node(raw)),
    alike=same_node,
    page=500,
)


def secrets_in(namespace: str) -> Kind[SecretMark]:
    """The Secrets of one namespace."""
    path = f"/api/v1/namespaces/{namespace}/secrets"
    return Kind(title="Secrets", path=path, read=_read_secret, alike=same_secret, page=100)
