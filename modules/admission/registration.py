"""How the API server learns of the webhook: a ValidatingWebhookConfiguration. Pure.

The object itself is shipped with the installation, for then it goes with it; this process only keeps its `webhooks`
right (our CA above all) by a merge patch of that one object, so it needs no right to create any. A test, or a console
outside a cluster, makes the whole object with `configuration`.
"""

import base64
from typing import Any

from beehive.api.nodeupgradejob import GROUP, PLURAL, VERSION
from beehive.messages.objects import PatchObject
from modules.admission.config import Register

WEBHOOK = "nodeupgradejobs.admission.beehive"
PATH = "/validate"
_COLLECTION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_SECONDS = 5


def client_of(register: Register) -> dict[str, Any] | None:
    """The `clientConfig` without its CA; None where nothing is to be registered."""
    if register.url:
        return {"url": register.url.rstrip("/") + PATH}
    if register.service:
        place = {"name": register.service, "namespace": register.namespace, "port": register.service_port}
        return {"service": {**place, "path": PATH}}
    return None


def service_names(register: Register) -> tuple[str, ...]:
    """DNS names under which the API server calls a Service."""
    return (f"{register.service}.{register.namespace}.svc",) if register.service else ()


def webhooks(client: dict[str, Any], ca: bytes) -> list[dict[str, Any]]:
    """Our one webhook. `Ignore`: with it down jobs are still taken, and judged by the schema and the controller."""
    return [
        {
            "name": WEBHOOK,
            "clientConfig": {**client, "caBundle": base64.b64encode(ca).decode()},
            "rules": [
                {
                    "apiGroups": [GROUP],
                    "apiVersions": [VERSION],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [PLURAL],
                    "scope": "Cluster",
                }
            ],
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": _SECONDS,
            "admissionReviewVersions": ["v1"],
        }
    ]


def configuration(name: str, client: dict[str, Any], ca: bytes) -> dict[str, Any]:
    """The whole object."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": webhooks(client, ca),
    }


def patch(register: Register, ca: bytes) -> PatchObject | None:
    """Keep the registration right; None where nothing is to be registered."""
    client = client_of(register)
    if client is None:
        return None
    return PatchObject(path=f"{_COLLECTION}/{register.name}", patch={"webhooks": webhooks(client, ca)})
