"""Which word has which phase, and who may say it (product.md 3.2).

A node's words are input like any other: it may not claim a code by which the controller speaks, and what it says is cut
to what the schema stores, so that no report can make a job's status impossible to write.
"""

import re

from beehive.api.nodeupgradejob import FAILURE, IN_PROGRESS, SKIPPED, SUCCESSFUL

ABORTED, ALREADY_AT_VERSION, NEWER, REJECTED = "Aborted", "AlreadyAtVersion", "Newer", "Rejected"
NOT_FOUND, NOT_AN_EDGE_NODE = "NotFound", "NotAnEdgeNode"
NOT_CONNECTED, NOT_READY = "NotConnected", "NotReady"
BUDGET_EXCEEDED, CORDON_FAILED, TIMED_OUT = "BudgetExceeded", "CordonFailed", "TimedOut"
WAITING, QUORUM_AT_RISK = "WaitingConfirmation", "QuorumAtRisk"
BUSY = "Busy"
"""Of a Pending entry: the node said that it is busy with another attempt; `reason` names it."""
CANCELLING = "Cancelling"
"""Of a Pending entry: the node works on it although it was set back; it was told to stop."""
UNEXPLAINED = "Unexplained"
"""The node's last word is none that a node may say, or speaks of another version than the job's."""
INVALID, NOTHING_SELECTED = "Invalid", "NothingSelected"

RETRIED = frozenset({BUDGET_EXCEEDED, NOT_CONNECTED, NOT_READY})
"""A Skipped entry with one of these is tried again by `retry`; Failure and Unknown always are."""

_SKIPS = frozenset({ABORTED, ALREADY_AT_VERSION, NEWER, REJECTED})
_FAILURES = frozenset(
    {
        "CheckFailed", "WaitingConfirmationFailed", "BackUpFailed", "UpgradeFailed", "ConfirmationExpired",
        "Interrupted", "RolledBack", "RollbackFailed", UNEXPLAINED,
    }
)  # fmt: skip
_CONTROLLERS = frozenset(
    {NOT_FOUND, NOT_AN_EDGE_NODE, NOT_CONNECTED, NOT_READY, BUDGET_EXCEEDED, CORDON_FAILED, TIMED_OUT}
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]+")
"""What moves a terminal's cursor, breaks a line, turns the direction of writing, or cannot be encoded."""
LONGEST_REASON = 256
_LONGEST_VERSION = 63
_LONGEST_WORD = 40


def is_final(said: str) -> bool:
    """May a node close its entry with this code? The list is closed; empty is success."""
    return not said or said in _SKIPS or said in _FAILURES


def quoted(word: str) -> str:
    """A word from outside inside a sentence of ours: its beginning, in quotes, whatever it holds escaped."""
    return repr(word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}…")


def phase_of(code: str) -> str:
    """Phase of an entry that the node closed with this code."""
    if not code:
        return SUCCESSFUL
    return SKIPPED if code in _SKIPS else FAILURE


def is_own_word(phase: str, code: str) -> bool:
    """Was an entry in this state closed by the node itself? Only `retry` opens it again then."""
    return phase == SUCCESSFUL or (phase in (FAILURE, SKIPPED) and code not in _CONTROLLERS)


def sentence(text: str, longest: int = LONGEST_REASON) -> str:
    """A text from outside in one line of at most `longest` characters."""
    if not text:
        return ""
    line = _CONTROL.sub(" ", text).strip()
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def nodes(count: int) -> str:
    """`1 node`, `2 nodes`."""
    return "1 node" if count == 1 else f"{count:,} nodes"


def version_word(text: str) -> str:
    """A version from outside; it is shown, never used."""
    return sentence(text, _LONGEST_VERSION)


def explain(phase: str, code: str, version: str) -> str:
    """The sentence of an entry that has none of its own."""
    if phase == SUCCESSFUL:
        return f"upgraded to {version}"
    if phase == IN_PROGRESS and code == WAITING:
        return "waits for its owner's confirmation"
    return _SENTENCES.get(code, code).format(version=version)


_SENTENCES = {
    ABORTED: "the job was aborted before the upgrade began",
    ALREADY_AT_VERSION: "already at {version}",
    NEWER: "runs a newer version, and allowDowngrade is false",
    REJECTED: "its owner rejected the upgrade",
    NOT_FOUND: "there is no such node",
    NOT_AN_EDGE_NODE: "the node is not an edge node (label node-role.kubernetes.io/edge)",
    NOT_CONNECTED: "not connected when its turn came",
    NOT_READY: "not ready when its turn came",
    BUDGET_EXCEEDED: "not started: too many nodes of this job failed before",
    TIMED_OUT: "no word within its time",
    QUORUM_AT_RISK: "its loss now would cost the etcd quorum",
    CANCELLING: "works on an attempt that was set back; it was told to stop",
    UNEXPLAINED: "failed without a known reason",
}
