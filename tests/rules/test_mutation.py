"""Defaults that the mutating webhook adds: those of the schema, to new jobs, and nothing else."""

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.api.crd import schema, schema_v1alpha1
from modules.admission.envelope import Request, Response, closed
from modules.admission.mutation import mutated
from tests.rules.test_review import job, request
from tests.vectors import vector


def asked(body: dict[str, Any]) -> Request:
    return msgspec.convert(
        {
            key: (msgspec.Raw(json.dumps(value).encode()) if key in ("object", "oldObject") else value)
            for key, value in body.items()
        },
        Request,
    )


def added(body: dict[str, Any]) -> dict[str, Any]:
    """What it would add to the spec; it must be allowed."""
    response = mutated(asked(body))
    assert response.allowed
    if not response.patch:
        assert response == Response(body["uid"], True)
        return {}
    assert response.patch_type == "JSONPatch"
    operations = json.loads(base64.b64decode(response.patch))
    assert {one["op"] for one in operations} == {"add"}
    return {one["path"].removeprefix("/spec/"): one["value"] for one in operations}


def in_v1alpha1(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"resource": body["resource"] | {"version": "v1alpha1"}}


@pytest.mark.parametrize(("version", "whole"), [("v1alpha2", schema()), ("v1alpha1", schema_v1alpha1())])
def test_it_adds_what_the_schema_adds(version: str, whole: dict[str, Any]) -> None:
    body = request(new=job()) | {"resource": request()["resource"] | {"version": version}}
    fields = whole["properties"]["spec"]["properties"]
    assert added(body) == {name: part["default"] for name, part in fields.items() if "default" in part}


def test_what_is_written_stays_even_where_it_is_wrong_or_only_means_a_default() -> None:
    written = {"concurrency": 0, "timeoutSeconds": 0, "failureTolerate": "", "image": "", "version": "1.23.1"}
    assert added(request(new=job(**written))).keys().isdisjoint(written)
    assert "concurrency" not in added(request(new=job(concurrency="x")))


def test_a_null_is_as_if_left_out() -> None:
    spec = {"version": "v1.23.1", "concurrency": None}
    assert added(request(new={"spec": spec}))["concurrency"] == 1


@pytest.mark.parametrize(
    "body",
    [
        request("UPDATE", job(), job()),
        request("DELETE", None, job()),
        request("CONNECT", job()),
        request(),
        request(new={}),
        request(new={"spec": []}),
        request(new=7),
        request(new=job(), subResource="status"),
        request(new=job()) | {"resource": {"group": "", "version": "v1", "resource": "pods"}},
        request(new=job()) | {"resource": request()["resource"] | {"version": "v9"}},
    ],
    ids=str,
)
def test_nothing_else_is_touched_or_refused(body: dict[str, Any]) -> None:
    assert added(body) == {}


THEIRS_AND_OURS: dict[str, str] = {
    "mutate_create_defaults": "theirs and the others of the schema",
    "mutate_create_nothing_to_do": "theirs has two defaults, concurrency and timeoutSeconds; ours the rest too",
    "mutate_create_timeout_zero_stays_zero": "same for what is written",
    "mutate_create_negative_concurrency_stays": "same here; our validation refuses it",
    "mutate_wrong_type": "theirs refuses in Go's words; here our validation does, in ours",
}


@pytest.mark.parametrize("name", THEIRS_AND_OURS)
def test_what_was_asked_of_kubeedges_mutating_webhook(name: str) -> None:
    case = vector("admission_reviews_from_real_server")[name]
    theirs = {
        one["path"].removeprefix("/spec/"): one["value"]
        for one in case["response"]["response"].get("patch_decoded", ())
    }
    body = case["request"]["request"]
    ours = added(body)
    assert theirs.items() <= ours.items()
    assert ours.keys().isdisjoint(body["object"]["spec"])
    assert set(ours) <= {
        "concurrency",
        "timeoutSeconds",
        "image",
        "upgradeTool",
        "failureTolerate",
        "requireConfirmation",
    }
    assert case["response"]["response"]["allowed"] is (name != "mutate_wrong_type")


def test_a_patch_as_it_stands_on_the_wire() -> None:
    whole = json.loads(closed(mutated(asked(in_v1alpha1(request(new=job()))))).body)
    assert set(whole["response"]) == {"uid", "allowed", "patchType", "patch"}


@settings(max_examples=30)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.sampled_from(["spec", "version", "concurrency"]), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_no_object_makes_it_fail(new: Any) -> None:
    added(request(new=new))
