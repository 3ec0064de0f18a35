"""NodeUpgradeJob v1alpha2: the object that operators write (product.md 3, spec/kubeedge.md 1).

These Structs are the truth; `beehive crd` prints the CRD that is made from them. Defaults stand here *and* in the
schema, so that an object means the same whether or not the API server filled it in. The docstrings of fields are what
`kubectl explain` prints. What a field may hold stands in `schema_rules`: decoding takes what real servers have stored.
"""

from typing import Any

import msgspec
from msgspec import Struct

from beehive.api.meta import Condition, ObjectMeta

GROUP = "operations.kubeedge.io"
VERSION = "v1alpha2"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "NodeUpgradeJob"
PLURAL = "nodeupgradejobs"
FINALIZER = "kubeedge.io/nodeupgradejob-controller"
DEFAULT_IMAGE = "kubeedge/installation-package"
DEFAULT_TIMEOUT = 300
MOST_NODES = 5000

# Phases of a job (spec/kubeedge.md 1.3).
NEW, INIT, IN_PROGRESS, COMPLETED, FAILURE = "", "Init", "InProgress", "Completed", "Failure"
# Phases of an entry; IN_PROGRESS and FAILURE are spelt as for jobs. `Skipped` is ours.
PENDING, SUCCESSFUL, UNKNOWN, SKIPPED = "Pending", "Successful", "Unknown", "Skipped"
# Actions of the flow (spec/kubeedge.md 1.3; mind the capitals).
CHECK, WAITING_CONFIRMATION, BACK_UP, UPGRADE, ROLL_BACK = (
    "Check",
    "WaitingConfirmation",
    "BackUp",
    "Upgrade",
    "RollBack",
)


class SelectorRequirement(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One requirement on the labels of a node."""

    key: str
    """Key of the label."""
    operator: str
    """In, NotIn, Exists or DoesNotExist."""
    values: tuple[str, ...] | None = None
    """Values for In and NotIn; none for Exists and DoesNotExist."""


class LabelSelector(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Selects nodes by their labels; an empty selector selects all."""

    match_labels: dict[str, str] | None = None
    """Labels that a node must have, with these values."""
    match_expressions: tuple[SelectorRequirement, ...] | None = None
    """Requirements that must all hold, besides matchLabels."""


class RegistryAPI(Struct, frozen=True, kw_only=True, rename="camel"):
    """A registry that the cloud may ask for digests; neither field is ever passed on to a node."""

    host: str
    """Host of the registry, without a scheme, with its port where it is not 443. The cloud asks only hosts on its
    allow-list."""
    token: str
    """Bearer token for the registry."""


class ImageDigests(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Pins: the digest of the image index or of the platform's manifest."""

    amd64: str | None = None
    """Digest for amd64 nodes: sha256: and 64 digits of 0-9 and a-f. Empty is as if left out."""
    arm64: str | None = None
    """Digest for arm64 nodes: sha256: and 64 digits of 0-9 and a-f. Empty is as if left out."""
    digests: dict[str, str] | None = None
    """Digests for further architectures, by architecture: arm/v7, riscv64."""
    registry_api: RegistryAPI | None = msgspec.field(name="registryAPI", default=None)
    """Where the cloud looks the digests up when none are given."""

    def by_architecture(self) -> dict[str, str]:
        """All pins that are given; an empty one counts as none."""
        named = {"amd64": self.amd64, "arm64": self.arm64, **(self.digests or {})}
        return {architecture: digest for architecture, digest in named.items() if digest}


class NodeUpgradeJobSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What to upgrade, to what, and how carefully. Only suspend, abort and retry may change later."""

    version: str
    """Version to upgrade to, such as v1.23.1, v1.30.4+k3s1 or v1.23.1-acme.5. 1.12.1 is read as v1.12.1."""
    node_names: tuple[str, ...] | None = None
    """Names of the nodes, at most 5000; a name given twice counts once. Give either nodeNames or labelSelector."""
    label_selector: LabelSelector | None = None
    """Selects the nodes by their labels, once, when the job starts. Give either nodeNames or labelSelector."""
    image: str = DEFAULT_IMAGE
    """Repository of the installation image; its tag is made from version, and a tag or digest given here is ignored.
    Without a host it is one on docker.io. Default kubeedge/installation-package."""
    image_digest_gatter: ImageDigests | None = None
    """Digests that the image must have, by architecture (KubeEdge's spelling of the name). A node whose architecture
    is missing fails its check. Default none: any digest."""
    upgrade_tool: str = "keadm"
    """Name of the provider on the host that does the work; a node that does not know it fails its check. Default
    keadm."""
    timeout_seconds: int = DEFAULT_TIMEOUT
    """Seconds that a node may be silent, counted from when it was told or last reported progress. Then it counts as
    failed (Unknown). 0 is read as 300. Default 300."""
    concurrency: int = 1
    """How many nodes may be in flight at once, over the whole job; a node that waits for its owner's confirmation holds
    its place. Default 1."""
    failure_tolerate: str = "0.1"
    """Share of the job's nodes that may fail before no further node is started: a ratio from 0 to 1 such as 0.1, or a
    percentage such as 10%. It is compared exactly, without rounding. Default 0.1."""
    check_items: tuple[str, ...] | None = None
    """What each node checks before it begins: cpu, mem, disk. The limits are in the node's own configuration, by
    default 80 % used. Default none."""
    require_confirmation: bool = False
    """Whether the owner of each node must confirm on the node before it is upgraded; a rejection is final. Default
    false."""
    on_offline: str = "Skip"
    """What becomes of a node that is not connected or not ready when its turn comes: Skip, Wait or Fail. A job that
    waits has no end of its own. Default Skip."""
    allow_downgrade: bool = False
    """Whether a node that runs a newer version is brought to the older one; otherwise it is skipped. Default false."""
    suspend: bool = False
    """While true no further node is started; nodes in flight finish. May change at any time. Default false."""
    abort: bool = False
    """Once true no further node is started, nodes that have not begun to swap stop, and the job ends. It cannot be
    taken back. Default false."""
    retry: int = 0
    """Raise it by one to try again the nodes that failed, were silent, or were skipped because they were away or the
    budget was spent. 0 at creation; it only grows. Default 0."""


class ActionResult(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One action that ended on a node."""

    action: str
    """Check, WaitingConfirmation, BackUp, Upgrade or RollBack."""
    status: str
    """True when it went well, else False."""
    reason: str = ""
    """Why it did not go well."""
    time: str = ""
    """When it ended: RFC 3339, UTC, whole seconds."""


class NodeEntry(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One node of a job."""

    node_name: str
    """Name of the node."""
    phase: str
    """Pending, InProgress, Successful, Failure, Unknown (silent beyond its deadline) or Skipped."""
    reason_code: str = ""
    """Why, as one word, such as AlreadyAtVersion, NotConnected, CheckFailed or RolledBack."""
    reason: str = ""
    """Why, as a sentence of at most 256 characters."""
    action_flow: tuple[ActionResult, ...] | None = None
    """Actions that ended, in order; left out in large jobs for nodes that went well."""
    historic_version: str = ""
    """Version before this job."""
    current_version: str = ""
    """Version that runs now, as far as the node said; in large jobs left out where it is the job's."""
    attempt: int = 0
    """Which attempt this is: 1 is the first, a retry makes it spec.retry + 1."""
    revision: int = 0
    """Of the node's last report that counted; 0 before the first."""
    since: str = ""
    """When it was started or last made progress; before that, since when it is in its phase. RFC 3339, UTC."""
    wait_seconds: int = 0
    """While it waits for its owner: how long it will do so by itself; 0 means an hour."""


class JobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How far the job is. It is the only memory of the controller."""

    phase: str
    """Init, InProgress, Completed or Failure; empty for a new job."""
    reason: str = ""
    """Why the job ended as it did, as one word, such as Aborted or BudgetExceeded; the conditions have the sentence."""
    observed_generation: int = 0
    """Generation of the spec that was last acted on."""
    observed_retry: int = 0
    """Value of spec.retry that was last acted on."""
    start_time: str | None = None
    """When the nodes were chosen. RFC 3339, UTC."""
    completion_time: str | None = None
    """When the job ended. RFC 3339, UTC."""
    digests: dict[str, str] | None = None
    """Digests that the cloud looked up at the start, by architecture; every node of the job is held to them."""
    total: int = 0
    """Number of nodes."""
    pending: int = 0
    """Number of nodes that were not started yet."""
    in_progress: int = 0
    """Number of nodes in flight."""
    successful: int = 0
    """Number of nodes that run the version."""
    failed: int = 0
    """Number of nodes that failed, those that were rolled back among them."""
    skipped: int = 0
    """Number of nodes that were left as they are; they never count as failed."""
    unknown: int = 0
    """Number of nodes that were silent beyond their deadline; they count as failed for failureTolerate."""
    done: str = ""
    """Nodes that ended, of all: 7/10."""
    waiting: str = ""
    """What the job waits for, as a sentence."""
    conditions: tuple[Condition, ...] | None = None
    """Accepted, Progressing, Complete, Failed and Suspended, for kubectl wait."""
    node_status: tuple[NodeEntry, ...] | None = None
    """Every node of the job, in an order that never changes."""
    v1alpha1: dict[str, Any] | None = None
    """The status as a v1alpha1 client wrote it, where this version cannot express it; written by the conversion, of no
    meaning to others."""


class NodeUpgradeJob(Struct, frozen=True, kw_only=True, rename="camel"):
    """NodeUpgradeJob brings the agents of edge nodes to a version, a few at a time, and stops when too many fail."""

    metadata: ObjectMeta
    """Standard metadata of an object."""
    spec: NodeUpgradeJobSpec
    """What to upgrade, to what, and how carefully. Only suspend, abort and retry may change later."""
    status: JobStatus = JobStatus(phase=NEW)
    """How far the job is; written by the controller alone."""
    api_version: str = API_VERSION
    """Version of the API that this object is written in."""
    kind: str = KIND
    """NodeUpgradeJob."""
