"""Contract: what happens to those who ask for a past that is forgotten."""

from tests.contracts.api import CONFIGMAPS, Api, Forget, configmap, fresh


class History:
    """410, in its three forms."""

    def test_a_watch_from_a_forgotten_version(self, api: Api, forget: Forget) -> None:
        version = api.get(CONFIGMAPS)["metadata"]["resourceVersion"]
        name = fresh()
        api.make(CONFIGMAPS, configmap(name))
        api.patch(f"{CONFIGMAPS}/{name}", {"data": {"a": "b"}})
        forget()
        with api.watch(CONFIGMAPS, resourceVersion=version) as events:
            error = next(events)
        assert error["type"] == "ERROR"
        assert (error["object"]["code"], error["object"]["reason"]) == (410, "Expired")
        assert error["object"]["kind"] == "Status"
        assert "too old resource version" in error["object"]["message"]

    def test_a_continue_token_from_a_forgotten_version(self, api: Api, forget: Forget) -> None:
        group = fresh()
        for i in range(3):
            api.make(CONFIGMAPS, configmap(f"{group}-{i}", {"group": group}))
        token = api.get(CONFIGMAPS, labelSelector=f"group={group}", limit="1")["metadata"]["continue"]
        api.patch(f"{CONFIGMAPS}/{group}-0", {"data": {"a": "b"}})
        forget()
        status = api.refused(
            410, "Expired", "GET", CONFIGMAPS, limit="1", labelSelector=f"group={group}", **{"continue": token}
        )
        assert "continue parameter is too old" in status["message"]

    def test_an_exact_version_that_is_forgotten(self, api: Api, forget: Forget) -> None:
        name = fresh()
        version = api.make(CONFIGMAPS, configmap(name))["metadata"]["resourceVersion"]
        api.patch(f"{CONFIGMAPS}/{name}", {"data": {"a": "b"}})
        forget()
        api.refused(410, "Expired", "GET", CONFIGMAPS, resourceVersion=version, resourceVersionMatch="Exact")

    def test_life_goes_on_after_it(self, api: Api, forget: Forget) -> None:
        made = api.make(CONFIGMAPS, configmap(fresh()))
        forget()
        path = f"{CONFIGMAPS}/{made['metadata']['name']}"
        assert api.get(path) == made
        with api.watch(CONFIGMAPS, resourceVersion=api.get(CONFIGMAPS)["metadata"]["resourceVersion"]) as events:
            changed = api.patch(path, {"data": {"a": "b"}})
            assert next(events) == {"type": "MODIFIED", "object": changed}
