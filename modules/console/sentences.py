"""The sentence of an entry: its own reason, or one made from its phase and code (product.md 3.2). Pure."""

from beehive.api import nodeupgradejob as api
from beehive.api.nodeupgradejob import NodeEntry

_OF_CODE = {
    "AlreadyAtVersion": "already at the version",
    "Newer": "runs a newer version; allowDowngrade is false",
    "NotFound": "there is no such Node",
    "NotAnEdgeNode": "the Node is no edge node",
    "NotReady": "the Node is not Ready",
    "NotConnected": "not connected",
    "BudgetExceeded": "not started: too many others failed",
    "Aborted": "stopped, for the job was aborted",
    "Rejected": "its owner said no",
    "ConfirmationExpired": "its owner did not answer in time",
    "TimedOut": "said nothing until its deadline",
    "RolledBack": "rolled back",
    "RollbackFailed": "not even the rollback went well: look at this host",
    "CordonFailed": "could not be cordoned",
    "WaitingConfirmation": "waits for its owner",
    "QuorumAtRisk": "waits, for etcd would lose its quorum",
}


def sentence(entry: NodeEntry) -> str:
    """What happened to the node and why, for people."""
    if entry.phase == api.SUCCESSFUL:
        came_from = f" from {entry.historic_version}" if entry.historic_version else ""
        return entry.reason or f"upgraded{came_from}"
    made = _OF_CODE.get(entry.reason_code, entry.reason_code)
    if entry.reason_code == "RolledBack" and entry.reason and not entry.reason.startswith(made):
        return f"{made}: {entry.reason}"
    if entry.phase == api.IN_PROGRESS and not entry.reason:
        return made or _under_way(entry)
    return entry.reason or made


def _under_way(entry: NodeEntry) -> str:
    """The action that follows the last one that ended."""
    ended = [one.action for one in entry.action_flow or ()]
    following = {api.CHECK: "backing up", api.WAITING_CONFIRMATION: "backing up", api.BACK_UP: "upgrading"}
    return following.get(ended[-1], "") if ended else "checking"
