"""NodeUpgradeJob v1alpha1: what old clients read and write (product.md 3.3, spec/kubeedge.md 1.2 and 1.4).

Served, never stored: `convert` makes it from v1alpha2 and back. Its status has the shape of the upgrade proposal, and
keeps what KubeEdge's own v1alpha1 controllers write (`nodeStatus`, `event`, `action`, …), so that their objects apply
unchanged. Defaults are those of v1alpha2; docstrings are what `kubectl explain --api-version` prints.
"""

from typing import Any

import msgspec
from msgspec import Struct

from beehive.api.meta import ObjectMeta
from beehive.api.nodeupgradejob import DEFAULT_IMAGE, DEFAULT_TIMEOUT, GROUP, LabelSelector, RegistryAPI

VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

UPGRADING, COMPLETED = "upgrading", "completed"
"""States of a job and of a node; empty before the start."""
SUCCESS = "upgrade_success"
ROLLED_BACK = "upgrade_failed_rollback_success"
ROLLBACK_FAILED = "upgrade_failed_rollback_failed"
RESULTS = (SUCCESS, ROLLED_BACK, ROLLBACK_FAILED)


class ImageDigest(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The one pin that v1alpha1 knows."""

    value: str | None = None
    """Digest of the image, for amd64 and arm64 nodes alike: sha256: and 64 digits of 0-9 and a-f. Empty is as if left
    out. In v1alpha2 each architecture has its own."""
    registry_api: RegistryAPI | None = msgspec.field(name="registryAPI", default=None)
    """Where the cloud looks the digest up when none is given."""


class JobSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What to upgrade, to what, and how carefully. Nothing of it may change later."""

    version: str
    """Version to upgrade to, such as v1.23.1, v1.30.4+k3s1 or v1.23.1-acme.5. 1.12.1 is read as v1.12.1."""
    upgrade_tool: str = "keadm"
    """Name of the provider on the host that does the work; a node that does not know it fails its check. Default
    keadm."""
    timeout_seconds: int = DEFAULT_TIMEOUT
    """Seconds that a node may be silent, counted from when it was told or last reported progress. Then it counts as
    failed. 0 is read as 300. Default 300."""
    node_names: tuple[str, ...] | None = None
    """Names of the nodes, at most 5000; a name given twice counts once. Give either nodeNames or labelSelector."""
    label_selector: LabelSelector | None = None
    """Selects the nodes by their labels, once, when the job starts. Give either nodeNames or labelSelector."""
    image: str = DEFAULT_IMAGE
    """Repository of the installation image; its tag is made from version, and a tag or digest given here is ignored.
    Without a host it is one on docker.io. Default kubeedge/installation-package."""
    image_digest_gatter: ImageDigest | None = None
    """Digest that the image must have (KubeEdge's spelling of the name). Default none: any digest."""
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


class History(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The last upgrade of a node by this job."""

    history_id: str = msgspec.field(name="historyID", default="")
    """Which upgrade this is: uid of the job, a dot, and the attempt."""
    from_version: str = ""
    """Version before."""
    to_version: str = ""
    """Version that was wanted."""
    result: str = ""
    """upgrade_success, upgrade_failed_rollback_success or upgrade_failed_rollback_failed; empty while there is none,
    and for a node that ended without having been upgraded."""
    reason: str = ""
    """Why, as a sentence, or as one word where there is no sentence."""
    upgrade_time: str = ""
    """When it was started or last made progress. RFC 3339, UTC."""


class NodeState(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One node of a job."""

    node_name: str
    """Name of the node."""
    state: str = ""
    """Empty before its turn, then upgrading, at last completed."""
    history: History | None = None
    """The last upgrade of this node by this job."""


class KubeEdgeNodeState(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One node, as KubeEdge's v1alpha1 controller writes it (spec/kubeedge.md 1.4)."""

    node_name: str
    """Name of the node."""
    state: str = ""
    """State, such as Checking, BackingUp, Upgrading, Successful or Failed."""
    event: str = ""
    """Event that led to the state, such as Check, Backup, Upgrade or TimeOut."""
    action: str = ""
    """How the event went: Success, Failure or Confirmation."""
    reason: str = ""
    """Why it failed, as a sentence."""
    time: str = ""
    """When the event was. RFC 3339, UTC."""


class JobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How far the job is."""

    state: str = ""
    """Empty for a new job, then upgrading, at last completed. KubeEdge's controller writes its own words here, such as
    Successful."""
    reason: str = ""
    """Why the job ended as it did, as one word, such as Aborted or BudgetExceeded."""
    status: tuple[NodeState, ...] | None = None
    """Every node of the job, in an order that never changes."""
    node_status: tuple[KubeEdgeNodeState, ...] | None = None
    """Every node, as KubeEdge's v1alpha1 controller writes it; kept, and read where status is missing."""
    event: str = ""
    """KubeEdge's last event of the job; kept as written."""
    action: str = ""
    """How KubeEdge's last event went; kept as written."""
    time: str = ""
    """When KubeEdge's last event was; kept as written."""
    current_version: str = ""
    """A field of KubeEdge that nothing writes; kept as written."""
    historic_version: str = ""
    """A field of KubeEdge that nothing writes; kept as written."""
    v1alpha2: dict[str, Any] | None = None
    """The status in v1alpha2, where this one cannot express it; written by the conversion, of no meaning to others."""
    v1alpha2_spec: dict[str, Any] | None = None
    """What v1alpha2 has beyond this version's spec, where the annotations have no room for it; written by the
    conversion, of no meaning to others."""


class NodeUpgradeJob(Struct, frozen=True, kw_only=True, rename="camel"):
    """NodeUpgradeJob brings the agents of edge nodes to a version, a few at a time, and stops when too many fail.

    This is v1alpha1, kept for old clients; v1alpha2 can express more: onOffline, suspend, abort, retry."""

    metadata: ObjectMeta
    """Standard metadata of an object."""
    spec: JobSpec
    """What to upgrade, to what, and how carefully. Nothing of it may change later."""
    status: JobStatus = JobStatus()
    """How far the job is; written by the controller."""
    api_version: str = API_VERSION
    """Version of the API that this object is written in."""
    kind: str = "NodeUpgradeJob"
    """NodeUpgradeJob."""
