"""A custom resource that uses whatever of a CRD Beehive's own may use."""

from typing import Any, Final

Object = dict[str, Any]

_TEXT: Final = {"type": "string"}
_SPEC: Final[Object] = {
    "type": "object",
    "required": ["version"],
    "x-kubernetes-validations": [
        {"rule": "has(self.names) != has(self.selector)", "message": "give exactly one of names and selector"},
        {
            "rule": "self.retry >= oldSelf.retry",
            "message": "may only grow",
            "fieldPath": ".retry",
            "reason": "FieldValueForbidden",
        },
    ],
    "properties": {
        "version": {
            "type": "string",
            "maxLength": 64,
            "description": "The version to bring the nodes to.",
            "x-kubernetes-validations": [
                {
                    "rule": "self.matches('^v[0-9]+[.][0-9]+$')",
                    "messageExpression": "'\"' + self + '\" is not a version; write one like v1.23'",
                },
                {"rule": "self == oldSelf", "message": "cannot be changed"},
            ],
        },
        "names": {
            "type": "array",
            "minItems": 1,
            "maxItems": 4,
            "items": {"type": "string", "maxLength": 12, "minLength": 2},
            "x-kubernetes-validations": [
                {"rule": "self.all(name, !name.startsWith('x-'))", "message": "names beginning with x- are taken"}
            ],
        },
        "selector": {
            "type": "object",
            "properties": {"matchLabels": {"type": "object", "additionalProperties": _TEXT}},
        },
        "concurrency": {"type": "integer", "minimum": 1, "maximum": 100, "default": 1},
        "share": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "pattern": {"type": "string", "pattern": "^[a-z]+$"},
        "suspend": {"type": "boolean", "default": False},
        "retry": {"type": "integer", "default": 0, "minimum": 0},
        "offline": {"type": "string", "enum": ["Skip", "Wait", "Fail"], "default": "Skip"},
        "maybe": {"type": "string", "nullable": True},
        "since": {"type": "string", "format": "date-time"},
        "port": {"x-kubernetes-int-or-string": True},
        "tags": {
            "type": "array",
            "maxItems": 8,
            "items": {"type": "string", "maxLength": 8},
            "x-kubernetes-list-type": "set",
        },
        "nested": {
            "type": "object",
            "default": {},
            "properties": {
                "deep": {"type": "string", "default": "filled"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
    },
}
_STATUS: Final[Object] = {
    "type": "object",
    "properties": {
        "phase": {"type": "string", "enum": ["", "InProgress", "Completed"]},
        "reason": _TEXT,
        "done": _TEXT,
        "failed": {"type": "integer"},
        "conditions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "status"],
                "properties": {"type": _TEXT, "status": _TEXT, "reason": _TEXT},
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
        "nodes": {
            "type": "array",
            "x-kubernetes-list-type": "atomic",
            "items": {"type": "object", "properties": {"name": _TEXT, "phase": _TEXT, "attempt": {"type": "integer"}}},
        },
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
}
CRD: Final[Object] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rollouts.contract.test"},
    "spec": {
        "group": "contract.test",
        "scope": "Cluster",
        "names": {
            "kind": "Rollout",
            "plural": "rollouts",
            "singular": "rollout",
            "listKind": "RolloutList",
            "shortNames": ["ro"],
            "categories": ["contract"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Version", "type": "string", "jsonPath": ".spec.version"},
                    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                    {"name": "Failed", "type": "integer", "jsonPath": ".status.failed"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    {
                        "name": "Reason",
                        "type": "string",
                        "priority": 1,
                        "jsonPath": '.status.conditions[?(@.type=="Complete")].reason',
                    },
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {"spec": _SPEC, "status": _STATUS},
                    }
                },
            }
        ],
    },
}
ROLLOUTS: Final = "/apis/contract.test/v1/rollouts"


def rollout(name: str, **spec: Any) -> Object:
    """A valid Rollout; ``spec`` adds to its spec."""
    body = {"version": "v1.2", "names": ["node-1"], **spec}
    return {"apiVersion": "contract.test/v1", "kind": "Rollout", "metadata": {"name": name}, "spec": body}
