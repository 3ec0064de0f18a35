"""ConversionReviews: what is no review, what comes back in which order, and sentences for what cannot be converted."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from beehive.api.convert import V1ALPHA1, V1ALPHA2
from beehive.errors import Refused
from modules.admission.conversion import MOST_BYTES, Request, closed, failed, one_converted, opened
from modules.admission.envelope import Reply
from tests.rules.test_convert import job1, job2

JSON = "application/json"


def review(**asked: Any) -> bytes:
    return json.dumps({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": asked}).encode()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "the body is no ConversionReview: "),
        (b"[]", "the body is no ConversionReview: "),
        (b"\xff", "the body is no ConversionReview: "),
        (b"{}", "send ConversionReview of apiextensions.k8s.io/v1 instead of  of "),
        (review().replace(b"io/v1", b"io/v1beta1"), "send ConversionReview of apiextensions.k8s.io/v1 instead of "),
        (b'{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1"}', "the review has no request"),
        (review(), "the review has no uid"),
        (review(uid="u", objects={}), "the body is no ConversionReview: "),
        (b'{"request":' + b"[" * 100_000, "the body is n"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_a_body_that_is_no_review(body: bytes, sentence: str) -> None:
    answer = opened(JSON, body)
    assert isinstance(answer, Reply)
    assert answer.status == 400
    assert answer.body.decode().startswith(sentence)


def test_content_type_and_size() -> None:
    assert opened("text/plain", b"{}") == Reply(415, b"send application/json instead of text/plain\n")
    assert opened(JSON, b"x" * (MOST_BYTES + 1)) == Reply(413, b"a review may have 64 MiB\n")


def test_objects_come_back_in_order_and_in_the_version_that_is_wanted() -> None:
    asked = opened(JSON, review(uid="u", desiredAPIVersion=V1ALPHA1, objects=[job2(), job1(), job2(abort=True)]))
    assert isinstance(asked, Request)
    done = [one_converted(item, asked.desired_api_version) for item in asked.objects or ()]
    answer = json.loads(closed(asked, done).body)
    assert (answer["kind"], answer["apiVersion"]) == ("ConversionReview", "apiextensions.k8s.io/v1")
    response = answer["response"]
    assert (response["uid"], response["result"]) == ("u", {"status": "Success"})
    assert [one["apiVersion"] for one in response["convertedObjects"]] == [V1ALPHA1] * 3
    assert response["convertedObjects"][1] == job1()
    assert "annotations" in response["convertedObjects"][2]["metadata"]


def test_no_objects_at_all() -> None:
    asked = opened(JSON, review(uid="u", desiredAPIVersion=V1ALPHA1, objects=None))
    assert isinstance(asked, Request)
    assert asked.objects is None


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (b"7", "an object is expected, not 7"),
        (b"null", "an object is expected, not None"),
        (b'"\xff"', "an object cannot be read"),
        (b"[" * 5000 + b"]" * 5000, "an object cannot be read"),
        (b'{"kind":"Pod","metadata":{"name":"p"}}', "p: only NodeUpgradeJob can be converted, not Pod"),
        (b'{"kind":"Pod","metadata":[]}', "an object without a name: only "),
    ],
    ids=lambda one: str(one)[:40],
)
def test_an_object_that_cannot_be_converted(item: bytes, said: str) -> None:
    with pytest.raises(Refused) as caught:
        one_converted(Raw(item), V1ALPHA2)
    assert caught.value.reason.startswith(said)


def test_a_failure_as_it_stands_on_the_wire() -> None:
    assert json.loads(failed(Request("u"), "because").body)["response"] == {
        "uid": "u", "convertedObjects": [], "result": {"status": "Failed", "message": "because"},
    }  # fmt: skip


@settings(max_examples=30)
@given(st.binary(max_size=200))
def test_no_body_makes_it_fail(body: bytes) -> None:
    assert isinstance(opened(JSON, body), Reply)
