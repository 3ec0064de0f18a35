"""Contract: watches."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contracts.api import CONFIGMAPS, Api, configmap, fresh
from tests.contracts.rollout import ROLLOUTS, rollout

Object = dict[str, Any]


def _told(event: Object) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def _take(events: Iterator[Object], count: int) -> list[tuple[str, str]]:
    return [_told(next(events)) for _ in range(count)]


class Watches:
    """Streams of changes."""

    def test_from_a_version_on(self, api: Api) -> None:
        name = fresh()
        version = api.get(ROLLOUTS)["metadata"]["resourceVersion"]
        made = api.make(ROLLOUTS, rollout(name))
        with api.watch(ROLLOUTS, resourceVersion=version) as events:
            first = next(events)
            assert first == {"type": "ADDED", "object": made}
            changed = api.patch(f"{ROLLOUTS}/{name}/status", {"status": {"phase": "InProgress"}})
            assert next(events) == {"type": "MODIFIED", "object": changed}
            api.ok("DELETE", f"{ROLLOUTS}/{name}")
            last = next(events)
        assert last["type"] == "DELETED"
        assert last["object"]["status"] == {"phase": "InProgress"}
        assert int(last["object"]["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])

    @pytest.mark.parametrize("version", ["", "0"])
    def test_without_a_version_it_begins_with_what_there_is(self, api: Api, version: str) -> None:
        group = fresh()
        for letter in "ab":
            api.make(CONFIGMAPS, configmap(f"{group}-{letter}", {"group": group}))
        with api.watch(CONFIGMAPS, labelSelector=f"group={group}", resourceVersion=version) as events:
            assert sorted(_take(events, 2)) == [("ADDED", f"{group}-a"), ("ADDED", f"{group}-b")]
            api.make(CONFIGMAPS, configmap(f"{group}-c", {"group": group}))
            assert _told(next(events)) == ("ADDED", f"{group}-c")

    def test_every_change_is_told_once_and_in_order(self, api: Api) -> None:
        group = fresh()
        version = api.get(CONFIGMAPS)["metadata"]["resourceVersion"]
        with api.watch(CONFIGMAPS, resourceVersion=version, labelSelector=f"group={group}") as events:
            api.make(CONFIGMAPS, configmap(group, {"group": group}, n="0"))
            for i in range(1, 20):
                api.patch(f"{CONFIGMAPS}/{group}", {"data": {"n": str(i)}})
            seen = [next(events) for _ in range(20)]
        assert [event["object"]["data"]["n"] for event in seen] == [str(i) for i in range(20)]
        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
        assert versions == sorted(set(versions))

    def test_a_selector_makes_objects_come_and_go(self, api: Api) -> None:
        group = fresh()
        version = api.get(CONFIGMAPS)["metadata"]["resourceVersion"]
        with api.watch(CONFIGMAPS, resourceVersion=version, labelSelector=f"group={group}") as events:
            api.make(CONFIGMAPS, configmap(group))
            path = f"{CONFIGMAPS}/{group}"
            api.patch(path, {"metadata": {"labels": {"group": group}}})
            assert _told(next(events)) == ("ADDED", group)
            api.patch(path, {"data": {"a": "b"}})
            assert _told(next(events)) == ("MODIFIED", group)
            moved = api.patch(path, {"metadata": {"labels": {"group": "other"}}})
            left = next(events)
            assert _told(left) == ("DELETED", group)
            assert left["object"]["metadata"]["labels"] == {"group": group}, "as it was when it still matched"
            assert left["object"]["metadata"]["resourceVersion"] == moved["metadata"]["resourceVersion"]
            api.patch(path, {"metadata": {"labels": {"group": group}}})
            assert _told(next(events)) == ("ADDED", group)

    def test_one_object_by_name(self, api: Api) -> None:
        name = fresh()
        version = api.get(CONFIGMAPS)["metadata"]["resourceVersion"]
        with api.watch(CONFIGMAPS, resourceVersion=version, fieldSelector=f"metadata.name={name}") as events:
            api.make(CONFIGMAPS, configmap(fresh()))
            api.make(CONFIGMAPS, configmap(name))
            assert _told(next(events)) == ("ADDED", name)

    def test_one_namespace(self, api: Api) -> None:
        name = fresh()
        version = api.get(CONFIGMAPS)["metadata"]["resourceVersion"]
        with api.watch(CONFIGMAPS, resourceVersion=version) as events:
            api.make("/api/v1/namespaces/kube-system/configmaps", configmap(fresh()))
            api.make(CONFIGMAPS, configmap(name))
            assert _told(next(events)) == ("ADDED", name)

    def test_a_marked_object_is_told_as_modified(self, api: Api) -> None:
        body = rollout(fresh())
        body["metadata"]["finalizers"] = ["contract.test/hold"]
        made = api.make(ROLLOUTS, body)
        path = f"{ROLLOUTS}/{made['metadata']['name']}"
        with api.watch(
            ROLLOUTS,
            resourceVersion=made["metadata"]["resourceVersion"],
            fieldSelector=f"metadata.name={made['metadata']['name']}",
        ) as events:
            api.ok("DELETE", path)
            marked = next(events)
            assert marked["type"] == "MODIFIED"
            assert "deletionTimestamp" in marked["object"]["metadata"]
            api.patch(path, {"metadata": {"finalizers": []}})
            gone = next(events)
            assert gone["type"] == "DELETED"
            assert gone["object"]["metadata"]["finalizers"] == ["contract.test/hold"], "as it was stored"

    def test_it_ends_when_its_time_is_up(self, api: Api) -> None:
        version = api.get(CONFIGMAPS)["metadata"]["resourceVersion"]
        began = time.monotonic()
        with api.watch(CONFIGMAPS, resourceVersion=version, timeoutSeconds="1") as events:
            assert [event for event in events if event["type"] == "ERROR"] == []
        assert 0.5 <= time.monotonic() - began < 10

    def test_bookmarks_only_for_those_who_want_them(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        path = f"{ROLLOUTS}/{made['metadata']['name']}"
        version = made["metadata"]["resourceVersion"]
        query = {"resourceVersion": version, "timeoutSeconds": "4", "labelSelector": "nobody=here"}
        with (
            api.watch(ROLLOUTS, allowWatchBookmarks="true", **query) as marked,
            api.watch(ROLLOUTS, **query) as unmarked,
        ):
            changed = api.patch(path, {"metadata": {"labels": {"a": "b"}}})
            marks = list(marked)
            assert list(unmarked) == []
        assert {event["type"] for event in marks} == {"BOOKMARK"}
        last = marks[-1]["object"]
        assert (last["kind"], last["apiVersion"]) == ("Rollout", "contract.test/v1")
        assert int(last["metadata"]["resourceVersion"]) >= int(changed["metadata"]["resourceVersion"])

    def test_a_list_by_watch(self, api: Api) -> None:
        name = api.make(ROLLOUTS, rollout(fresh()))["metadata"]["name"]
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        with api.watch(ROLLOUTS, fieldSelector=f"metadata.name={name}", **query) as events:
            assert _told(next(events)) == ("ADDED", name)
            mark = next(events)
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
