"""Every reason code that an entry of a job may have: what it means, and what to do about it (product.md 3.2).

docs/reasons.md is made of this table, and `beehive job describe` gives the remedy; a test fails when a code that the
rules use is missing here.
"""

from msgspec import Struct

from beehive.api.nodeupgradejob import FAILURE, IN_PROGRESS, PENDING, SKIPPED, UNKNOWN


class Reason(Struct, frozen=True):
    """One code."""

    phase: str
    """Phase of an entry that has it."""
    meaning: str
    """A sentence."""
    remedy: str
    """What to do, as a sentence; `{job}` and `{node}` are names."""


_RETRY = "beehive job retry {job}"

REASONS: dict[str, Reason] = {
    "AlreadyAtVersion": Reason(SKIPPED, "The node runs the version of the job already.", "Nothing is to be done."),
    "Newer": Reason(
        SKIPPED, "The node runs a newer version, and allowDowngrade is false.",
        "If it shall go back: make a job for it with allowDowngrade: true.",
    ),
    "Rejected": Reason(
        SKIPPED, "The owner of the host said no, by `beehive edge reject`.",
        "Ask the owner; then make a new job for this node.",
    ),
    "Aborted": Reason(
        SKIPPED, "The job was aborted before the node began to swap.",
        "Make a new job for the nodes that are left; an aborted job is not tried again.",
    ),
    "BudgetExceeded": Reason(
        SKIPPED, "The node was not started: more nodes of the job had failed than failureTolerate allows.",
        f"Mend those that failed, then: {_RETRY}",
    ),
    "NotConnected": Reason(
        SKIPPED, "The node had no connection to the hub when its turn came (Failure where onOffline is Fail).",
        "On the host: systemctl status beehive-edge, beehive edge status. Is the hub's port 10000 open to it? "
        f"Then: {_RETRY}",
    ),
    "NotReady": Reason(
        SKIPPED, "The Node object was not Ready when its turn came (Failure where onOffline is Fail).",
        f"kubectl describe node {{node}}; then: {_RETRY}",
    ),
    "NotFound": Reason(
        FAILURE, "There is no Node object of this name.",
        "Correct the name in a new job, or wait until the node has registered: kubectl get node {node}",
    ),
    "NotAnEdgeNode": Reason(
        FAILURE, "The Node object lacks the label node-role.kubernetes.io/edge.",
        "If it is an edge node: kubectl label node {node} node-role.kubernetes.io/edge=, then "
        f"{_RETRY}",
    ),
    "CheckFailed": Reason(
        FAILURE, "The node's own check refused, before anything was changed: resources, policy, image or digest.",
        f"The sentence says which check; mend it on the host or in a new job, then: {_RETRY}",
    ),
    "WaitingConfirmationFailed": Reason(
        FAILURE, "The host could not ask its owner; nothing was changed.",
        f"beehive edge logs on the host; then: {_RETRY}",
    ),
    "ConfirmationExpired": Reason(
        FAILURE, "The owner of the host did not answer within the host's limit; nothing was changed.",
        f"Reach the owner, then: {_RETRY}",
    ),
    "BackUpFailed": Reason(
        FAILURE, "The backup could not be made, so nothing was changed: mostly a full disk or a broken database.",
        f"The sentence says what could not be copied; mend it on the host, then: {_RETRY}",
    ),
    "UpgradeFailed": Reason(
        FAILURE, "The upgrade did not begin or did not end well, and what runs is told by currentVersion.",
        f"beehive edge logs on the host; then: {_RETRY}",
    ),
    "Interrupted": Reason(
        FAILURE, "The attempt was interrupted too often (power, kills); the host runs what it ran before.",
        f"Look for what restarts the host: journalctl --list-boots; then: {_RETRY}",
    ),
    "RolledBack": Reason(
        FAILURE, "The new version did not stay up, and the old one runs again.",
        "The sentence has its last words; its log is in /var/log/kubeedge on the host. Mend the version or the host, "
        f"then: {_RETRY}",
    ),
    "RollbackFailed": Reason(
        FAILURE, "Neither the new version nor the old one came up: the host needs a hand now.",
        "On the host: beehive edge logs, then keadm rollback edge; the backup is in /etc/kubeedge/backup.",
    ),
    "Unexplained": Reason(
        FAILURE, "The node's last word was none that it may say, or spoke of another version than the job's.",
        "Compare the versions of Beehive on the host and in the cloud; look at the host: beehive edge status.",
    ),
    "CordonFailed": Reason(
        FAILURE, "The Node object could not be cordoned, so the node was not told to start.",
        "Does the service account have the right to patch nodes (configs/rbac.yaml)? Does a webhook refuse it? "
        f"Then: {_RETRY}",
    ),
    "TimedOut": Reason(
        UNKNOWN, "The node said nothing until its deadline (timeoutSeconds). A later word still counts.",
        f"beehive edge status on the host. If it is well and says nothing: {_RETRY}",
    ),
    "WaitingConfirmation": Reason(
        IN_PROGRESS, "The node waits for its owner's word.", "On the host: beehive edge confirm {job}, or reject.",
    ),
    "QuorumAtRisk": Reason(
        PENDING, "The node waits, for its loss now would cost etcd the quorum.",
        "beehive etcd status says which member is silent; bring it back and the node is started.",
    ),
    "Busy": Reason(
        PENDING, "The host works for another attempt; the sentence names it.",
        "Nothing: it is started when the host is free.",
    ),
    "Cancelling": Reason(
        PENDING, "The node works on an attempt that was set back, and was told to stop.",
        "Nothing: it is started when it has answered.",
    ),
}  # fmt: skip

NONE, OTHER = "none", "Other"
"""Stand in metrics for no code, and for a code that is none of these: somebody else wrote the status."""


def bounded(code: str) -> str:
    """The code as a label of a metric, which must not be empty, nor have values without end."""
    return (code if code in REASONS else OTHER) if code else NONE
