"""What does an error of etcd mean? Pure. By its text first, then by its code: UNKNOWN and UNAVAILABLE each mean
several things (spec/k3s-etcd.md 12.2)."""

NEXT, UNKNOWN, REFUSED, GONE, WAIT, AGAIN = "next", "unknown", "refused", "gone", "wait", "again"
"""Ask another member, for this one did not take it; taken perhaps, with an open outcome; refused for this state of the
cluster; the member is in the list no more; not yet, the learner lags; ask once more, the leader just changed."""

_TEXTS = (
    ("rpc not supported for learner", NEXT),
    ("in sync with leader", WAIT),
    ("member not found", GONE),
    ("leader changed", AGAIN),
    ("unhealthy cluster", REFUSED),
    ("not enough started members", REFUSED),
    ("too many learner members", REFUSED),
    ("can only promote a learner", REFUSED),
    ("bad leader transferee", REFUSED),
    ("not leader", NEXT),
    ("database space exceeded", REFUSED),
    ("corrupt cluster", REFUSED),
    ("failed to connect to all addresses", NEXT),
    ("Connection refused", NEXT),
    ("CERTIFICATE_VERIFY_FAILED", NEXT),
    ("Hostname Verification Check failed", NEXT),
    ("errors resolving", NEXT),
)
_CODES = {
    "INVALID_ARGUMENT": REFUSED,
    "FAILED_PRECONDITION": REFUSED,
    "PERMISSION_DENIED": REFUSED,
    "UNAUTHENTICATED": REFUSED,
    "RESOURCE_EXHAUSTED": REFUSED,
    "DATA_LOSS": REFUSED,
    "NOT_FOUND": REFUSED,
    "UNIMPLEMENTED": NEXT,
}


def meaning(code: str, details: str) -> str:
    """`code` is gRPC's name of it. Whatever is not known to have been refused may have been done."""
    for text, means in _TEXTS:
        if text in details:
            return means
    return _CODES.get(code, UNKNOWN)


def in_words(code: str, details: str) -> str:
    """One short line without what differs from call to call."""
    plain = " ".join(details.split())
    if "Connection refused" in plain:
        return "connection refused"
    if code == "UNAVAILABLE" and "Socket closed" in plain:
        return "the connection is closed at once: does it speak TLS? Write https:// then"
    if "http1.x" in plain or "Received http2 header with status" in plain:
        return "something answers that is not etcd"
    return f"{code.lower()}: {plain[:200]}"
