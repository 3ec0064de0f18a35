"""What a NodeUpgradeJob may hold: numbers and patterns that the schema and `validate` both stand on.

Patterns are written so that Python's `re` and Go's RE2 read them alike (no `\\d`, no look-around), without anchors.
"""

MOST_NODES = 5000
MOST_SECONDS = 2**31 - 1
"""Upper end of an int32, which the API server does not enforce by itself (libraries.md trap 22)."""
MOST_AT_ONCE = 2**31 - 1
MOST_RETRIES = 2**31 - 1
MOST_CHECK_ITEMS = 16
MOST_SELECTOR_TERMS = 64
MOST_SELECTOR_VALUES = 256
MOST_ARCHITECTURES = 16
LONGEST_VERSION = 63
"""It becomes an image tag and the name of a directory."""
LONGEST_IMAGE = 500
LONGEST_NAME = 253
LONGEST_JOB_NAME = 200
"""Longest name of a job: the names of its Events begin with it and must fit into 253 characters too."""
LONGEST_LABEL = 63
LONGEST_LABEL_KEY = LONGEST_NAME + 1 + LONGEST_LABEL
LONGEST_TOLERANCE = 16
LONGEST_DIGEST = 71
LONGEST_TOKEN = 8192

_SUFFIX = r"(-[a-zA-Z0-9_.]+(-[a-zA-Z0-9_.]+)*)?(\+[a-zA-Z0-9_.]+([.-][a-zA-Z0-9_]+)*)?"
VERSION = rf"v?[0-9]+\.[0-9]+\.[0-9]+{_SUFFIX}"
"""KubeEdge's (spec/kubeedge.md 2.3), plus `+build`, with or without the `v` (product.md 3.1)."""

_PART = r"[a-z0-9]+([._-]+[a-z0-9]+)*"
_FIRST = r"([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?"
IMAGE = rf"{_FIRST}/{_PART}(/{_PART})*(@sha256:[A-Fa-f0-9]{{64}}|:[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}})?"
"""KubeEdge's, but that a repository is in lower case, as every registry wants it, and that a host may be an IPv6
address in brackets."""

DIGEST = r"sha256:[a-f0-9]{64}"
SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
"""RFC 1123: the name of a Node, and the part of a label's key before the slash."""
LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
LABEL_KEY = rf"({SUBDOMAIN}/)?{LABEL_NAME}"
TOOL = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
ARCHITECTURE = r"[a-z0-9]+([._/-][a-z0-9]+)*"
REGISTRY_HOST = r"([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?"
RATIO = r"(0?\.[0-9]{1,9}|0|1|1\.0{1,9})"
PERCENT = r"([0-9]{1,2}(\.[0-9]{1,9})?|100(\.0{1,9})?)%"
TOLERANCE = rf"({RATIO}|{PERCENT})"

CHECK_ITEMS = ("cpu", "mem", "disk")
ON_OFFLINE = ("Skip", "Wait", "Fail")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
