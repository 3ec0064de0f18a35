"""Contract: lists, selectors, pages."""

from typing import Any

import pytest

from tests.contracts.api import CONFIGMAPS, EVENTS, NODES, Api, configmap, fresh, node
from tests.contracts.rollout import ROLLOUTS, rollout


def _names(listed: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


class Lists:
    """Many objects at once."""

    def test_a_list_has_its_kind_and_a_version(self, api: Api) -> None:
        made = api.make(ROLLOUTS, rollout(fresh()))
        listed = api.get(ROLLOUTS)
        assert (listed["kind"], listed["apiVersion"]) == ("RolloutList", "contract.test/v1")
        assert int(listed["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
        assert made in listed["items"]

    def test_items_come_in_the_order_of_names(self, api: Api) -> None:
        group = fresh()
        for letter in "cab":
            api.make(CONFIGMAPS, configmap(f"{group}-{letter}", {"group": group}))
        assert _names(api.get(CONFIGMAPS, labelSelector=f"group={group}")) == [f"{group}-{letter}" for letter in "abc"]

    def test_across_namespaces(self, api: Api) -> None:
        group, other = fresh(), "/api/v1/namespaces/kube-system/configmaps"
        api.make(CONFIGMAPS, configmap(f"{group}-a", {"group": group}))
        api.make(other, configmap(f"{group}-b", {"group": group}))
        assert _names(api.get("/api/v1/configmaps", labelSelector=f"group={group}")) == [f"{group}-a", f"{group}-b"]
        assert _names(api.get(other, labelSelector=f"group={group}")) == [f"{group}-b"]

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("size=1", "a"), ("size==1", "a"), ("size!=1", "bc"), ("size in (1, 2)", "ab"), ("size notin (1,2)", "c"),
            ("size", "ab"), ("!size", "c"), ("size>1", "b"), ("size<2", "a"), ("size,size!=2", "a"), ("x/y=", ""),
            ("contract.test/z", "c"), ("size in (3)", ""),
        ],
    )  # fmt: skip
    def test_label_selectors(self, api: Api, selector: str, expected: str) -> None:
        group = fresh()
        for letter, labels in {"a": {"size": "1"}, "b": {"size": "2"}, "c": {"contract.test/z": ""}}.items():
            api.make(CONFIGMAPS, configmap(f"{group}-{letter}", {"group": group, **labels}))
        assert _names(api.get(CONFIGMAPS, labelSelector=f"group={group},{selector}")) == [
            f"{group}-{one}" for one in expected
        ]

    def test_selectors_that_cannot_be_read(self, api: Api) -> None:
        for selector in ("a b", "a in b", "=", "a in (b"):
            api.refused(400, "BadRequest", "GET", CONFIGMAPS, labelSelector=selector)
        api.refused(400, "BadRequest", "GET", CONFIGMAPS, fieldSelector="data.a=b")
        api.refused(400, "BadRequest", "GET", ROLLOUTS, fieldSelector="spec.version=v1")

    def test_field_selectors(self, api: Api) -> None:
        first, second = fresh(), fresh()
        for name in (first, second):
            api.make(ROLLOUTS, rollout(name))
        assert _names(api.get(ROLLOUTS, fieldSelector=f"metadata.name={first}")) == [first]
        found = _names(api.get(ROLLOUTS, fieldSelector=f"metadata.name!={first}"))
        assert second in found
        assert first not in found
        cordoned = node(fresh(), group=first)
        api.make(NODES, {**cordoned, "spec": {"unschedulable": True}})
        api.make(NODES, node(fresh(), group=first))
        by_flag = api.get(NODES, fieldSelector="spec.unschedulable=true", labelSelector=f"group={first}")
        assert _names(by_flag) == [cordoned["metadata"]["name"]]

    def test_events_about_one_object(self, api: Api) -> None:
        uid, name = fresh(), fresh()
        for i, about in enumerate((uid, uid, "other")):
            event = {
                "metadata": {"name": f"{name}-{i}"},
                "involvedObject": {"kind": "Node", "name": "edge-1", "uid": about},
            }
            api.make(EVENTS, {**event, "reason": "Started", "type": "Normal"})
        selector = f"involvedObject.uid={uid},involvedObject.kind=Node,reason=Started,type=Normal"
        assert _names(api.get("/api/v1/events", fieldSelector=selector)) == [f"{name}-0", f"{name}-1"]

    def test_pages_show_one_moment(self, api: Api) -> None:
        group = fresh()
        for i in range(5):
            api.make(CONFIGMAPS, configmap(f"{group}-{i}", {"group": group}))
        pages, token, version = [], "", ""
        while True:
            page = api.get(
                CONFIGMAPS, labelSelector=f"group={group}", limit="2", **({"continue": token} if token else {})
            )
            pages.append(_names(page))
            if len(pages) == 1:
                version = page["metadata"]["resourceVersion"]
                api.make(CONFIGMAPS, configmap(f"{group}-9", {"group": group}))
                api.ok("DELETE", f"{CONFIGMAPS}/{group}-3")
            assert page["metadata"]["resourceVersion"] == version
            token = page["metadata"].get("continue", "")
            if not token:
                break
        assert pages == [[f"{group}-0", f"{group}-1"], [f"{group}-2", f"{group}-3"], [f"{group}-4"]]

    def test_pages_tell_how_many_remain(self, api: Api) -> None:
        namespace = fresh("ns")
        api.make("/api/v1/namespaces", {"metadata": {"name": namespace}})
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        for i in range(3):
            api.make(path, configmap(f"c-{i}"))
        assert api.get(path, limit="1")["metadata"]["remainingItemCount"] == 2
        assert "continue" not in api.get(path, limit="3")["metadata"]

    def test_a_continue_token_that_is_none(self, api: Api) -> None:
        api.refused(400, "BadRequest", "GET", CONFIGMAPS, **{"continue": "nonsense"})

    def test_a_limit_that_is_none(self, api: Api) -> None:
        api.refused(400, "BadRequest", "GET", CONFIGMAPS, limit="few")

    def test_a_version_that_is_not_reached_yet(self, api: Api) -> None:
        version = int(api.get(CONFIGMAPS)["metadata"]["resourceVersion"]) + 100_000
        status = api.refused(
            504, "Timeout", "GET", CONFIGMAPS, resourceVersion=str(version), resourceVersionMatch="NotOlderThan"
        )
        assert "Too large resource version" in status["message"]
        assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"

    def test_any_version_will_do(self, api: Api) -> None:
        name = api.make(CONFIGMAPS, configmap(fresh()))["metadata"]["name"]
        version = api.get(f"{CONFIGMAPS}/{name}")["metadata"]["resourceVersion"]
        assert name in _names(api.get(CONFIGMAPS, resourceVersion=version))
        assert "items" in api.get(CONFIGMAPS, resourceVersion="0")
