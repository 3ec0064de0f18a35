"""The CustomResourceDefinition of NodeUpgradeJob, made from the Structs (product.md 3).

`configs/crd/nodeupgradejobs.yaml` holds it as YAML; a test fails when they differ. It needs Kubernetes 1.30 or newer
(CEL rules with `optionalOldSelf`). Without a running webhook everything works but reading and writing v1alpha1.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from beehive.api import schema_rules, schema_rules_v1alpha1, v1alpha1
from beehive.api.nodeupgradejob import GROUP, KIND, PLURAL, VERSION, JobStatus, NodeUpgradeJob, NodeUpgradeJobSpec
from beehive.api.structural import Converter, Schema, docstrings

NAME = f"{PLURAL}.{GROUP}"
CONVERT_PATH = "/convert"
SERVICE = {"name": "beehive-admission", "namespace": "kubeedge", "port": 443}
"""Where the API server finds the webhook, unless `admission.register` says otherwise."""


def crd() -> dict[str, object]:
    """The definition, as the API server takes it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["nuj"],
                "categories": ["beehive"],
            },
            "conversion": conversion({"service": {**SERVICE, "path": CONVERT_PATH}}),
            "versions": [
                _version(VERSION, schema(), _COLUMNS, stored=True),
                _version(v1alpha1.VERSION, schema_v1alpha1(), _COLUMNS_V1ALPHA1, stored=False),
            ],
        },
    }


def conversion(client: Mapping[str, Any]) -> dict[str, Any]:
    """The stanza `conversion` with this `clientConfig`. Our process puts its caBundle in."""
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": dict(client), "conversionReviewVersions": ["v1"]},
    }


def crd_yaml() -> str:
    """The same as YAML, keys in the order in which they are read best."""
    without_shared_parts = msgspec.json.decode(msgspec.json.encode(crd()))  # YAML would give them anchors
    return msgspec.yaml.encode(without_shared_parts).decode()


def schema() -> Schema:
    """The structural schema of v1alpha2."""
    converter = Converter(schema_rules.OF_FIELDS, schema_rules.OF_OBJECTS)
    return _whole(NodeUpgradeJob, converter, NodeUpgradeJobSpec, JobStatus)


def schema_v1alpha1() -> Schema:
    """The structural schema of v1alpha1."""
    converter = Converter(schema_rules_v1alpha1.OF_FIELDS, schema_rules_v1alpha1.OF_OBJECTS)
    return _whole(v1alpha1.NodeUpgradeJob, converter, v1alpha1.JobSpec, v1alpha1.JobStatus)


def _whole(kind: type[Struct], converter: Converter, spec: type[Struct], status: type[Struct]) -> Schema:
    told = docstrings(kind)
    return {
        "type": "object",
        "description": " ".join((kind.__doc__ or "").split()),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": told["api_version"]},
            "kind": {"type": "string", "description": told["kind"]},
            "metadata": {"type": "object"},
            "spec": {"description": told["spec"], **converter.struct(spec)},
            "status": {"description": told["status"], **converter.struct(status)},
        },
        **schema_rules.OF_THE_OBJECT,
    }


Column = tuple[str, str, str, int]
_COLUMNS: tuple[Column, ...] = (
    ("Version", ".spec.version", "string", 0),
    ("Phase", ".status.phase", "string", 0),
    ("Done", ".status.done", "string", 0),
    ("Failed", ".status.failed", "integer", 0),
    ("Age", ".metadata.creationTimestamp", "date", 0),
    ("Waiting", ".status.waiting", "string", 1),
    ("Reason", ".status.reason", "string", 1),
)
_COLUMNS_V1ALPHA1: tuple[Column, ...] = (
    ("Version", ".spec.version", "string", 0),
    ("State", ".status.state", "string", 0),
    ("Age", ".metadata.creationTimestamp", "date", 0),
    ("Reason", ".status.reason", "string", 1),
)


def _version(name: str, schema: Schema, columns: tuple[Column, ...], *, stored: bool) -> dict[str, Any]:
    return {
        "name": name,
        "served": True,
        "storage": stored,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(*one) for one in columns],
        "schema": {"openAPIV3Schema": schema},
    }


def _column(name: str, path: str, kind: str, priority: int) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    return column | {"priority": priority} if priority else column
