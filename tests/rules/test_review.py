"""Verdicts on AdmissionReviews: KubeEdge's vectors with theirs and ours, bad bodies, and what no schema can say."""

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modules.admission.envelope import MOST_BYTES, Answered, Reply, Response, closed, opened
from modules.admission.review import judge
from tests.vectors import vector

JSON = "application/json"
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def job(**fields: Any) -> dict[str, Any]:
    """A good object, but for `fields` of its spec (None takes one away)."""
    spec = {"version": "v1.23.1", "nodeNames": ["edge-a"], **fields}
    return {"metadata": {"name": "j"}, "spec": {key: value for key, value in spec.items() if value is not None}}


def request(operation: str = "CREATE", new: Any = None, old: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "uid": UID,
        "resource": {"group": "operations.kubeedge.io", "version": "v1alpha2", "resource": "nodeupgradejobs"},
        "operation": operation,
        "object": new,
        "oldObject": old,
        **more,
    }


def reply(content_type: str, body: bytes) -> Reply:
    """What the server answers."""
    asked = opened(content_type, body)
    return asked if isinstance(asked, Reply) else closed(judge(asked))


def review(asked: dict[str, Any]) -> bytes:
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()


def verdict(asked: dict[str, Any]) -> Response:
    """The answer's response; it must be a proper one."""
    answer = reply(JSON, review(asked))
    assert answer.status == 200, answer.body
    whole = msgspec.json.decode(answer.body, type=Answered)
    assert (whole.kind, whole.api_version, whole.response.uid) == (
        "AdmissionReview",
        "admission.k8s.io/v1",
        asked["uid"],
    )
    return whole.response


def said(asked: dict[str, Any]) -> str:
    """Why it is denied."""
    response = verdict(asked)
    assert not response.allowed
    assert response.status is not None
    assert (response.status.code, response.status.reason) == (422, "Invalid")
    assert response.status.message.isprintable()
    return response.status.message


# ---- KubeEdge's own reviews --------------------------------------------------------------------------------------

SAME = None
OURS: dict[str, str | bool | None] = {
    "validate_create_ok": SAME,
    "validate_create_bad_version": SAME,
    "validate_create_bad_image": SAME,
    "validate_create_no_selector": SAME,
    "validate_create_both_selectors": SAME,
    "validate_update_spec_changed": "spec fields are not allowed to update once it's created: version",  # and which
    "validate_update_only_metadata": SAME,
    "validate_update_digest_amd64_changed_via_v1alpha2_is_allowed": (  # theirs compares in v1alpha1 and misses it
        "spec fields are not allowed to update once it's created: imageDigestGatter"
    ),
    "validate_delete": SAME,
    "validate_connect_unsupported": SAME,
    # asked of their mutating webhook; here our validating one answers (see test_mutation for the other)
    "mutate_create_defaults": True,
    "mutate_create_nothing_to_do": True,
    "mutate_create_timeout_zero_stays_zero": True,
    "mutate_create_negative_concurrency_stays": "spec.concurrency: -3 is out of range; give 1 to 2147483647",
    "mutate_wrong_type": "validation failed with error: spec.concurrency: Expected `int`, got `str`",
}


@pytest.mark.parametrize("name", OURS)
def test_what_was_asked_of_kubeedges_webhook(name: str) -> None:
    case = vector("admission_reviews_from_real_server")[name]
    response = verdict(case["request"]["request"])
    theirs = case["response"]["response"]
    ours = OURS[name]
    if ours is SAME:
        assert response.allowed is theirs["allowed"]
        assert (response.status.message if response.status else None) == theirs.get("status", {}).get("message")
    elif ours is True:
        assert response.allowed
        assert theirs["allowed"]
    else:
        assert response.status is not None
        assert response.status.message == ours


def test_every_review_of_the_vectors_is_used() -> None:
    assert set(vector("admission_reviews_from_real_server")) == {*OURS, "wrong_content_type_empty_200", "not_json"}


def test_a_wrong_content_type_gets_a_sentence_where_theirs_is_an_empty_200() -> None:
    case = vector("admission_reviews_from_real_server")["wrong_content_type_empty_200"]
    assert (case["http_status"], case["response"]) == (200, "")
    body = json.dumps(case["request"]).encode()
    assert reply("text/plain", body) == Reply(415, b"send application/json instead of text/plain\n")
    assert reply("", body).status == 415
    assert reply("Application/JSON; charset=utf-8", body).status == 200


def test_what_is_no_json_gets_400_where_theirs_denies_nobody() -> None:
    case = vector("admission_reviews_from_real_server")["not_json"]
    assert case["response"]["response"]["uid"] == ""
    assert reply(JSON, case["request"].encode()).status == 400


# ---- bad bodies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "the body is no AdmissionReview: "),
        (b"null", "the body is no AdmissionReview: "),
        (b"[]", "the body is no AdmissionReview: "),
        (b"\xff\xfe", "the body is no AdmissionReview: "),
        (b"{}", "send AdmissionReview of admission.k8s.io/v1 instead of  of "),
        (
            b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}',
            "send AdmissionReview of admission.k8s.io/v1 ",
        ),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "the review has no request"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}', "the review has no request"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}', "the review has no uid"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":5}}', "the body is no "),
        (b'{"request":' + b"[" * 100_000, "the body is n"),
    ],
    ids=str,
)
def test_a_body_that_is_no_review(body: bytes, sentence: str) -> None:
    answer = reply(JSON, body)
    assert answer.status == 400
    assert answer.body.decode().startswith(sentence)
    assert answer.body.endswith(b"\n")


def test_a_body_that_is_too_large_is_not_even_read() -> None:
    assert reply(JSON, b"x" * (MOST_BYTES + 1)) == Reply(413, b"a review may have 3 MiB\n")


@settings(max_examples=30)
@given(st.binary(max_size=200))
def test_no_body_makes_it_fail(body: bytes) -> None:
    assert reply(JSON, body).status == 400


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT", ""]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["spec", "metadata", "version", "nodeNames", "image", "x"]), inner, max_size=4
            )
        ),
        max_leaves=10,
    ),
    st.recursive(
        st.none() | st.text(max_size=5),
        lambda inner: st.dictionaries(st.sampled_from(["spec", "metadata", "version"]), inner, max_size=3),
        max_leaves=5,
    ),
)
def test_no_object_makes_it_fail(operation: str, new: Any, old: Any) -> None:
    verdict(request(operation, new, old))


# ---- verdicts ----------------------------------------------------------------------------------------------------


def test_a_denial_and_an_approval_as_they_stand_on_the_wire() -> None:
    denied = json.loads(reply(JSON, review(request(new=job(version="latest")))).body)
    assert denied == {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "response": {
            "uid": UID,
            "allowed": False,
            "status": {"message": "invalid version latest", "code": 422, "reason": "Invalid"},
        },
    }
    assert json.loads(reply(JSON, review(request(new=job()))).body)["response"] == {"uid": UID, "allowed": True}


def test_all_problems_are_told_at_once() -> None:
    message = said(request(new=job(version="latest", concurrency=0, failureTolerate="10")))
    assert message == (
        "invalid version latest; spec.concurrency: 0 is out of range; give 1 to 2147483647; "
        'spec.failureTolerate: "10": it is neither a ratio from 0 to 1 nor a percentage; write one like 0.1 or 10%'
    )


def test_what_the_schema_cannot_say() -> None:
    assert "cannot be the key of a label" in said(
        request(new=job(nodeNames=None, labelSelector={"matchLabels": {"a b": "c"}}))
    )
    assert "would not fit into one object" in said(
        request(new=job(nodeNames=[f"{i:05}-{'x' * 80}" for i in range(5000)]))
    )


def test_a_users_first_try_with_an_image_alone() -> None:
    message = said(request(new={"spec": {"image": "kubeedge/installation-package:v1.23.1"}}))
    assert message == "validation failed with error: spec: Object missing required field `version`"
    assert said(request(new={"metadata": {}})) == message
    assert said(request()) == "validation failed with error: the request has no object"


def test_a_new_job_was_not_tried_before() -> None:
    assert said(request(new=job(retry=3))) == "spec.retry: a new job has not been tried; leave it out instead of 3"


def test_the_name_must_leave_room_for_its_events() -> None:
    assert verdict(request(new=job() | {"metadata": {"name": "x" * 200}})).allowed
    for asked in (request(new=job() | {"metadata": {"name": "x" * 201}}), request(new=job(), name="x" * 201)):
        assert said(asked) == (
            "metadata.name: 201 characters; a job's has at most 200, for its Events are named after it"
        )


def test_annotations_count_where_the_status_must_fit() -> None:
    wanted = job(nodeNames=[f"edge-{i:05}" for i in range(5000)])
    assert verdict(request(new=wanted)).allowed
    wanted["metadata"]["annotations"] = {"mine": "x" * 250_000}
    assert "would not fit into one object" in said(request(new=wanted))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (job(version="latest", concurrency=-3), job(version="latest", concurrency=-3)),
        ({"spec": {"version": 7}}, {"spec": {"version": 7}, "metadata": {"finalizers": []}}),
        ({"spec": None}, {"metadata": {"labels": {"a": "b"}}}),
        ({}, {}),
        (job(version="latest"), job(version="latest", suspend=True)),
        (job(), job(suspend=True, abort=True, imageDigestGatter={})),
        (job(), {"metadata": {"deletionTimestamp": "2026-11-29T20:31:07Z"}, "spec": {"version": "anything"}}),
    ],
    ids=str,
)
def test_an_update_that_changes_nothing_that_is_judged_is_never_refused(old: Any, new: Any) -> None:
    assert verdict(request("UPDATE", new, old)).allowed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (job(), job(concurrency=2), "spec fields are not allowed to update once it's created: concurrency"),
        (job(abort=True), job(), "spec.abort: an abort cannot be taken back; make a new job"),
        (job(retry=2), job(retry=1), "spec.retry: it may only grow; it is 2"),
        ({"spec": {"version": 7}}, job(version="latest"), "invalid version latest"),
        (job(), {"spec": {"version": 7}}, "validation failed with error: spec.version: Expected `str`, got `int`"),
        (job(), None, "validation failed with error: the request lacks the object or the old object"),
    ],
    ids=str,
)
def test_an_update_that_is_refused(old: Any, new: Any, message: str) -> None:
    assert said(request("UPDATE", new, old)) == message


@pytest.mark.parametrize(
    "asked",
    [
        request("DELETE", None, job(version="x")),
        request("UPDATE", job(version="x"), job(), subResource="status"),
        request("CREATE", job(), dryRun=True),
    ],
    ids=str,
)
def test_what_is_always_allowed(asked: dict[str, Any]) -> None:
    assert verdict(asked) == Response(UID, True)


def test_another_kind_is_let_through_with_a_warning_about_the_registration() -> None:
    pod = request(new={"spec": {}}) | {"resource": {"group": "", "version": "v1", "resource": "pods"}}
    response = verdict(pod)
    assert response.allowed
    assert response.warnings == (
        "this webhook judges nodeupgradejobs.operations.kubeedge.io only; take pods out of its rules",
    )


def test_the_largest_job_is_judged_in_a_tenth_of_a_second() -> None:
    body = review(request(new=job(nodeNames=[f"edge-{i:05}" for i in range(5000)])))
    began = time.process_time()
    assert reply(JSON, body).status == 200
    assert time.process_time() - began < 0.1
