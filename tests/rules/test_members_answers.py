"""Errors of etcd, as the laboratory recorded them (spec/k3s-etcd.md 12, 12b)."""

import pytest

from modules.etcdmanager.answers import AGAIN, GONE, NEXT, REFUSED, UNKNOWN, WAIT, in_words, meaning

TABLE = [
    ("FAILED_PRECONDITION", "etcdserver: can only promote a learner member which is in sync with leader", WAIT),
    ("FAILED_PRECONDITION", "etcdserver: can only promote a learner member", REFUSED),
    ("NOT_FOUND", "etcdserver: member not found", GONE),
    ("FAILED_PRECONDITION", "etcdserver: too many learner members in cluster", REFUSED),
    ("UNKNOWN", "etcdserver: re-configuration failed due to not enough started members", REFUSED),
    ("UNAVAILABLE", "etcdserver: unhealthy cluster", REFUSED),
    ("UNKNOWN", "context deadline exceeded", UNKNOWN),
    ("DEADLINE_EXCEEDED", "context deadline exceeded", UNKNOWN),
    ("UNAVAILABLE", "etcdserver: request timed out", UNKNOWN),
    ("UNAVAILABLE", "etcdserver: request timed out, possibly due to previous leader failure", UNKNOWN),
    ("UNAVAILABLE", "etcdserver: no leader", UNKNOWN),
    ("UNAVAILABLE", "etcdserver: leader changed", AGAIN),
    ("UNAVAILABLE", "Stream removed (Socket closed)", UNKNOWN),
    ("UNAVAILABLE", "etcdserver: rpc not supported for learner", NEXT),
    ("FAILED_PRECONDITION", "etcdserver: rpc not supported for learner", NEXT),
    ("FAILED_PRECONDITION", "etcdserver: not leader", NEXT),
    ("FAILED_PRECONDITION", "etcdserver: bad leader transferee", REFUSED),
    ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded", REFUSED),
    ("DATA_LOSS", "etcdserver: corrupt cluster", REFUSED),
    ("UNAVAILABLE", "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to "
     "remote host: Connection refused", NEXT),
    ("CANCELLED", "", UNKNOWN),
    ("INTERNAL", "what is this", UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize(("code", "details", "means"), TABLE)
def test_text_first_then_code(code: str, details: str, means: str) -> None:
    assert meaning(code, details) == means


def test_whatever_is_not_known_to_be_refused_may_have_been_done() -> None:
    assert {meaning(code, "no such text") for code in ("OK", "UNAVAILABLE", "ABORTED", "")} == {UNKNOWN}


def test_words_have_no_ports_that_differ_and_no_line_breaks() -> None:
    assert in_words("UNAVAILABLE", TABLE[19][1]) == "connection refused"
    assert "https://" in in_words("UNAVAILABLE", "Socket closed")
    assert in_words("INTERNAL", "a\n b" + "x" * 900).startswith("internal: a bxxx")
    assert len(in_words("INTERNAL", "x" * 900)) < 250
