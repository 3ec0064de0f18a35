"""The CustomResourceDefinition of NodeUpgradeJob, made from the Structs (product.md 3).

`configs/crd/nodeupgradejobs.yaml` holds it as YAML; a test fails when they differ. It needs Kubernetes 1.30 or newer
(CEL rules with `optionalOldSelf`).
"""

from typing import Any

import msgspec

from beehive.api.nodeupgradejob import GROUP, KIND, PLURAL, VERSION, JobStatus, NodeUpgradeJob, NodeUpgradeJobSpec
from beehive.api.schema_rules import OF_FIELDS, OF_OBJECTS
from beehive.api.structural import Converter, Schema, docstrings

NAME = f"{PLURAL}.{GROUP}"


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
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(*one) for one in _COLUMNS],
                    "schema": {"openAPIV3Schema": schema()},
                }
            ],
        },
    }


def crd_yaml() -> str:
    """The same as YAML, keys in the order in which they are read best."""
    without_shared_parts = msgspec.json.decode(msgspec.json.encode(crd()))  # YAML would give them anchors
    return msgspec.yaml.encode(without_shared_parts).decode()


def schema() -> Schema:
    """The structural schema of v1alpha2."""
    converter, told = Converter(OF_FIELDS, OF_OBJECTS), docstrings(NodeUpgradeJob)
    return {
        "type": "object",
        "description": (NodeUpgradeJob.__doc__ or "").strip(),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": told["api_version"]},
            "kind": {"type": "string", "description": told["kind"]},
            "metadata": {"type": "object"},
            "spec": {"description": told["spec"], **converter.struct(NodeUpgradeJobSpec)},
            "status": {"description": told["status"], **converter.struct(JobStatus)},
        },
    }


_COLUMNS = (
    ("Version", ".spec.version", "string", 0),
    ("Phase", ".status.phase", "string", 0),
    ("Done", ".status.done", "string", 0),
    ("Failed", ".status.failed", "integer", 0),
    ("Age", ".metadata.creationTimestamp", "date", 0),
    ("Waiting", ".status.waiting", "string", 1),
    ("Reason", ".status.reason", "string", 1),
)


def _column(name: str, path: str, kind: str, priority: int) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    return column | {"priority": priority} if priority else column
