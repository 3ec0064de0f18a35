"""Which nodes a job means: its names, each once, in their order; or those that its selector matches, by name."""

from collections.abc import Mapping

from beehive.api.meta import Strings
from beehive.api.node import Node
from beehive.api.nodeupgradejob import LabelSelector, NodeUpgradeJobSpec, SelectorRequirement


def selected(spec: NodeUpgradeJobSpec, nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """Names of the nodes. An empty selector matches every node, as everywhere in Kubernetes."""
    if spec.node_names:
        return tuple(dict.fromkeys(spec.node_names))
    if spec.label_selector is None:
        return ()
    return tuple(name for name in sorted(nodes) if matches(spec.label_selector, nodes[name].metadata.labels or {}))


def matches(selector: LabelSelector, labels: Strings) -> bool:
    """metav1.LabelSelector: all must hold. `NotIn` holds for a node without the label."""
    wanted = (selector.match_labels or {}).items()
    return all(labels.get(key) == value for key, value in wanted) and all(
        _holds(one, labels) for one in selector.match_expressions or ()
    )


def _holds(one: SelectorRequirement, labels: Strings) -> bool:
    there, value = one.key in labels, labels.get(one.key)
    match one.operator:
        case "In":
            return there and value in (one.values or ())
        case "NotIn":
            return not there or value not in (one.values or ())
        case "Exists":
            return there
        case "DoesNotExist":
            return not there
    return False
