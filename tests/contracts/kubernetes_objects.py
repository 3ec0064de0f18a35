"""Contract: create, read, replace, delete."""

import base64
import re

from tests.contracts.api import CONFIGMAPS, EVENTS, LEASES, NODES, PODS, SECRETS, Api, configmap, fresh, lease, node
from tests.contracts.rollout import ROLLOUTS, rollout


class Objects:
    """Whole objects."""

    def test_create_gives_what_only_the_server_gives(self, api: Api) -> None:
        name = fresh()
        body = rollout(name)
        body["metadata"] |= {
            "uid": "mine",
            "generation": 7,
            "creationTimestamp": "2001-01-01T00:00:00Z",
            "deletionTimestamp": "2001-01-01T00:00:00Z",
        }
        made = api.make(ROLLOUTS, body)
        metadata = made["metadata"]
        assert metadata["name"] == name
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
        assert re.fullmatch(r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
        assert metadata["generation"] == 1
        assert int(metadata["resourceVersion"]) > 0
        assert "deletionTimestamp" not in metadata
        assert "namespace" not in metadata
        assert api.get(f"{ROLLOUTS}/{name}") == made

    def test_built_in_kinds_have_no_generation(self, api: Api) -> None:
        for path, body in ((NODES, node(fresh())), (CONFIGMAPS, configmap(fresh())), (LEASES, lease(fresh(), "me"))):
            assert "generation" not in api.make(path, body)["metadata"]

    def test_a_taken_name_is_refused(self, api: Api) -> None:
        name = fresh()
        api.make(ROLLOUTS, rollout(name))
        status = api.refused(409, "AlreadyExists", "POST", ROLLOUTS, rollout(name))
        assert status["message"] == f'rollouts.contract.test "{name}" already exists'
        assert status["details"] == {"name": name, "group": "contract.test", "kind": "rollouts"}

    def test_what_does_not_exist_is_not_found(self, api: Api) -> None:
        name = fresh()
        status = api.refused(404, "NotFound", "GET", f"{ROLLOUTS}/{name}")
        assert status["message"] == f'rollouts.contract.test "{name}" not found'
        assert status["details"] == {"name": name, "group": "contract.test", "kind": "rollouts"}
        assert api.refused(404, "NotFound", "GET", f"{NODES}/{name}")["details"] == {"name": name, "kind": "nodes"}
        api.refused(404, "NotFound", "DELETE", f"{ROLLOUTS}/{name}")
        put = rollout(name)
        put["metadata"]["resourceVersion"] = "1"
        api.refused(404, "NotFound", "PUT", f"{ROLLOUTS}/{name}", put)
        api.refused(404, "NotFound", "PATCH", f"{ROLLOUTS}/{name}", {}, media="application/merge-patch+json")

    def test_a_generated_name(self, api: Api) -> None:
        body = rollout("")
        body["metadata"] = {"generateName": "contract-"}
        names = {api.make(ROLLOUTS, body)["metadata"]["name"] for _ in range(3)}
        assert len(names) == 3
        assert all(re.fullmatch(r"contract-[a-z0-9]{5}", name) for name in names)

    def test_neither_name_nor_prefix(self, api: Api) -> None:
        body = rollout("")
        body["metadata"] = {}
        assert ("metadata.name", "FieldValueRequired") in api.causes("POST", ROLLOUTS, body)

    def test_a_new_object_brings_no_version(self, api: Api) -> None:
        body = rollout(fresh())
        body["metadata"]["resourceVersion"] = "1"
        assert api.request("POST", ROLLOUTS, body).status_code == 500

    def test_another_kind_or_version_in_the_body(self, api: Api) -> None:
        assert api.causes("POST", ROLLOUTS, {**rollout(fresh()), "kind": "Other"}) == {("kind", "FieldValueInvalid")}
        for change in ({"apiVersion": "contract.test/v9"}, {"kind": ""}):
            api.refused(400, "BadRequest", "POST", ROLLOUTS, {**rollout(fresh()), **change})
        api.refused(400, "BadRequest", "POST", CONFIGMAPS, {**configmap(fresh()), "kind": "Secret"})

    def test_built_in_bodies_need_no_kind(self, api: Api) -> None:
        made = api.make(CONFIGMAPS, {"metadata": {"name": fresh()}})
        assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")

    def test_names_are_checked(self, api: Api) -> None:
        for wrong in ("Upper", "-a", "a_b", "a..b", "ä", "x" * 254, "a\n"):
            assert ("metadata.name", "FieldValueInvalid") in api.causes("POST", ROLLOUTS, rollout(wrong))

    def test_labels_and_annotations_are_checked(self, api: Api) -> None:
        for labels in ({"a b": "c"}, {"a": "no spaces"}, {"a": "x" * 64}, {"/a": ""}, {"a/b/c": ""}):
            body = rollout(fresh())
            body["metadata"]["labels"] = labels
            assert ("metadata.labels", "FieldValueInvalid") in api.causes("POST", ROLLOUTS, body)
        body = rollout(fresh())
        body["metadata"]["annotations"] = {"a": "x" * (256 * 1024)}
        assert ("metadata.annotations", "FieldValueTooLong") in api.causes("POST", ROLLOUTS, body)

    def test_metadata_of_wrong_types(self, api: Api) -> None:
        for metadata in ({"labels": {"a": 1}}, {"labels": ["a"]}, {"finalizers": "a"}):
            body = rollout(fresh())
            body["metadata"] |= metadata
            api.refused(400, "BadRequest", "POST", ROLLOUTS, body)

    def test_namespaces(self, api: Api) -> None:
        status = api.refused(404, "NotFound", "POST", "/api/v1/namespaces/no-such/configmaps", configmap(fresh()))
        assert status["message"] == 'namespaces "no-such" not found'
        other = configmap(fresh())
        other["metadata"]["namespace"] = "kube-system"
        api.refused(400, "BadRequest", "POST", CONFIGMAPS, other)
        assert api.make(CONFIGMAPS, configmap(fresh()))["metadata"]["namespace"] == "default"
        name = fresh("ns")
        made = api.make("/api/v1/namespaces", {"metadata": {"name": name}})
        assert made["status"]["phase"] == "Active"
        assert api.make(f"/api/v1/namespaces/{name}/configmaps", configmap("a"))["metadata"]["namespace"] == name

    def test_replace_needs_the_version_that_is_stored(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}"
        replaced = api.ok("PUT", path, {**made, "spec": {**made["spec"], "suspend": True}})
        assert int(replaced["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
        status = api.refused(409, "Conflict", "PUT", path, made)
        assert "the object has been modified; please apply your changes to the latest version" in status["message"]
        assert status["details"] == {"name": made["metadata"]["name"], "group": "contract.test", "kind": "rollouts"}

    def test_replace_without_a_version(self, api: Api) -> None:
        name = fresh()
        api.make(ROLLOUTS, rollout(name))
        api.make(CONFIGMAPS, configmap(name))
        api.make(LEASES, lease(name, "me"))
        assert api.causes("PUT", f"{ROLLOUTS}/{name}", rollout(name)) == {
            ("metadata.resourceVersion", "FieldValueInvalid")
        }
        assert api.ok("PUT", f"{CONFIGMAPS}/{name}", configmap(name, a="b"))["data"] == {"a": "b"}
        assert api.causes("PUT", f"{LEASES}/{name}", lease(name, "you")) == {
            ("metadata.resourceVersion", "FieldValueInvalid")
        }

    def test_replace_another_object(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}"
        renamed = {**made, "metadata": {**made["metadata"], "name": fresh()}}
        api.refused(400, "BadRequest", "PUT", path, renamed)
        stranger = {**made, "metadata": {**made["metadata"], "uid": "11111111-2222-3333-4444-555555555555"}}
        api.refused(409, "Conflict", "PUT", path, stranger)

    def test_a_lease_is_made_by_replace(self, api: Api) -> None:
        name = fresh()
        answer = api.request("PUT", f"{LEASES}/{name}", lease(name, "me"))
        assert answer.status_code == 201
        api.ok("DELETE", f"{LEASES}/{name}")

    def test_two_holders_race_for_a_lease_and_one_wins(self, api: Api) -> None:
        made = api.make(LEASES, lease(fresh(), "nobody"))
        path = f"{LEASES}/{made['metadata']['name']}"
        mine, yours = ({**made, "spec": {**made["spec"], "holderIdentity": who}} for who in ("me", "you"))
        assert api.ok("PUT", path, mine)["spec"]["holderIdentity"] == "me"
        api.refused(409, "Conflict", "PUT", path, yours)
        assert api.get(path)["spec"]["holderIdentity"] == "me"

    def test_lease_values_are_checked(self, api: Api) -> None:
        body = lease(fresh(), "me")
        body["spec"]["leaseDurationSeconds"] = 0
        assert ("spec.leaseDurationSeconds", "FieldValueInvalid") in api.causes("POST", LEASES, body)

    def test_microseconds_of_a_lease_are_kept(self, api: Api) -> None:
        body = lease(fresh(), "me")
        body["spec"]["renewTime"] = "2026-01-02T03:04:05.123456Z"
        assert api.make(LEASES, body)["spec"]["renewTime"] == "2026-01-02T03:04:05.123456Z"

    def test_a_change_that_changes_nothing_makes_no_version(self, api: Api) -> None:
        for path, body in ((ROLLOUTS, rollout(fresh())), (CONFIGMAPS, configmap(fresh(), a="b"))):
            made = api.make(path, body)
            again = api.ok("PUT", f"{path}/{made['metadata']['name']}", made)
            assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    def test_delete_tells_what_was_deleted(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        status = api.ok("DELETE", f"{ROLLOUTS}/{name}")
        assert status["status"] == "Success"
        assert status["details"] == {"name": name, "group": "contract.test", "kind": "rollouts", "uid": uid}
        api.refused(404, "NotFound", "GET", f"{ROLLOUTS}/{name}")
        again = api.make(ROLLOUTS, rollout(name))
        assert again["metadata"]["uid"] != uid

    def test_delete_of_another_than_was_meant(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}"
        for wrong in ({"uid": "11111111-2222-3333-4444-555555555555"}, {"resourceVersion": "1"}):
            api.refused(409, "Conflict", "DELETE", path, {"preconditions": wrong})
        right = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
        assert api.ok("DELETE", path, {"preconditions": right})["status"] == "Success"

    def test_finalizers_hold_a_deleted_object(self, api: Api) -> None:
        body = rollout(fresh())
        body["metadata"]["finalizers"] = ["contract.test/hold"]
        path = f"{ROLLOUTS}/{body['metadata']['name']}"
        made = api.make(ROLLOUTS, body)
        marked = api.ok("DELETE", path)
        assert marked["kind"] == "Rollout"
        assert marked["metadata"]["deletionTimestamp"].endswith("Z")
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
        assert marked["metadata"]["generation"] == made["metadata"]["generation"] + 1
        assert api.ok("DELETE", path)["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
        api.refused(409, "AlreadyExists", "POST", ROLLOUTS, body)
        more = {"metadata": {"finalizers": ["contract.test/hold", "contract.test/more"]}}
        causes = api.causes("PATCH", path, more, media="application/merge-patch+json")
        assert causes == {("metadata.finalizers", "FieldValueForbidden")}
        last = api.patch(path, {"metadata": {"finalizers": None}})
        assert last["metadata"]["uid"] == made["metadata"]["uid"]
        api.refused(404, "NotFound", "GET", path)

    def test_finalizers_that_are_removed_by_and_by(self, api: Api) -> None:
        body = rollout(fresh())
        body["metadata"]["finalizers"] = ["contract.test/a", "contract.test/b"]
        path = f"{ROLLOUTS}/{body['metadata']['name']}"
        api.make(ROLLOUTS, body)
        api.ok("DELETE", path)
        api.patch(path, [{"op": "remove", "path": "/metadata/finalizers/0"}], "application/json-patch+json")
        assert api.get(path)["metadata"]["finalizers"] == ["contract.test/b"]
        api.patch(path, [{"op": "remove", "path": "/metadata/finalizers/0"}], "application/json-patch+json")
        api.refused(404, "NotFound", "GET", path)

    def test_dry_runs_leave_nothing(self, api: Api) -> None:
        name = fresh()
        assert api.request("POST", ROLLOUTS, rollout(name), dryRun="All").status_code == 201
        api.refused(404, "NotFound", "GET", f"{ROLLOUTS}/{name}")
        made = api.make(ROLLOUTS, rollout(name))
        assert api.patch(f"{ROLLOUTS}/{name}", {"spec": {"suspend": True}}, dryRun="All")["spec"]["suspend"] is True
        api.ok("DELETE", f"{ROLLOUTS}/{name}", dryRun="All")
        assert api.get(f"{ROLLOUTS}/{name}") == made

    def test_delete_of_a_collection(self, api: Api) -> None:
        group = fresh()
        for i in range(3):
            api.make(CONFIGMAPS, configmap(f"{group}-{i}", {"group": group, "odd": str(i % 2)}))
        api.ok("DELETE", CONFIGMAPS, labelSelector=f"group={group},odd=0")
        left = api.get(CONFIGMAPS, labelSelector=f"group={group}")["items"]
        assert [item["metadata"]["name"] for item in left] == [f"{group}-1"]

    def test_secrets(self, api: Api) -> None:
        name = fresh()
        body = {
            "metadata": {"name": name},
            "stringData": {"token": "s3cret"},
            "data": {"other": base64.b64encode(b"x").decode()},
        }
        made = api.make(SECRETS, body)
        assert made["type"] == "Opaque"
        assert made["data"] == {"token": base64.b64encode(b"s3cret").decode(), "other": base64.b64encode(b"x").decode()}
        assert "stringData" not in made
        api.refused(400, "BadRequest", "POST", SECRETS, {"metadata": {"name": fresh()}, "data": {"a": "not base64!"}})

    def test_events_live_beside_what_they_are_about(self, api: Api) -> None:
        name = fresh()
        event = {
            "metadata": {"name": name},
            "involvedObject": {"kind": "Rollout", "apiVersion": "contract.test/v1", "name": "north"},
            "reason": "Started", "message": "5 nodes", "type": "Normal", "count": 1,
            "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:05Z",
            "source": {"component": "beehive"},
        }  # fmt: skip
        made = api.make(EVENTS, event)
        assert made["involvedObject"]["name"] == "north"
        assert api.patch(f"{EVENTS}/{name}", {"count": 2})["count"] == 2
        elsewhere = {
            **event,
            "metadata": {"name": fresh()},
            "involvedObject": {"kind": "Pod", "name": "a", "namespace": "other"},
        }
        causes = api.causes("POST", EVENTS, elsewhere)
        assert causes == {("involvedObject.namespace", "FieldValueInvalid")}

    def test_a_pod_is_labelled_and_found(self, api: Api) -> None:
        name = fresh()
        pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert api.make(PODS, pod)["status"]["phase"] == "Pending"
        api.patch(f"{PODS}/{name}", {"metadata": {"labels": {"contract": name}}})
        found = api.get(PODS, labelSelector=f"contract={name}")["items"]
        assert [item["metadata"]["name"] for item in found] == [name]
        assert ("spec.containers", "FieldValueRequired") in api.causes(
            "POST", PODS, {"metadata": {"name": fresh()}, "spec": {}}
        )
