"""Is this job one that we carry out? Judged at the door by admission, and again by taskmanager.

Order and words are KubeEdge's for what its webhook checks (spec/kubeedge.md 2.3); then come our own rules, in the order
of product.md 3.1, each naming its field. An empty list is a valid job.
"""

import re
from collections.abc import Iterator

import msgspec

from beehive.api import limits
from beehive.api.nodeupgradejob import ImageDigests, LabelSelector, NodeUpgradeJobSpec
from beehive.api.size import fits
from beehive.api.tolerance import tolerance
from beehive.api.version import is_version

_SHOWN = 80


def problems(spec: NodeUpgradeJobSpec) -> list[str]:
    """Everything that is wrong, in the order in which it is judged."""
    return [*_as_kubeedge(spec), *_ours(spec)]


# ---- KubeEdge's rules --------------------------------------------------------------------------------------------


def _as_kubeedge(spec: NodeUpgradeJobSpec) -> Iterator[str]:
    if not is_version(spec.version):
        yield f"invalid version {shown(spec.version)}"
    if spec.image and not is_text(spec.image, limits.IMAGE, limits.LONGEST_IMAGE):
        yield f"invalid image repo {shown(spec.image)}"
    if not spec.node_names and spec.label_selector is None:
        yield "both NodeNames and LabelSelector are NOT specified"
    elif spec.node_names and spec.label_selector is not None:
        yield "both NodeNames and LabelSelector are specified"


# ---- ours --------------------------------------------------------------------------------------------------------


def _ours(spec: NodeUpgradeJobSpec) -> Iterator[str]:
    yield from _nodes(spec.node_names or ())
    if spec.label_selector is not None:
        yield from _selector(spec.label_selector)
    if spec.image_digest_gatter is not None:
        yield from _digests(spec.image_digest_gatter)
    if not is_text(spec.upgrade_tool, limits.TOOL, limits.LONGEST_LABEL):
        yield f"spec.upgradeTool: {_quoted(spec.upgrade_tool)} cannot be the name of a provider; write one like keadm"
    if not 0 <= spec.timeout_seconds <= limits.MOST_SECONDS:
        yield range_problem("timeoutSeconds", spec.timeout_seconds, 0, limits.MOST_SECONDS)
    if not 1 <= spec.concurrency <= limits.MOST_AT_ONCE:
        yield range_problem("concurrency", spec.concurrency, 1, limits.MOST_AT_ONCE)
    yield from _words(spec)
    if not 0 <= spec.retry <= limits.MOST_RETRIES:
        yield range_problem("retry", spec.retry, 0, limits.MOST_RETRIES)
    yield from size_problems(len(msgspec.json.encode(spec)), spec.node_names or ())


def _words(spec: NodeUpgradeJobSpec) -> Iterator[str]:
    try:
        tolerance(spec.failure_tolerate)
    except ValueError as error:
        yield f"spec.failureTolerate: {_quoted(spec.failure_tolerate)}: {error}"
    if len(spec.check_items or ()) > limits.MOST_CHECK_ITEMS:
        yield f"spec.checkItems: at most {limits.MOST_CHECK_ITEMS} items; there are only cpu, mem and disk"
    for item in spec.check_items or ():
        if item not in limits.CHECK_ITEMS:
            yield f"spec.checkItems: {_quoted(item)} cannot be checked; there are cpu, mem and disk"
    if spec.on_offline not in limits.ON_OFFLINE:
        yield f"spec.onOffline: {_quoted(spec.on_offline)} means nothing; write Skip, Wait or Fail"


def _nodes(names: tuple[str, ...]) -> Iterator[str]:
    if len(names) > limits.MOST_NODES:
        yield f"spec.nodeNames: {len(names)} nodes; a job has at most {limits.MOST_NODES}, so make several jobs"
    wrong = [name for name in names if not is_text(name, limits.SUBDOMAIN, limits.LONGEST_NAME)]
    for name in wrong[:3]:
        yield f"spec.nodeNames: {_quoted(name)} cannot be the name of a node"
    if len(wrong) > 3:
        yield f"spec.nodeNames: {len(wrong) - 3} more cannot be names of nodes"


def _selector(selector: LabelSelector) -> Iterator[str]:
    labels, expressions = selector.match_labels or {}, selector.match_expressions or ()
    if len(labels) > limits.MOST_SELECTOR_TERMS or len(expressions) > limits.MOST_SELECTOR_TERMS:
        yield f"spec.labelSelector: at most {limits.MOST_SELECTOR_TERMS} labels and as many expressions"
    for key, value in labels.items():
        yield from _key("matchLabels", key)
        yield from _value("matchLabels", value)
    for one in expressions:
        yield from _key("matchExpressions", one.key)
        wants = one.operator in {"In", "NotIn"}
        if one.operator not in limits.OPERATORS:
            yield f"spec.labelSelector.matchExpressions: {_quoted(one.operator)} is no operator; there are {_OPERATORS}"
        elif wants != bool(one.values):
            what = "needs values" if wants else "takes no values"
            yield f"spec.labelSelector.matchExpressions: {one.operator} {what}"
        for value in one.values or ():
            yield from _value("matchExpressions", value)


_OPERATORS = "In, NotIn, Exists and DoesNotExist"


def _key(where: str, key: str) -> Iterator[str]:
    name = key.rpartition("/")[2]
    if not is_text(key, limits.LABEL_KEY, limits.LONGEST_LABEL_KEY) or len(name) > limits.LONGEST_LABEL:
        yield f"spec.labelSelector.{where}: {_quoted(key)} cannot be the key of a label"


def _value(where: str, value: str) -> Iterator[str]:
    if value and not is_text(value, limits.LABEL_NAME, limits.LONGEST_LABEL):
        yield f"spec.labelSelector.{where}: {_quoted(value)} cannot be the value of a label"


def _digests(pins: ImageDigests) -> Iterator[str]:
    for architecture, digest in pins.by_architecture().items():
        if not is_text(architecture, limits.ARCHITECTURE, limits.LONGEST_LABEL):
            yield f"spec.imageDigestGatter.digests: {_quoted(architecture)} cannot be the name of an architecture"
        elif not is_text(digest, limits.DIGEST, limits.LONGEST_DIGEST):
            yield (
                f"spec.imageDigestGatter: {_quoted(digest)} for {architecture} is no digest; "
                "write sha256: and 64 digits of 0-9 and a-f"
            )
    api = pins.registry_api
    if api is not None and not is_text(api.host, limits.REGISTRY_HOST, limits.LONGEST_NAME):
        yield f"spec.imageDigestGatter.registryAPI.host: {_quoted(api.host)} is no host; write registry.io:5000"
    if api is not None and (len(api.token) > limits.LONGEST_TOKEN or not api.token.isprintable()):
        yield "spec.imageDigestGatter.registryAPI.token: it is too long or holds control characters"


def size_problems(beside: int, names: tuple[str, ...]) -> list[str]:
    """Why the status of these nodes would not fit, where the rest of the object has `beside` bytes."""
    if len(names) > limits.MOST_NODES or fits(beside, names):
        return []
    return [
        f"spec.nodeNames: the status of {len(names)} nodes with names of up to {max(map(len, names))} characters "
        "would not fit into one object; make several jobs"
    ]


# ---- words -------------------------------------------------------------------------------------------------------


def is_text(text: str, pattern: str, longest: int) -> bool:
    """Does the whole text match, with at most `longest` characters? (Python's `$` would let a newline through.)"""
    return len(text) <= longest and re.fullmatch(pattern, text) is not None


def shown(text: str) -> str:
    """A text from outside, fit for a sentence: cut, and escaped where it would not print."""
    cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return cut if cut.isprintable() else cut.encode("unicode_escape").decode()


def _quoted(text: str) -> str:
    return f'"{shown(text)}"'


def range_problem(field: str, value: int, least: int, most: int) -> str:
    return f"spec.{field}: {value} is out of range; give {least} to {most}"
