"""What an operator watches of the hub. Pure."""

from collections.abc import Mapping

from beehive.figures import CERTIFICATE_ENDS, COUNTER, GAUGE, Labels, Metric
from beehive.messages.fleet import Session

CONNECTED = Metric(
    "beehive_connected_nodes", GAUGE,
    "Nodes with a session, by what they speak: `beehive`, or `legacy` (a real EdgeCore)", ("peer",),
)  # fmt: skip
REFUSED = Metric(
    "beehive_handshakes_refused", COUNTER,
    "Connections that were turned away, by reason: `identity` (a certificate for another node), `expired`, "
    "`unknown_ca`, `no_certificate`, `certificate` (any other fault of it), `timeout`, `upgrade` (no websocket of "
    "KubeEdge), `standby` (this process does not lead), `full` (too many at once), `other`", ("reason",),
)  # fmt: skip
FRAMES = Metric(
    "beehive_hub_frames", COUNTER, "Frames from (`in`) and to (`out`) nodes", ("direction",),
)  # fmt: skip
ALL = (CONNECTED, REFUSED, FRAMES, CERTIFICATE_ENDS)

_NAMED = {
    "refused_identity": "identity", "refused_upgrade": "upgrade", "refused_without_leadership": "standby",
    "cut_expired": "expired", "cut_revoked": "identity",
}  # fmt: skip
_TLS = (
    ("expired", "expired"), ("issuer", "unknown_ca"), ("self-signed", "unknown_ca"), ("unknown_ca", "unknown_ca"),
    ("did_not_return", "no_certificate"), ("timeout", "timeout"), ("timed_out", "timeout"),
    ("certificate", "certificate"),
)  # fmt: skip
"""A part of OpenSSL's or the system's words -> the reason; the first that fits counts."""
REASONS = frozenset({*_NAMED.values(), *(reason for _, reason in _TLS), "full", "other"})


def connected(sessions: tuple[Session, ...]) -> dict[Labels, float]:
    """Both kinds, 0 where there is none."""
    legacy = sum(one.legacy for one in sessions)
    return {("beehive",): len(sessions) - legacy, ("legacy",): legacy}


def refused(counters: Mapping[str, int], full: int) -> dict[Labels, float]:
    """Every reason, from the hub's own counters; `full`: connections that found no place in line."""
    told: dict[Labels, float] = {(reason,): 0.0 for reason in sorted(REASONS)}
    told["full",] += full
    for name, count in counters.items():
        reason = _NAMED.get(name) or _tls(name)
        if reason:
            told[reason,] += count
    return told


def _tls(name: str) -> str:
    if not name.startswith("handshake_"):
        return ""
    return next((reason for part, reason in _TLS if part in name), "other")
