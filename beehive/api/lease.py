"""coordination.k8s.io/v1 Lease."""

from msgspec import Struct

from beehive.api.meta import ObjectMeta


class LeaseSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    """RFC3339 with microseconds, UTC."""
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Struct, frozen=True, kw_only=True, rename="camel"):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
