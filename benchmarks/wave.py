"""`make bench NAME=wave [NODES=1000]`: a whole fleet on a real kube-apiserver, one job or, of more than 5,000 nodes,
several at once; writes `.bench/wave.json`.

The edges are scripted and live in a process of their own; they speak the real protocol over TLS. Beside it, on the same
server and in the same run, the floor: what the same number of Node patches and Events costs a bare client.
"""

import asyncio
import json
import os
import re
import resource
import shutil
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import httpx

from beehive.api.limits import MOST_NODES
from benchmarks.measure import table, write
from modules.demo.cloud import Cloud
from tests.fakes.edges import names
from tests.real.running.apiserver import ApiServer
from tests.real.waving import JOBS, Field

WORK = 2.3
"""Seconds of a node's own work."""
_BEAT = 15.0
"""Seconds between two signs of life of an edge, and between two repetitions of an unacknowledged report."""
_AT_ONCE = 64
_REQUESTS = re.compile(r"apiserver_request_total\{(.*)\} (\S+)")


def main(counts: tuple[int, ...]) -> None:
    """Measure, print, write."""
    found = [measured(count) for count in counts]
    head = ("", *(f"{one['nodes']:,} nodes" for one in found))
    rows = [(key, *(f"{one[key]:,}" for one in found)) for key in found[0] if key not in ("calls", "nodes")]
    print(table(head, rows))
    for one in found:
        print(
            f"\nAPI calls at {one['nodes']:,} nodes: " + ", ".join(f"{n:,} {what}" for what, n in one["calls"].items())
        )
    print(f"\nwritten: {write('wave', found)}", file=sys.stderr)


def measured(count: int) -> dict[str, Any]:
    """One fleet."""
    directory = Path(tempfile.mkdtemp(prefix="beehive-wave-"))
    server = ApiServer.started(directory)
    field = Field(server, directory, names(count))
    try:
        cloud = field.add_cloud(lease={}, taskmanager={})
        settings = json.loads(cloud.config.read_text())
        settings["runtime"]["blockedAfter"] = "100ms"
        cloud.config.write_text(json.dumps(settings))
        cloud.start()
        cloud.wait_until_ready()
        figures = wave(field, cloud, count)
        return {"nodes": count, **figures, **asyncio.run(floor(server, count))}
    finally:
        field.end()
        server.remove()
        shutil.rmtree(directory, ignore_errors=True)


def wave(field: Field, cloud: Cloud, count: int) -> dict[str, Any]:
    """One job at full concurrency, or as many at once as the fleet needs."""
    jobs = {f"wave-{at}": field.nodes[at : at + MOST_NODES] for at in range(0, count, MOST_NODES)}
    with field.edges(seconds=600, work=WORK, repeat=_BEAT) as edges:
        calls, cpu, stalls = requests(field.server), cpu_of(cloud), stalled(cloud)
        begun = time.monotonic()
        for name, nodes in jobs.items():
            field.apply_job(name, nodes, concurrency=len(nodes), failureTolerate="100%", timeoutSeconds=1800)
        largest, ended = watch(field, jobs, begun)
        field.wait(lambda: not field.held_nodes(), "the cordons are undone", 600)
        undone = time.monotonic() - begun
        time.sleep(2)  # the last Events
        spent, stalls = cpu_of(cloud) - cpu, stalled(cloud) - stalls
        made = requests(field.server) - calls
        saw = edges.saw()
    told = [one.at - begun for one in saw.starts()]
    assert sorted(saw.ran()) == sorted(field.nodes), "every node ran"
    writes = made["PATCH nodeupgradejobs/status"]
    size = len(json.dumps(field.job("wave-0"), separators=(",", ":")))
    return {
        "first told, s": round(min(told), 2),
        "last told, s": round(max(told), 2),
        "Completed, s": round(ended, 2),
        "Completed beyond the work of a node, s": round(ended - WORK, 2),
        "cordons undone, s": round(undone, 2),
        "controller CPU per node, ms": round(1000 * spent / count, 2),
        "controller RSS at most, MB": round(peak_of(cloud) / 1e6, 1),
        "loop stalls over 100 ms": int(stalls),
        "job writes per node": round(writes / count, 4),
        "KB of job rewritten per node": round(writes * size / count / 1000, 2),
        "patches of each Node": round(made["PATCH nodes"] / count, 3),
        "largest job object, KB": round(max(largest, size) / 1000, 1),
        "calls": {what: n for what, n in sorted(made.items()) if n > 1 and not what.startswith("GET")},
    }


def watch(field: Field, jobs: Iterable[str], begun: float) -> tuple[int, float]:
    """Until the jobs have ended; the largest object seen, and when the last ended."""
    largest, left = 0, list(jobs)
    while left:
        answer = field.server.request("GET", f"{JOBS}/{left[0]}")
        largest = max(largest, len(answer.body))
        status = answer.json().get("status", {})
        if status.get("phase") in ("Completed", "Failure"):
            left.pop(0)
        elif time.monotonic() - begun > 1800:
            raise AssertionError(f"the wave does not end: {status.get('done')}, {status.get('waiting')}")
        else:
            time.sleep(0.3)
    return largest, time.monotonic() - begun


# ---- the floor ---------------------------------------------------------------------------------------------------


async def floor(server: ApiServer, count: int) -> dict[str, float]:
    """Two patches of each Node and two Events for it, by a bare client, 64 at once."""
    context = ssl.create_default_context(cafile=str(server.ca_file))
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    lane = asyncio.Semaphore(_AT_ONCE)
    connector = aiohttp.TCPConnector(ssl=context, limit=_AT_ONCE)
    async with aiohttp.ClientSession(server.url, headers=headers, connector=connector) as session:

        async def call(method: str, path: str, body: object, kind: str = "application/json") -> None:
            async with (
                lane,
                session.request(method, path, data=json.dumps(body), headers={"Content-Type": kind}) as answer,
            ):
                await answer.read()
                assert answer.status < 300, await answer.text()

        patch, node = "application/json-patch+json", "/api/v1/nodes/"
        begun, cpu = time.monotonic(), own_cpu()
        for turn in range(2):
            flag = {"op": "add", "path": "/spec/unschedulable", "value": not turn}
            await asyncio.gather(*(call("PATCH", node + one, [flag], patch) for one in names(count)))
        patched = time.monotonic() - begun
        events = (_event(one, turn) for one in names(count) for turn in range(2))
        await asyncio.gather(*(call("POST", "/api/v1/namespaces/default/events", one) for one in events))
        return {
            "floor: Node patches, s": round(patched, 2),
            "floor: with Events, s": round(time.monotonic() - begun, 2),
            "floor: client CPU per node, ms": round(1000 * (own_cpu() - cpu) / count, 2),
        }


def _event(node: str, turn: int) -> Mapping[str, object]:
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"floor-{node}-{turn}"}, "type": "Normal",
        "involvedObject": {"kind": "Node", "name": node}, "reason": "Floor", "message": "as many as a wave writes",
    }  # fmt: skip


# ---- counting ----------------------------------------------------------------------------------------------------


def requests(server: ApiServer) -> Counter[str]:
    """Requests by verb and resource, by the server's own count."""
    found: Counter[str] = Counter()
    for labels, value in _REQUESTS.findall(server.request("GET", "/metrics").body.decode()):
        label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        sub = f"/{label['subresource']}" if label.get("subresource") else ""
        found[f"{label['verb']} {label['resource']}{sub}"] += int(float(value))
    return found


def cpu_of(cloud: Cloud) -> float:
    """Seconds of CPU that the process has used."""
    assert cloud.process
    fields = Path(f"/proc/{cloud.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_of(cloud: Cloud) -> int:
    """The most memory that it has had, in bytes."""
    assert cloud.process
    text = Path(f"/proc/{cloud.process.pid}/status").read_text()
    return 1024 * int(text.partition("VmHWM:")[2].split()[0])


def stalled(cloud: Cloud) -> float:
    """How often its loop stood still for more than 100 ms."""
    address = (cloud.directory / "data" / "admin.address").read_text().strip()
    text = httpx.get(f"http://{address}/metrics", trust_env=False).text
    return sum(float(one) for one in re.findall(r"^beehive_loop_stalls_total (\S+)", text, re.MULTILINE))


def own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(tuple(int(one) for one in os.environ.get("NODES", "1000").split(",")))
