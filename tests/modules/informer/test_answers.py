"""What the API server's answers mean."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.messages.objects import Away, Denied, Missing, Stale
from modules.informer.answers import Reply, refusal, retry_after, sentence

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAILED_TEST = (
    b'{"kind":"Status","status":"Failure","message":"the server rejected our request due to an error in our request",'
    b'"reason":"Invalid","details":{},"code":422}'
)
VIOLATION = (
    b'{"kind":"Status","status":"Failure","message":"NodeUpgradeJob \\"a\\" is invalid: status.total: wrong",'
    b'"reason":"Invalid","details":{"causes":[{"reason":"FieldValueInvalid","message":"wrong","field":"status.total"}]},'
    b'"code":422}'
)


def test_a_422_without_causes_is_a_failed_test_and_one_with_causes_is_for_good() -> None:
    assert refusal(Reply(422, FAILED_TEST)) == Stale()
    assert refusal(Reply(422, VIOLATION)) == Denied('NodeUpgradeJob "a" is invalid: status.total: wrong')
    assert refusal(Reply(422, b'{"details":{"causes":null}}')) == Stale()
    assert refusal(Reply(422, b"")) == Stale()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, type(None)),
        (201, type(None)),
        (204, type(None)),
        (301, Away),
        (400, Denied),
        (401, Away),
        (403, Denied),
        (404, Missing),
        (405, Denied),
        (409, Stale),
        (410, Denied),
        (413, Denied),
        (415, Denied),
        (429, Away),
        (500, Away),
        (503, Away),
        (504, Away),
    ],
)
def test_by_status(status: int, kind: type) -> None:
    refused = refusal(Reply(status))
    assert isinstance(refused, kind)
    assert (status == 403) is (isinstance(refused, Denied) and refused.may_pass), "rights may be given"


@given(st.integers(100, 599), st.binary(max_size=200))
def test_whatever_comes_has_a_meaning_and_a_sentence_in_one_line(status: int, body: bytes) -> None:
    reply = Reply(status, body)
    refused = refusal(reply)
    assert (refused is None) == (200 <= status < 300)
    assert sentence(reply)
    assert "\n" not in sentence(reply)


def test_sentences() -> None:
    assert sentence(Reply(503, b"")) == "HTTP status 503"
    assert sentence(Reply(404, b"404 page not found\n")) == "404 page not found"
    assert sentence(Reply(500, b'{"message":"etcd\\n  is away"}')) == "etcd is away"
    assert sentence(Reply(500, b'{"message":""}')) == "HTTP status 500"
    assert len(sentence(Reply(502, b"<html>" * 1000))) <= 200


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("1", 1.0),
        ("0", 0.0),
        ("999999999999", 60.0),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("٣", None),
        ("Thu, 01 Jan 2026 00:00:07 GMT", 7.0),
        ("Wed, 31 Dec 2025 00:00:00 GMT", 0.0),
        ("Thu, 01 Jan 2099 00:00:00 GMT", 60.0),
        ("Thu, 01 Jan 2026 00:00:07", None),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, NOW) == seconds
