"""Who was turned away, in words that an alert can name."""

import pytest

from beehive.messages.fleet import Session
from modules.cloudhub.figures import REASONS, REFUSED, connected, refused


@pytest.mark.parametrize(
    ("counter", "reason"),
    [
        ("refused_identity", "identity"), ("refused_upgrade", "upgrade"), ("refused_without_leadership", "standby"),
        ("handshake_certificate_has_expired", "expired"),
        ("handshake_unable_to_get_local_issuer_certificate", "unknown_ca"),
        ("handshake_self-signed_certificate", "unknown_ca"), ("handshake_tlsv1_alert_unknown_ca", "unknown_ca"),
        ("handshake_peer_did_not_return_a_certificate", "no_certificate"), ("handshake_timeouterror", "timeout"),
        ("handshake_unsuitable_certificate_purpose", "certificate"), ("handshake_wrong_version_number", "other"),
    ],
)  # fmt: skip
def test_a_counter_becomes_a_reason(counter: str, reason: str) -> None:
    told = refused({counter: 3, "handshakes_failed": 3, "frames_in": 9}, full=0)
    assert {labels: count for labels, count in told.items() if count} == {(reason,): 3}


def test_every_reason_is_there_from_the_start_and_documented() -> None:
    told = refused({}, full=0)
    assert {reason for (reason,) in told} == REASONS
    assert [reason for reason in REASONS if f"`{reason}`" not in REFUSED.text] == []
    assert refused({}, full=2)["full",] == 2


def test_sessions_are_counted_by_what_they_speak() -> None:
    sessions = (Session("a", 1, 0.0, False), Session("b", 2, 0.0, True), Session("c", 3, 0.0, False))
    assert connected(sessions) == {("beehive",): 2, ("legacy",): 1}
    assert connected(()) == {("beehive",): 0, ("legacy",): 0}
