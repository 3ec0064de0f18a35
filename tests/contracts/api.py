"""A client of a Kubernetes API server that tidies up behind a test."""

import json
import ssl
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import httpx

Object = dict[str, Any]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
AS_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

NODES: Final = "/api/v1/nodes"
SECRETS: Final = "/api/v1/namespaces/default/secrets"
CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
EVENTS: Final = "/api/v1/namespaces/default/events"
PODS: Final = "/api/v1/namespaces/default/pods"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
BUILT_IN: Final = (NODES, SECRETS, CONFIGMAPS, EVENTS, PODS, LEASES)

UNCHECKED: Final = ("<nil>", "FieldValueInvalid")
"""The cause that says that CEL rules were not looked at, because the object is too wrong for them."""


class Api:
    """Requests, with assertions on their status; names that nobody else uses."""

    def __init__(self, client: httpx.Client, trust: ssl.SSLContext) -> None:
        self.client = client
        self.trust = trust
        self._made: list[str] = []

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        media: str = "application/json",
        accept: str = "application/json",
        **query: str,
    ) -> httpx.Response:
        """One request; the body is sent as JSON, bytes as they are."""
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept, **({} if content is None else {"Content-Type": media})}
        answer = self.client.request(method, path, content=content, headers=headers, params=query)
        if method == "POST" and answer.status_code == 201 and "dryRun" not in query:
            self._made.append(f"{path}/{answer.json()['metadata']['name']}")
        return answer

    def ok(self, method: str, path: str, body: object = None, **options: str) -> Object:
        """The answer's body; any status but 200 and 201 fails the test."""
        answer = self.request(method, path, body, **options)
        assert answer.status_code in {200, 201}, answer.text
        return answer.json()  # type: ignore[no-any-return]

    def refused(self, code: int, reason: str, method: str, path: str, body: object = None, **options: str) -> Object:
        """The Status with which the request is refused; another code or reason fails the test."""
        answer = self.request(method, path, body, **options)
        status = answer.json()
        assert (answer.status_code, status.get("reason", "")) == (code, reason), answer.text
        assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
        assert status["code"] == code
        return status  # type: ignore[no-any-return]

    def make(self, path: str, body: Mapping[str, Any]) -> Object:
        """A new object."""
        return self.ok("POST", path, body)

    def get(self, path: str, **query: str) -> Object:
        """An object or list."""
        return self.ok("GET", path, **query)

    def patch(self, path: str, body: object, media: str = MERGE_PATCH, **query: str) -> Object:
        """The object after a patch."""
        return self.ok("PATCH", path, body, media=media, **query)

    def causes(self, method: str, path: str, body: object, **options: str) -> set[tuple[str, str]]:
        """(field, reason) of each cause for which the request is refused as Invalid."""
        status = self.refused(422, "Invalid", method, path, body, **options)
        return {(cause.get("field", ""), cause["reason"]) for cause in status["details"]["causes"]}

    @contextmanager
    def watch(self, path: str, **query: str) -> Iterator[Iterator[Object]]:
        """The events of a watch; waiting for the next one fails after 15 s."""
        parameters = {"watch": "true", **query}
        with self.client.stream("GET", path, params=parameters, timeout=httpx.Timeout(15)) as answer:
            assert answer.status_code == 200, answer.read()
            yield (json.loads(line) for line in answer.iter_lines())

    def tidy(self) -> None:
        """Delete what was made through this client."""
        for path in reversed(self._made):
            if self.request("PATCH", path, {"metadata": {"finalizers": None}}, media=MERGE_PATCH).status_code == 200:
                self.request("DELETE", path, {"gracePeriodSeconds": 0})
        self._made.clear()


def fresh(prefix: str = "c") -> str:
    """A name that nobody else uses."""
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


def configmap(name: str, labels: Mapping[str, str] | None = None, **data: str) -> Object:
    """A ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "data": data,
    }


def node(name: str, **labels: str) -> Object:
    """A Node."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def lease(name: str, holder: str) -> Object:
    """A Lease."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}


Forget = Callable[[], None]
