"""NodeUpgradeJob v1alpha2: the object that operators write (product.md 3, spec/kubeedge.md 1).

These Structs are the truth; `beehive crd` prints the CRD that is made from them. Defaults stand here *and* in the
schema, so that an object means the same whether or not the API server filled it in.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

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

Digest = Annotated[str, Meta(pattern=r"^sha256:[A-Fa-f0-9]{64}$")]


class SelectorRequirement(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """metav1.LabelSelectorRequirement."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class LabelSelector(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """metav1.LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[SelectorRequirement, ...] | None = None


class RegistryAPI(Struct, frozen=True, kw_only=True, rename="camel"):
    """A registry that the cloud may ask for digests; neither field is ever passed on to a node."""

    host: str
    token: str


class ImageDigests(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Pins: the digest of the image index or of the platform's manifest."""

    amd64: str | None = None
    arm64: str | None = None
    digests: dict[str, str] | None = None
    """Pins for further architectures, by architecture."""
    registry_api: RegistryAPI | None = msgspec.field(name="registryAPI", default=None)


class NodeUpgradeJobSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What to upgrade, to what, how carefully (product.md 3.1)."""

    version: str
    node_names: tuple[str, ...] | None = None
    label_selector: LabelSelector | None = None
    image: str = DEFAULT_IMAGE
    image_digest_gatter: ImageDigests | None = None
    """KubeEdge's spelling, kept because it is the wire's."""
    upgrade_tool: str = "keadm"
    timeout_seconds: int = DEFAULT_TIMEOUT
    concurrency: int = 1
    failure_tolerate: str = "0.1"
    check_items: tuple[str, ...] | None = None
    require_confirmation: bool = False
    on_offline: str = "Skip"
    allow_downgrade: bool = False
    suspend: bool = False
    abort: bool = False
    retry: int = 0


class ActionResult(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One action that ended on a node."""

    action: str
    status: str
    """`True` or `False` (metav1.ConditionStatus)."""
    reason: str = ""
    time: str = ""
    """RFC3339, UTC, whole seconds: a real controller parses it strictly (spec/kubeedge.md 11.4)."""


class NodeEntry(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One node of a job: `status.nodeStatus[]` (product.md 3.2)."""

    node_name: str
    phase: str
    reason_code: str = ""
    reason: str = ""
    action_flow: tuple[ActionResult, ...] | None = None
    historic_version: str = ""
    current_version: str = ""
    attempt: int = 0
    """0 is the first; the schema's default makes the API server show it always."""
    revision: int = 0
    """Of the last report folded in; 0 before the first."""
    since: str = ""
    """When it was marked, or last made progress; before that, when the entry took its present phase."""


class JobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The memory of the cloud: nothing is done that a restart could not find out from here."""

    phase: str
    """Always written: the schema requires it inside status (spec/kubeedge.md 1.1)."""
    reason: str = ""
    observed_generation: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    total: int = 0
    pending: int = 0
    in_progress: int = 0
    successful: int = 0
    failed: int = 0
    skipped: int = 0
    unknown: int = 0
    done: str = ""
    waiting: str = ""
    conditions: tuple[Condition, ...] | None = None
    node_status: tuple[NodeEntry, ...] | None = None


class NodeUpgradeJob(Struct, frozen=True, kw_only=True, rename="camel"):
    """The stored version."""

    metadata: ObjectMeta
    spec: NodeUpgradeJobSpec
    status: JobStatus = JobStatus(phase=NEW)
    api_version: str = API_VERSION
    kind: str = KIND
