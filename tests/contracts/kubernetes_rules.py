"""Contract: what a CRD's schema refuses, fills in and forgets."""

from typing import Any

import pytest

from tests.contracts.api import CONFIGMAPS, LEASES, MERGE_PATCH, NODES, UNCHECKED, Api, configmap, fresh, lease, node
from tests.contracts.rollout import ROLLOUTS, rollout


class Rules:
    """Schema, defaults, pruning, CEL."""

    def test_defaults(self, api: Api) -> None:
        spec = api.make(ROLLOUTS, rollout(fresh()))["spec"]
        assert spec == {
            "version": "v1.2", "names": ["node-1"], "concurrency": 1, "suspend": False, "retry": 0, "offline": "Skip",
            "nested": {"deep": "filled"},
        }  # fmt: skip

    def test_null_stands_for_nothing(self, api: Api) -> None:
        spec = api.make(ROLLOUTS, rollout(fresh(), concurrency=None, pattern=None, maybe=None, names=["node-1"]))[
            "spec"
        ]
        assert spec["concurrency"] == 1
        assert "pattern" not in spec
        assert spec["maybe"] is None

    def test_unknown_fields_are_pruned_and_told(self, api: Api) -> None:
        body = {**rollout(fresh(), unknown=1, nested={"strange": {}, "free": {"any": ["thing"]}}), "top": "level"}
        answer = api.request("POST", ROLLOUTS, body)
        assert answer.status_code == 201
        assert answer.json()["spec"]["nested"] == {"deep": "filled", "free": {"any": ["thing"]}}
        assert "unknown" not in answer.json()["spec"]
        assert "top" not in answer.json()
        told = answer.headers.get_list("Warning")
        assert sorted(told) == [
            f'299 - "unknown field \\"{path}\\""' for path in ("spec.nested.strange", "spec.unknown", "top")
        ]

    def test_unknown_fields_are_ignored_or_refused_as_asked(self, api: Api) -> None:
        answer = api.request("POST", ROLLOUTS, rollout(fresh(), unknown=1), fieldValidation="Ignore")
        assert answer.status_code == 201
        assert "Warning" not in answer.headers
        status = api.refused(400, "BadRequest", "POST", ROLLOUTS, rollout(fresh(), unknown=1), fieldValidation="Strict")
        assert 'strict decoding error: unknown field "spec.unknown"' in status["message"]
        path = f"{ROLLOUTS}/{answer.json()['metadata']['name']}"
        patch = {"spec": {"unknown": 1}}
        assert api.request("PATCH", path, patch, media=MERGE_PATCH, fieldValidation="Strict").status_code >= 400
        assert "unknown" not in api.patch(path, patch)["spec"]

    def test_unknown_fields_of_built_in_kinds(self, api: Api) -> None:
        body = {**configmap(fresh()), "dta": {}}
        api.refused(400, "BadRequest", "POST", CONFIGMAPS, body, fieldValidation="Strict")
        assert "dta" not in api.make(CONFIGMAPS, body)

    @pytest.mark.parametrize(
        ("change", "field", "reason"),
        [
            ({"version": None}, "spec.version", "FieldValueRequired"),
            ({"version": 1}, "spec.version", "FieldValueTypeInvalid"),
            ({"version": "v1." + "0" * 80}, "spec.version", "FieldValueTooLong"),
            ({"concurrency": "many"}, "spec.concurrency", "FieldValueTypeInvalid"),
            ({"concurrency": 1.5}, "spec.concurrency", "FieldValueTypeInvalid"),
            ({"concurrency": True}, "spec.concurrency", "FieldValueTypeInvalid"),
            ({"concurrency": 0}, "spec.concurrency", "FieldValueInvalid"),
            ({"concurrency": 101}, "spec.concurrency", "FieldValueInvalid"),
            ({"share": 0}, "spec.share", "FieldValueInvalid"),
            ({"share": "1"}, "spec.share", "FieldValueTypeInvalid"),
            ({"pattern": "ABC"}, "spec.pattern", "FieldValueInvalid"),
            ({"pattern": "abc\n"}, "spec.pattern", "FieldValueInvalid"),
            ({"offline": "Panic"}, "spec.offline", "FieldValueNotSupported"),
            ({"suspend": "yes"}, "spec.suspend", "FieldValueTypeInvalid"),
            ({"names": "node-1"}, "spec.names", "FieldValueTypeInvalid"),
            ({"names": []}, "spec.names", "FieldValueInvalid"),
            ({"names": ["aa"] * 5}, "spec.names", "FieldValueTooMany"),
            ({"names": ["aa", "much-too-long-a-name"]}, "spec.names[1]", "FieldValueTooLong"),
            ({"names": ["aa", 1]}, "spec.names[1]", "FieldValueTypeInvalid"),
            ({"names": ["a"]}, "spec.names[0]", "FieldValueInvalid"),
            (
                {"selector": {"matchLabels": {"a": 1}}, "names": None},
                "spec.selector.matchLabels.a",
                "FieldValueTypeInvalid",
            ),
            ({"tags": ["a", "b", "a"]}, "spec.tags[2]", "FieldValueDuplicate"),
            ({"since": "yesterday"}, "spec.since", "FieldValueTypeInvalid"),
            ({"port": 1.5}, "spec.port", "FieldValueTypeInvalid"),
            ({"nested": "text"}, "spec.nested", "FieldValueTypeInvalid"),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_schema(self, api: Api, change: dict[str, Any], field: str, reason: str) -> None:
        body = rollout(fresh(), **change)
        assert (field, reason) in api.causes("POST", ROLLOUTS, body)
        api.refused(404, "NotFound", "GET", f"{ROLLOUTS}/{body['metadata']['name']}")

    @pytest.mark.parametrize(
        "change",
        [
            {"concurrency": 100}, {"share": 0.1}, {"share": 3}, {"port": 80}, {"port": "http"}, {"concurrency": 2.0},
            {"since": "2026-01-02T03:04:05Z"}, {"since": "2026-01-02T03:04:05.123+02:00"}, {"tags": ["a", "b"]},
            {"names": ["éé"]},
        ],
        ids=str,
    )  # fmt: skip
    def test_what_just_fits(self, api: Api, change: dict[str, Any]) -> None:
        api.make(ROLLOUTS, rollout(fresh(), **change))

    def test_a_spec_is_required(self, api: Api) -> None:
        body = {key: value for key, value in rollout(fresh()).items() if key != "spec"}
        assert ("spec", "FieldValueRequired") in api.causes("POST", ROLLOUTS, body)

    def test_the_message_names_everything(self, api: Api) -> None:
        name = fresh()
        status = api.refused(422, "Invalid", "POST", ROLLOUTS, rollout(name, concurrency=0, offline="Panic"))
        assert status["message"].startswith(f'Rollout.contract.test "{name}" is invalid: [')
        assert status["details"]["kind"] == "Rollout"
        messages = {cause["field"]: cause["message"] for cause in status["details"]["causes"]}
        assert messages["spec.concurrency"] == (
            "Invalid value: 0: spec.concurrency in body should be greater than or equal to 1"
        )
        assert messages["spec.offline"] == 'Unsupported value: "Panic": supported values: "Skip", "Wait", "Fail"'

    @pytest.mark.parametrize(
        ("change", "field", "message"),
        [
            ({"selector": {}}, "spec", 'Invalid value: "object": give exactly one of names and selector'),
            ({"names": None}, "spec", 'Invalid value: "object": give exactly one of names and selector'),
            (
                {"version": "latest"},
                "spec.version",
                'Invalid value: "string": "latest" is not a version; write one like v1.23',
            ),
            ({"version": "v1.2\n"}, "spec.version", ""),
            ({"names": ["ok", "x-1"]}, "spec.names", 'Invalid value: "array": names beginning with x- are taken'),
        ],
        ids=lambda value: str(value)[:30],
    )
    def test_rules_in_cel(self, api: Api, change: dict[str, Any], field: str, message: str) -> None:
        status = api.refused(422, "Invalid", "POST", ROLLOUTS, rollout(fresh(), **change))
        told = {(cause["field"], cause["message"]) for cause in status["details"]["causes"]}
        assert (field, message) in told or (not message and field in {one[0] for one in told}), told

    def test_rules_in_cel_wait_for_a_sound_object(self, api: Api) -> None:
        causes = api.causes("POST", ROLLOUTS, rollout(fresh(), offline="Panic", version="latest"))
        assert causes == {("spec.offline", "FieldValueNotSupported"), UNCHECKED}
        causes = api.causes("POST", ROLLOUTS, rollout(fresh(), concurrency=0, version="latest"))
        assert causes == {("spec.concurrency", "FieldValueInvalid"), ("spec.version", "FieldValueInvalid")}

    def test_types_of_built_in_kinds(self, api: Api) -> None:
        for path, body in (
            (CONFIGMAPS, {**configmap(fresh()), "data": {"a": 1}}),
            (CONFIGMAPS, {**configmap(fresh()), "data": ["a"]}),
            (NODES, {**node(fresh()), "spec": {"unschedulable": "yes"}}),
            (NODES, {**node(fresh()), "spec": "text"}),
            (NODES, {**node(fresh()), "status": {"conditions": {"type": "Ready"}}}),
            (LEASES, {**lease(fresh(), "me"), "spec": {"leaseDurationSeconds": "15"}}),
            (LEASES, {**lease(fresh(), "me"), "spec": {"renewTime": "yesterday"}}),
        ):
            api.refused(400, "BadRequest", "POST", path, body)

    def test_rules_about_changes(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh(), retry=2))
        path = f"{ROLLOUTS}/{made['metadata']['name']}"
        assert api.causes("PATCH", path, {"spec": {"version": "v1.3"}}, media=MERGE_PATCH) == {
            ("spec.version", "FieldValueInvalid")
        }
        status = api.refused(422, "Invalid", "PATCH", path, {"spec": {"retry": 1}}, media=MERGE_PATCH)
        (cause,) = status["details"]["causes"]
        assert cause == {"field": "spec.retry", "reason": "FieldValueForbidden", "message": "Forbidden: may only grow"}
        assert api.patch(path, {"spec": {"retry": 3, "suspend": True}})["spec"]["retry"] == 3

    def test_rules_about_the_spec_do_not_hold_up_other_writes(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}"
        assert api.patch(path, {"metadata": {"labels": {"a": "b"}}})["metadata"]["labels"] == {"a": "b"}
        assert api.patch(f"{path}/status", {"status": {"phase": "InProgress"}})["status"]["phase"] == "InProgress"
