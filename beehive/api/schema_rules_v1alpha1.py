"""What each field of a v1alpha1 NodeUpgradeJob may hold. What both versions have has the same rule in both."""

from collections.abc import Mapping

from msgspec import Struct

from beehive.api import limits, v1alpha1
from beehive.api import schema_rules as v1alpha2
from beehive.api.nodeupgradejob import LabelSelector, NodeUpgradeJobSpec, RegistryAPI, SelectorRequirement
from beehive.api.structural import Schema

_SENTENCE = {"maxLength": 32768}
_WORD = {"maxLength": 64}
_VERSION = {"maxLength": limits.LONGEST_IMAGE}
_FIELDS = (
    "version", "upgradeTool", "timeoutSeconds", "nodeNames", "labelSelector", "image", "imageDigestGatter",
    "concurrency", "failureTolerate", "checkItems", "requireConfirmation",
)  # fmt: skip
_LIST = {"maxItems": limits.MOST_NODES, "x-kubernetes-list-type": "atomic"}

OF_OBJECTS: Mapping[type[Struct], Schema] = {
    v1alpha1.JobSpec: {
        "x-kubernetes-validations": [*v1alpha2.ONE_SELECTOR, *(v1alpha2.immutable(field) for field in _FIELDS)]
    },
    SelectorRequirement: v1alpha2.OF_OBJECTS[SelectorRequirement],
}

OF_FIELDS: Mapping[type[Struct], Mapping[str, Schema]] = {
    v1alpha1.JobSpec: {name: rule for name, rule in v1alpha2.OF_FIELDS[NodeUpgradeJobSpec].items() if name in _FIELDS},
    **{kind: v1alpha2.OF_FIELDS[kind] for kind in (LabelSelector, SelectorRequirement, RegistryAPI)},
    v1alpha1.ImageDigest: {"value": v1alpha2.DIGEST},
    v1alpha1.JobStatus: {
        "state": _WORD,
        "reason": _SENTENCE,
        "status": _LIST,
        "nodeStatus": _LIST,
        "event": _WORD,
        "action": _WORD,
        "time": _WORD,
        "currentVersion": _VERSION,
        "historicVersion": _VERSION,
    },
    v1alpha1.NodeState: {"nodeName": {"maxLength": limits.LONGEST_NAME}, "state": _WORD},
    v1alpha1.History: {
        "historyID": {"maxLength": limits.LONGEST_NAME},
        "fromVersion": _VERSION,
        "toVersion": _VERSION,
        "result": {"enum": ["", *v1alpha1.RESULTS]},
        "reason": _SENTENCE,
        "upgradeTime": _WORD,
    },
    v1alpha1.KubeEdgeNodeState: {
        "nodeName": {"maxLength": limits.LONGEST_NAME},
        "state": _WORD,
        "event": _WORD,
        "action": _WORD,
        "reason": _SENTENCE,
        "time": _WORD,
    },
}
