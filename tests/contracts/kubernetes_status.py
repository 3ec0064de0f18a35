"""Contract: spec, status, generation, and who may change which."""

from tests.contracts.api import MERGE_PATCH, NODES, UNCHECKED, Api, fresh, node
from tests.contracts.rollout import ROLLOUTS, rollout


class Statuses:
    """The status subresource."""

    def test_create_drops_the_status_of_a_custom_resource(self, api: Api) -> None:
        assert "status" not in api.make(ROLLOUTS, {**rollout(fresh()), "status": {"phase": "Completed"}})

    def test_create_keeps_the_status_of_a_node(self, api: Api) -> None:
        status = {"nodeInfo": {"kubeletVersion": "v1.22.0"}, "conditions": [{"type": "Ready", "status": "True"}]}
        made = api.make(NODES, {**node(fresh()), "status": status})
        assert made["status"]["nodeInfo"]["kubeletVersion"] == "v1.22.0"

    def test_only_the_subresource_changes_status(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}"
        assert "status" not in api.patch(path, {"status": {"phase": "InProgress"}})
        after = api.patch(f"{path}/status", {"status": {"phase": "InProgress"}, "spec": {"suspend": True}})
        assert after["status"] == {"phase": "InProgress"}
        assert after["spec"] == made["spec"]
        replaced = api.ok("PUT", path, {**after, "status": {"phase": "Completed"}})
        assert replaced["status"] == {"phase": "InProgress"}
        assert replaced["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
        done = api.ok("PUT", f"{path}/status", {**after, "status": {"phase": "Completed"}, "spec": {}})
        assert (done["status"], done["spec"]) == ({"phase": "Completed"}, made["spec"])

    def test_the_subresource_of_a_custom_resource_leaves_metadata(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}/status"
        change = {
            "metadata": {"labels": {"a": "b"}, "finalizers": ["contract.test/x"]},
            "status": {"phase": "InProgress"},
        }
        after = api.patch(path, change)
        assert "labels" not in after["metadata"]
        assert "finalizers" not in after["metadata"]
        assert after["status"]["phase"] == "InProgress"

    def test_the_subresource_of_a_node_changes_metadata_too(self, api: Api) -> None:
        made = api.make(NODES, node(fresh()))
        path = f"{NODES}/{made['metadata']['name']}"
        condition = {"type": "EtcdIsVoter", "status": "True", "reason": "MemberNotLearner", "message": "x"}
        after = api.patch(
            f"{path}/status", {"metadata": {"annotations": {"a": "b"}}, "status": {"conditions": [condition]}}
        )
        assert after["metadata"]["annotations"] == {"a": "b"}
        assert [one["type"] for one in after["status"]["conditions"]] == ["EtcdIsVoter"]
        kept = api.patch(path, {"status": {"conditions": []}, "spec": {"unschedulable": True}})
        assert kept["spec"]["unschedulable"] is True
        assert [one["type"] for one in kept["status"]["conditions"]] == ["EtcdIsVoter"]

    def test_the_status_is_read_at_the_subresource(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        assert api.get(f"{ROLLOUTS}/{made['metadata']['name']}/status") == made

    def test_generation_counts_changes_of_the_spec(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}"
        generations = [
            api.patch(path, {"metadata": {"labels": {"a": "b"}}})["metadata"]["generation"],
            api.patch(f"{path}/status", {"status": {"phase": "InProgress"}})["metadata"]["generation"],
            api.patch(path, {"spec": {"suspend": True}})["metadata"]["generation"],
            api.patch(path, {"spec": {"suspend": True}})["metadata"]["generation"],
            api.patch(path, {"metadata": {"generation": 40}, "spec": {"suspend": False}})["metadata"]["generation"],
        ]
        assert generations == [1, 1, 2, 2, 3]

    def test_a_wrong_uid_on_the_subresource_is_not_noticed_by_merge(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}/status"
        stranger = {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}, "status": {"phase": "Completed"}}
        after = api.patch(path, stranger)
        assert after["metadata"]["uid"] == made["metadata"]["uid"]
        assert after["status"]["phase"] == "Completed"

    def test_a_wrong_uid_is_noticed_elsewhere(self, api: Api) -> None:
        stranger = "11111111-2222-3333-4444-555555555555"
        made = api.make(NODES, node(fresh()))
        path = f"{NODES}/{made['metadata']['name']}/status"
        causes = api.causes("PATCH", path, {"metadata": {"uid": stranger}, "status": {}}, media=MERGE_PATCH)
        assert causes == {("metadata.uid", "FieldValueInvalid")}
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}/status"
        api.refused(409, "Conflict", "PUT", path, {**made, "metadata": {**made["metadata"], "uid": stranger}})

    def test_a_stale_version_on_the_subresource(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}/status"
        api.patch(path, {"status": {"phase": "InProgress"}})
        version = made["metadata"]["resourceVersion"]
        stale = {"metadata": {"resourceVersion": version}, "status": {"phase": "Completed"}}
        api.refused(409, "Conflict", "PATCH", path, stale, media=MERGE_PATCH)
        api.refused(409, "Conflict", "PUT", path, {**made, "status": {"phase": "Completed"}})

    def test_the_status_is_held_to_the_schema(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}/status"
        wrong = {"status": {"phase": "Sideways", "failed": "two", "counts": {"a": "b"}}}
        assert api.causes("PATCH", path, wrong, media=MERGE_PATCH) == {
            ("status.phase", "FieldValueNotSupported"),
            ("status.failed", "FieldValueTypeInvalid"),
            ("status.counts.a", "FieldValueTypeInvalid"),
            UNCHECKED,
        }
        twice = {"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "A", "status": "False"}]}}
        assert ("status.conditions[1]", "FieldValueDuplicate") in api.causes("PATCH", path, twice, media=MERGE_PATCH)
