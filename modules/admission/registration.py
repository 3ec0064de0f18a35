"""How the API server learns of the webhook: two webhook configurations and the CRD's stanza `conversion`. Pure.

The objects themselves are shipped (`configs/webhooks.yaml`, `configs/crd/`), for then they go with the installation;
this process only keeps where and whom to trust in them right, by merge patches of those three objects, so it needs no
right to create any. A test, or a console outside a cluster, makes whole objects with `configurations`.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from beehive.api.crd import CONVERT_PATH, SERVICE
from beehive.api.crd import NAME as CRD
from beehive.api.nodeupgradejob import GROUP, PLURAL, VERSION
from beehive.messages.objects import PatchObject
from modules.admission.config import Register

VALIDATE_PATH, MUTATE_PATH = "/validate", "/mutate"
VALIDATING, MUTATING = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"
_REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SECONDS = 5
NAME = "beehive"

Client = Mapping[str, Any]


def client_of(register: Register, path: str) -> dict[str, Any] | None:
    """The `clientConfig` without its CA; None where nothing is to be registered."""
    if register.url:
        return {"url": register.url.rstrip("/") + path}
    if register.service:
        place = {"name": register.service, "namespace": register.namespace, "port": register.service_port}
        return {"service": {**place, "path": path}}
    return None


def service_names(register: Register) -> tuple[str, ...]:
    """DNS names under which the API server calls a Service."""
    return (f"{register.service}.{register.namespace}.svc",) if register.service else ()


def trusting(client: Client, cas: Sequence[bytes]) -> dict[str, Any]:
    """The client that trusts these CAs (PEM)."""
    bundle = b"".join(ca.rstrip() + b"\n" for ca in dict.fromkeys(cas))
    return {**client, "caBundle": base64.b64encode(bundle).decode()}


def webhooks(kind: str, client: Client) -> list[dict[str, Any]]:
    """Our one webhook. `Ignore`: with it down jobs are still taken, and judged by the schema and the controller.

    v1alpha1 requests come too, converted (`Equivalent`). Defaults are for new jobs only.
    """
    validating = kind == VALIDATING
    more = {} if validating else {"reinvocationPolicy": "Never"}
    return [
        {
            "name": f"{PLURAL}.{'admission' if validating else 'defaults'}.beehive",
            "clientConfig": dict(client),
            "rules": [
                {
                    "apiGroups": [GROUP],
                    "apiVersions": [VERSION],
                    "operations": ["CREATE", "UPDATE"] if validating else ["CREATE"],
                    "resources": [PLURAL],
                    "scope": "Cluster",
                }
            ],
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": _SECONDS,
            "admissionReviewVersions": ["v1"],
            **more,
        }
    ]


def configuration(kind: str, name: str, client: Client) -> dict[str, Any]:
    """A whole webhook configuration; `client` is its clientConfig."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": webhooks(kind, client),
    }


def patches(register: Register, cas: Sequence[bytes]) -> tuple[PatchObject, ...]:
    """Keep all three right; none where nothing is to be registered."""
    made = []
    for kind, path in ((VALIDATING, VALIDATE_PATH), (MUTATING, MUTATE_PATH)):
        client = client_of(register, path)
        if client is not None:
            address = f"{_REGISTRATIONS}/{kind.lower()}s/{register.name}"
            made.append(PatchObject(path=address, patch={"webhooks": webhooks(kind, trusting(client, cas))}))
    client = client_of(register, CONVERT_PATH)
    if client is not None:
        whole = {"service": None, "url": None, **trusting(client, cas)}
        stanza = {"spec": {"conversion": {"webhook": {"clientConfig": whole}}}}
        made.append(PatchObject(path=f"{_DEFINITIONS}/{CRD}", patch=stanza))
    return tuple(made)


# ---- what is shipped -------------------------------------------------------------------------------------------------

_HEAD = """\
# The webhook: what a schema cannot say, warnings, defaults where the CRD has none. Made from the code, as the CRD is.
# Apply it beside configs/crd/ and configs/rbac.yaml: kubectl apply -f configs/webhooks.yaml
# The process fills in caBundle, here and in the CRD, when its configuration has admission.register.service.
"""


def shipped() -> str:
    """`configs/webhooks.yaml`: the Service in front of the cloud, and both configurations, without a caBundle."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE["name"], "namespace": SERVICE["namespace"]},
        "spec": {
            "selector": {"app.kubernetes.io/name": "beehive", "app.kubernetes.io/component": "cloud"},
            "ports": [{"name": "webhook", "port": SERVICE["port"], "targetPort": 9443}],
        },
    }
    objects = [service]
    for kind, path in ((VALIDATING, VALIDATE_PATH), (MUTATING, MUTATE_PATH)):
        objects.append(configuration(kind, NAME, {"service": {**SERVICE, "path": path}}))
    plain = [msgspec.json.decode(msgspec.json.encode(one)) for one in objects]  # YAML would give shared parts anchors
    return _HEAD + "---\n".join(msgspec.yaml.encode(one).decode() for one in plain)
