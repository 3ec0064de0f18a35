"""Hypothesis strategies for NodeUpgradeJobs of both versions, as the API server would hand them over."""

from typing import Any

from hypothesis import strategies as st

DIGESTS = st.sampled_from(["sha256:" + "a" * 64, "sha256:" + "b" * 64, ""])
TEXTS = st.sampled_from(["", "because", "ünï \n", "2026-11-29T20:31:07Z", "v1.22.0"])
NAMES = st.sampled_from(["edge-a", "edge-b", "edge-c"])
ODD = st.sampled_from(["", "Successful", "upgrading", "completed", "Failed", "Checking", "BackingUp", "nonsense"])


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that have any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


REGISTRY = st.fixed_dictionaries({"host": st.just("r.io"), "token": st.sampled_from(["", "t"])})
SELECTORS = st.sampled_from([None, {}, {"matchLabels": {"a": "b"}}])
SHARED: dict[str, st.SearchStrategy[Any]] = {
    "nodeNames": st.none() | st.lists(NAMES, max_size=3),
    "labelSelector": SELECTORS,
    "image": TEXTS,
    "upgradeTool": TEXTS,
    "timeoutSeconds": st.integers(0, 9),
    "concurrency": st.integers(-1, 2),
    "failureTolerate": TEXTS,
    "checkItems": st.none() | st.just(["cpu"]),
    "requireConfirmation": st.booleans(),
}
VERSION = {"version": st.sampled_from(["v1.23.1", "1.12.1", "latest"])}

_CONDITIONS = st.sampled_from([None, [], [{"type": "Complete", "status": "False"}]])
_FLOW = st.lists(
    st.fixed_dictionaries(
        {
            "action": st.sampled_from(["Check", "Upgrade", "RollBack"]),
            "status": st.sampled_from(["True", "False"]),
        },
        optional={"reason": TEXTS, "time": TEXTS},
    ),
    max_size=2,
)
_ENTRY2 = st.fixed_dictionaries(
    {
        "nodeName": NAMES,
        "phase": st.sampled_from(["Pending", "InProgress", "Successful", "Failure", "Unknown", "Skipped", "odd"]),
    },
    optional={
        "reasonCode": st.sampled_from(["", "RolledBack", "RollbackFailed", "NotFound", "WaitingConfirmation"]),
        "reason": TEXTS,
        "actionFlow": st.none() | _FLOW,
        "historicVersion": TEXTS,
        "currentVersion": TEXTS,
        "attempt": st.integers(0, 2),
        "revision": st.integers(0, 9),
        "since": TEXTS,
    },
)
STATUS2 = st.fixed_dictionaries(
    {"phase": st.sampled_from(["", "Init", "InProgress", "Completed", "Failure"])},
    optional={
        "reason": TEXTS,
        "total": st.integers(0, 3),
        "done": TEXTS,
        "conditions": _CONDITIONS,
        "nodeStatus": st.none() | st.lists(_ENTRY2, max_size=3),
    },
)
SPEC2 = st.fixed_dictionaries(
    VERSION,
    optional={
        **SHARED,
        "imageDigestGatter": st.none()
        | some(amd64=DIGESTS, arm64=DIGESTS, digests=st.just({"riscv64": "sha256:" + "c" * 64}), registryAPI=REGISTRY),
        "onOffline": st.sampled_from(["Skip", "Wait"]),
        "allowDowngrade": st.booleans(),
        "suspend": st.booleans(),
        "abort": st.booleans(),
        "retry": st.integers(0, 2),
    },
)

_HISTORY = some(
    historyID=TEXTS,
    fromVersion=TEXTS,
    toVersion=TEXTS,
    result=st.sampled_from(
        ["", "upgrade_success", "upgrade_failed_rollback_success", "upgrade_failed_rollback_failed", "odd"]
    ),
    reason=TEXTS,
    upgradeTime=TEXTS,
)
_ENTRY1 = st.fixed_dictionaries({"nodeName": NAMES}, optional={"state": ODD, "history": st.none() | _HISTORY})
_KUBEEDGE = st.fixed_dictionaries(
    {"nodeName": NAMES}, optional={"state": ODD, "event": TEXTS, "action": TEXTS, "reason": TEXTS, "time": TEXTS}
)
STATUS1 = some(
    state=ODD,
    reason=TEXTS,
    status=st.none() | st.lists(_ENTRY1, max_size=3),
    nodeStatus=st.none() | st.lists(_KUBEEDGE, max_size=3),
    event=TEXTS,
    action=TEXTS,
    time=TEXTS,
)
SPEC1 = st.fixed_dictionaries(
    VERSION,
    optional={**SHARED, "imageDigestGatter": st.none() | some(value=DIGESTS, registryAPI=REGISTRY)},
)

_META = st.fixed_dictionaries(
    {"name": st.just("j"), "uid": st.sampled_from(["", "8584110f"])},
    optional={
        "annotations": st.just({"mine": "stays"}),
        "labels": st.just({"a": "b"}),
        "managedFields": st.just([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]),
        "creationTimestamp": st.none(),
    },
)


def job(version: str, spec: st.SearchStrategy[Any], status: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {
            "apiVersion": st.just(f"operations.kubeedge.io/{version}"),
            "kind": st.just("NodeUpgradeJob"),
            "metadata": _META,
            "spec": spec,
        },
        optional={"status": status},
    )


JOBS1 = job("v1alpha1", SPEC1, STATUS1)
JOBS2 = job("v1alpha2", SPEC2, STATUS2)
