"""What each field of a NodeUpgradeJob may hold, as far as the API server can judge it with our webhook down.

Sentences are CEL rules: a failed `pattern` would print the bare regular expression (libraries.md trap 22). A pattern
stands only where a rule for each of 5,000 items would be too costly.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from beehive.api import limits
from beehive.api.changes import MUTABLE
from beehive.api.meta import Condition
from beehive.api.nodeupgradejob import (
    ActionResult,
    ImageDigests,
    JobStatus,
    LabelSelector,
    NodeEntry,
    NodeUpgradeJobSpec,
    RegistryAPI,
    SelectorRequirement,
)

Schema = dict[str, Any]

_SENTENCES = 32768
_WORD = {"maxLength": 64}


def _rule(test: str, message: str, **more: Any) -> Schema:
    return {"rule": test, "message": message, **more}


def _matches(pattern: str, message: str, longest: int, empty: bool = False) -> Schema:
    """A text that matches as a whole; `empty`: or is empty. The refusal repeats it, unless it cannot be printed."""
    test = f"self.matches(r'^({pattern})$')"
    told = {"message": message, "messageExpression": f"'\"' + self + '\" is {message}'"}
    return {
        "maxLength": longest,
        "x-kubernetes-validations": [{"rule": f"self == '' || {test}" if empty else test, **told}],
    }


DIGEST = _matches(limits.DIGEST, "not a digest; write sha256: and 64 digits of 0-9 and a-f", 128, empty=True)
_INT32 = {"format": "int32", "minimum": 0, "maximum": limits.MOST_RETRIES}
_INT64 = {"format": "int64", "minimum": 0}

_SAME_WHEN = {
    "nodeNames": "(has(self.{0}) ? self.{0} : []) == (has(oldSelf.{0}) ? oldSelf.{0} : [])",
    "checkItems": "(has(self.{0}) ? self.{0} : []) == (has(oldSelf.{0}) ? oldSelf.{0} : [])",
}
_SAME = "has(self.{0}) == has(oldSelf.{0}) && (!has(self.{0}) || self.{0} == oldSelf.{0})"
_FIELDS = (
    "version", "nodeNames", "labelSelector", "image", "imageDigestGatter", "upgradeTool", "timeoutSeconds",
    "concurrency", "failureTolerate", "checkItems", "requireConfirmation", "onOffline", "allowDowngrade",
)  # fmt: skip


def immutable(field: str) -> Schema:
    return _rule(
        _SAME_WHEN.get(field, _SAME).format(field),
        f"it cannot change after creation (only {', '.join(sorted(MUTABLE))} can); make a new job",
        fieldPath=f".{field}",
        reason="FieldValueForbidden",
    )


OF_THE_OBJECT = {
    "x-kubernetes-validations": [
        _rule(
            f"oldSelf.hasValue() || size(self.metadata.name) <= {limits.LONGEST_JOB_NAME}",
            f"the name of a job has at most {limits.LONGEST_JOB_NAME} characters, for its Events are named after it",
            optionalOldSelf=True,
        )
    ]
}
"""Rules about the object as a whole, at its creation only: what is stored must go on."""

_ONE_OF = "give exactly one of nodeNames and labelSelector"
_NAMED = "has(self.nodeNames) && size(self.nodeNames) > 0"
ONE_SELECTOR = (
    _rule(f"({_NAMED}) || has(self.labelSelector)", _ONE_OF, reason="FieldValueRequired"),
    _rule(f"!({_NAMED}) || !has(self.labelSelector)", _ONE_OF, reason="FieldValueForbidden"),
)

OF_OBJECTS: Mapping[type[Struct], Schema] = {
    NodeUpgradeJobSpec: {
        "x-kubernetes-validations": [
            *ONE_SELECTOR,
            *(immutable(field) for field in _FIELDS),
            _rule(
                "!self.abort || self.retry == oldSelf.retry",
                "an aborted job is not tried again; make a new job",
                fieldPath=".retry",
                reason="FieldValueForbidden",
            ),
        ]
    },
    SelectorRequirement: {
        "x-kubernetes-validations": [
            _rule(
                "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
                "In and NotIn need values, Exists and DoesNotExist take none",
                fieldPath=".values",
            )
        ]
    },
}

OF_FIELDS: Mapping[type[Struct], Mapping[str, Schema]] = {
    NodeUpgradeJobSpec: {
        "version": _matches(limits.VERSION, "not a version; write one like v1.23.0", limits.LONGEST_VERSION),
        "nodeNames": {
            "maxItems": limits.MOST_NODES,
            "items": {"maxLength": limits.LONGEST_NAME, "pattern": f"^({limits.SUBDOMAIN})$"},
            "x-kubernetes-list-type": "atomic",
        },
        "image": _matches(
            limits.IMAGE,
            "not the name of an image repository; write one like kubeedge/installation-package",
            limits.LONGEST_IMAGE,
            empty=True,
        ),
        "imageDigestGatter": {"nullable": True},
        "upgradeTool": _matches(limits.TOOL, "not the name of a provider; write one like keadm", limits.LONGEST_LABEL),
        "timeoutSeconds": _INT32 | {"maximum": limits.MOST_SECONDS},
        "concurrency": _INT32 | {"minimum": 1, "maximum": limits.MOST_AT_ONCE},
        "failureTolerate": _matches(
            limits.TOLERANCE,
            "neither a ratio from 0 to 1 nor a percentage; write one like 0.1 or 10%",
            limits.LONGEST_TOLERANCE,
            empty=True,
        ),
        "checkItems": {
            "maxItems": limits.MOST_CHECK_ITEMS,
            "items": {"enum": list(limits.CHECK_ITEMS)},
            "x-kubernetes-list-type": "atomic",
        },
        "onOffline": {"enum": list(limits.ON_OFFLINE)},
        "abort": {
            "x-kubernetes-validations": [
                _rule("self || !oldSelf", "an abort cannot be taken back; make a new job", reason="FieldValueForbidden")
            ]
        },
        "retry": _INT32
        | {
            "x-kubernetes-validations": [
                _rule(
                    "oldSelf.hasValue() ? self >= oldSelf.value() : self == 0",
                    "it is 0 in a new job and may only grow",
                    optionalOldSelf=True,
                    reason="FieldValueForbidden",
                )
            ]
        },
    },
    LabelSelector: {
        "matchLabels": {
            "maxProperties": limits.MOST_SELECTOR_TERMS,
            "additionalProperties": {"maxLength": limits.LONGEST_LABEL},
        },
        "matchExpressions": {"maxItems": limits.MOST_SELECTOR_TERMS, "x-kubernetes-list-type": "atomic"},
    },
    SelectorRequirement: {
        "key": {"maxLength": limits.LONGEST_LABEL_KEY},
        "operator": {"enum": list(limits.OPERATORS)},
        "values": {
            "maxItems": limits.MOST_SELECTOR_VALUES,
            "items": {"maxLength": limits.LONGEST_LABEL},
            "x-kubernetes-list-type": "atomic",
        },
    },
    ImageDigests: {
        "amd64": DIGEST,
        "arm64": DIGEST,
        "digests": {"maxProperties": limits.MOST_ARCHITECTURES, "additionalProperties": DIGEST},
    },
    RegistryAPI: {
        "host": _matches(
            limits.REGISTRY_HOST, "not a host; write one like registry.io:5000, without a scheme", limits.LONGEST_NAME
        ),
        "token": {"maxLength": limits.LONGEST_TOKEN},
    },
    JobStatus: {
        "phase": {"enum": ["", "Init", "InProgress", "Completed", "Failure"]},
        "reason": {"maxLength": _SENTENCES},
        "observedGeneration": _INT64,
        "observedRetry": _INT32,
        "startTime": {"format": "date-time"},
        "completionTime": {"format": "date-time"},
        "digests": {"maxProperties": limits.MOST_ARCHITECTURES, "additionalProperties": DIGEST},
        **dict.fromkeys(("total", "pending", "inProgress", "successful", "failed", "skipped", "unknown"), _INT32),
        "done": _WORD,
        "waiting": {"maxLength": _SENTENCES},
        "conditions": {"maxItems": 16, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        "nodeStatus": {"maxItems": limits.MOST_NODES, "x-kubernetes-list-type": "atomic"},
    },
    NodeEntry: {
        "nodeName": {"maxLength": limits.LONGEST_NAME},
        "phase": {"enum": ["Pending", "InProgress", "Successful", "Failure", "Unknown", "Skipped"]},
        "reasonCode": _WORD,
        "reason": {"maxLength": _SENTENCES},
        "actionFlow": {"maxItems": 64, "x-kubernetes-list-type": "atomic"},
        "historicVersion": {"maxLength": limits.LONGEST_IMAGE},
        "currentVersion": {"maxLength": limits.LONGEST_IMAGE},
        "attempt": _INT32,
        "revision": _INT64,
        "waitSeconds": _INT32,
    },
    ActionResult: {
        "action": {"enum": ["Check", "WaitingConfirmation", "BackUp", "Upgrade", "RollBack"]},
        "status": {"enum": ["True", "False", "Unknown"]},
        "reason": {"maxLength": _SENTENCES},
    },
    Condition: {
        "type": {"maxLength": 316},
        "status": {"enum": ["True", "False", "Unknown"]},
        "message": {"maxLength": _SENTENCES},
        "observedGeneration": _INT64,
    },
}
