"""`make bench NAME=decode`: what the API server sends and asks, read by us and by json; writes `.bench/decode.json`.

A list of 5,000 Nodes as a kubelet fills them (16 MB), the largest job, and what the webhook does with it.
"""

import asyncio
import copy
import json
import platform
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw

from beehive.api.convert import V1ALPHA1, V1ALPHA2, converted
from beehive.api.node import Node
from beehive.api.nodeupgradejob import NodeUpgradeJob
from benchmarks.measure import Case, interleaved, spread, table, write
from modules.admission.conversion import one_converted
from modules.admission.envelope import opened
from modules.admission.review import judge
from modules.informer.kinds import NODES, page_of

ROUNDS = 5
LIMITS = {
    "5,000 Nodes": 50_000.0,
    "convert to v1alpha1": 50_000.0,
    "convert to v1alpha2": 50_000.0,
    "convert to v1alpha2, one entry changed": 50_000.0,
    "review of 5,000 nodes": 100_000.0,
}
"""At most so many microseconds."""


def node(number: int) -> dict[str, Any]:
    """A Node of some 3.3 kB: labels, managedFields, conditions, images, as on a K3s agent."""
    name = f"edge-{number:05}"
    owned: dict[str, Any] = {f"f:key-{i}": {".": {}, "f:value": {}} for i in range(24)}
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    at = "2026-11-29T20:31:07Z"
    return {
        "metadata": {
            "name": name, "uid": f"8584110f-706f-4b29-bf3d-{number:012}", "resourceVersion": str(number),
            "creationTimestamp": at, "labels": {"kubernetes.io/hostname": name, "node-role.kubernetes.io/edge": "",
                                                "region": "north", **{f"example.com/{i}": "x" * 12 for i in range(8)}},
            "managedFields": [{"manager": "edgecore", "operation": "Update", "time": at, "fieldsV1": owned}],
        },
        "spec": {"podCIDR": "10.42.0.0/24"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
            "conditions": [{"type": kind, "status": "True" if kind == "Ready" else "False", "reason": f"{kind}Is",
                            "message": "kubelet has sufficient memory available", "lastHeartbeatTime": at,
                            "lastTransitionTime": at} for kind in kinds],
            "images": [{"names": [f"registry.example.org/{i}@sha256:{'a' * 64}"], "sizeBytes": 1} for i in range(6)],
            "nodeInfo": {"kubeletVersion": "v1.30.7-kubeedge-v1.22.0", "architecture": "arm64", "osImage": "Debian 12"},
        },
    }  # fmt: skip


def job() -> dict[str, Any]:
    """5,000 nodes, half of them done."""
    phases = ("Pending", "InProgress", "Successful", "Failure")
    entries = [
        {"nodeName": f"edge-{i:05}", "phase": phases[i % 4], "reasonCode": "CheckFailed" if i % 4 == 3 else "",
         "attempt": 1, "revision": 5, "since": "2026-11-29T20:31:07Z", "historicVersion": "v1.22.0"}
        for i in range(5000)
    ]  # fmt: skip
    later = {"onOffline": "Skip", "allowDowngrade": False, "suspend": False, "abort": False, "retry": 0}
    return {
        "apiVersion": V1ALPHA2, "kind": "NodeUpgradeJob", "metadata": {"name": "north", "uid": "8584110f"},
        "spec": {"version": "v1.23.0", "nodeNames": [one["nodeName"] for one in entries], **later},
        "status": {"phase": "InProgress", "total": 5000, "nodeStatus": entries},
    }  # fmt: skip


def case(name: str, do: Callable[[], object]) -> Case:
    """`do` is timed, one run at a time."""

    async def run(times: int) -> None:
        for _ in range(times):
            do()

    work: Callable[[int], Awaitable[object]] = run
    return Case(name, work, 1)


class _Nodes(msgspec.Struct):
    items: list[Node]


def nodes_cases() -> tuple[list[Case], int]:
    """The list, page by page as the informer reads it, and whole as others do."""
    items = [node(i) for i in range(5000)]
    pages = [json.dumps({"metadata": {}, "items": items[i : i + 500]}).encode() for i in range(0, 5000, 500)]
    whole = json.dumps({"metadata": {}, "items": items}).encode()

    def ours() -> object:
        return [NODES.read(raw) for page in pages for raw in page_of(page).items or ()]

    structs = msgspec.json.Decoder(_Nodes).decode
    return [
        case("5,000 Nodes", lambda: structs(whole)),
        case("the same, as the informer reads them", ours),
        case("json.loads of them", lambda: json.loads(whole)),
    ], len(whole)


def job_cases() -> list[Case]:
    """The largest job, and what the webhook does with it."""
    item = job()
    text, decoder = json.dumps(item).encode(), msgspec.json.Decoder(NodeUpgradeJob)
    told = one_converted(Raw(text), V1ALPHA1)
    edited = copy.deepcopy(converted(item, V1ALPHA1))
    edited["status"]["status"][7] |= {"state": "completed", "history": {"result": "upgrade_success"}}
    changed = Raw(json.dumps(edited).encode())
    kind = {"group": "operations.kubeedge.io", "version": "v1alpha2", "resource": "nodeupgradejobs"}
    asked = {"uid": "u", "operation": "CREATE", "object": item, "resource": kind}
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()
    return [
        case("the largest job", lambda: decoder.decode(text)),
        case("json.loads of it", lambda: json.loads(text)),
        case("convert to v1alpha1", lambda: one_converted(Raw(text), V1ALPHA1)),
        case("convert to v1alpha2", lambda: one_converted(told, V1ALPHA2)),
        case("convert to v1alpha2, one entry changed", lambda: one_converted(changed, V1ALPHA2)),
        case("review of 5,000 nodes", lambda: judge(opened("application/json", body))),  # type: ignore[arg-type]
    ]


def main() -> None:
    """Measure, print, write."""
    listed, size = nodes_cases()
    figures: dict[str, list[float]] = {}
    for group in (listed, job_cases()):
        figures |= interleaved(group, ROUNDS, asyncio.new_event_loop)
    print(f"list of 5,000 Nodes: {size / 1e6:.1f} MB")
    print(table(["CPU µs, median of 5 [range]", "", "at most", "reached"], [_row(*one) for one in figures.items()]))
    quicker = spread([b / a for a, b in zip(figures["5,000 Nodes"], figures["json.loads of them"], strict=True)])
    print(f"\njson.loads takes {quicker} times as long as we for the Nodes")
    path = write("decode", {"python": platform.python_version(), "bytes": size, "microseconds": figures})
    print(f"written: {path}", file=sys.stderr)


def _row(name: str, took: list[float]) -> list[str]:
    most = LIMITS.get(name)
    found = spread(took)
    return [
        name,
        str(found),
        f"{most:.0f}" if most else "",
        "" if most is None else "yes" if found.median <= most else "NO",
    ]


if __name__ == "__main__":
    main()
