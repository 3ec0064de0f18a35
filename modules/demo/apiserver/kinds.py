"""What a served kind is: its names, its schema, its columns and the few habits in which kinds differ."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from modules.demo.apiserver.object_schema import whole

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column of ``kubectl get``."""

    name: str
    path: str
    """JSONPath into the object, as in a CRD; or the name of a computed cell, without a leading dot."""
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    """0 is always shown, more only with ``-o wide``."""


@dataclass(frozen=True, eq=False)
class Kind:
    """A resource that this server keeps."""

    group: str
    """Empty for the core group."""
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    schema: Schema
    """Structural schema, as in a CRD."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    has_status: bool = False
    """It has the subresource ``/status``."""
    custom: bool = False
    """It comes from a CRD: generation is kept, strategic merge patches are refused, a PUT needs a resourceVersion."""
    blind_update: bool = True
    """A PUT without resourceVersion overwrites."""
    create_on_update: bool = False
    """A PUT of what does not exist creates it."""
    status_on_create: bool = False
    """The status given at creation is kept."""
    metadata_by_status: bool = False
    """A write to ``/status`` may change labels and annotations."""
    returns_deleted: bool = False
    """DELETE answers with the object, not with a Status."""
    merge_keys: Mapping[str, str] = field(default_factory=dict)
    """Path of a list of objects → the key by which a strategic merge patch merges it."""
    field_selectors: frozenset[str] = frozenset({"metadata.name", "metadata.namespace"})

    @cached_property
    def whole(self) -> Schema:
        """The schema with what every object has."""
        return whole(self.schema)

    @property
    def api_version(self) -> str:
        """As in ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As in messages: ``nodeupgradejobs.operations.kubeedge.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified(self) -> str:
        """As in messages about invalid objects: ``NodeUpgradeJob.operations.kubeedge.io``."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def prefix(self) -> str:
        """Where its group and version are served, without the leading slash."""
        return f"apis/{self.group}/{self.version}" if self.group else f"api/{self.version}"


def from_crd(crd: Mapping[str, Any], version: str = "") -> Kind:
    """The kind that a CustomResourceDefinition (``apiextensions.k8s.io/v1``) defines; no ``version``: the stored one.

    Raises ``ValueError`` when the definition has no such version or no schema.
    """
    spec, names = crd["spec"], crd["spec"]["names"]
    chosen = [v for v in spec["versions"] if (v["name"] == version if version else v.get("storage"))]
    if len(chosen) != 1:
        raise ValueError(
            f"The CRD has no version {version or 'that is stored'}; it has {[v['name'] for v in spec['versions']]}."
        )
    served = chosen[0]
    return Kind(
        group=spec["group"],
        version=served["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        schema=served["schema"]["openAPIV3Schema"],
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        columns=_columns(served.get("additionalPrinterColumns", ())),
        has_status="status" in served.get("subresources", {}),
        custom=True,
        blind_update=False,
    )


def _columns(printed: Any) -> tuple[Column, ...]:
    columns = tuple(
        Column(c["name"], c["jsonPath"], c["type"], c.get("format", ""), c.get("description", ""), c.get("priority", 0))
        for c in printed
    )
    return columns or (Column("Age", ".metadata.creationTimestamp", "date"),)
