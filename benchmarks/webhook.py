"""`make bench NAME=webhook`: 200 reviews of 100-node jobs at once, over TLS; writes `.bench/webhook.json`.

The asker is a process of its own. Stalls are counted in CPU time: what the loop worked before it came back to others.
"""

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from beehive.messages.objects import Jobs, Nodes
from beehive.world import World
from benchmarks.measure import write
from modules.admission.certificates import make_ca, make_server
from modules.admission.connections import bound
from modules.admission.keys import context
from modules.admission.looker import Looker
from modules.admission.server import Webhook

AT_ONCE, TURNS = 200, 5


def body() -> bytes:
    """A review of a job of 100 nodes."""
    spec = {"version": "v1.23.1", "nodeNames": [f"edge-{i}" for i in range(100)]}
    kind = {"group": "operations.kubeedge.io", "version": "v1alpha2", "resource": "nodeupgradejobs"}
    asked = {"uid": "u", "operation": "CREATE", "resource": kind, "object": {"metadata": {"name": "j"}, "spec": spec}}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()


async def ask(port: int, ca: str) -> list[float]:
    """Connections first, as an API server keeps them; then all reviews at once, some times; the latencies."""
    trust, payload = ssl.create_default_context(cadata=ca), body()
    head = "POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(payload)}\r\n\r\n"
    streams = [await asyncio.open_connection("127.0.0.1", port, ssl=trust) for _ in range(AT_ONCE)]

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
        began = time.perf_counter()
        writer.write(head.encode() + payload)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        told = json.loads(await reader.readexactly(length))
        assert told["response"]["allowed"]
        return time.perf_counter() - began

    took: list[float] = []
    for _ in range(TURNS):
        took += await asyncio.gather(*(one(*stream) for stream in streams))
    for _, writer in streams:
        writer.transport.abort()
    return took


async def nobody(request: object, timeout: float) -> object:
    """An informer that knows nothing."""
    return Nodes(()) if type(request).__name__ == "ListNodes" else Jobs(())


async def serve() -> None:
    """The webhook here, the asker in a process of its own."""
    ca = make_ca(time.time())
    server = context(make_server(ca, ("127.0.0.1",), time.time(), 3600))
    answer: Callable[[object, float], Awaitable[object]] = nobody
    listening, webhook = bound("127.0.0.1", 0), Webhook(World(), server, Looker(answer))
    serving = asyncio.create_task(webhook.serve(listening))
    await webhook.until_started(serving)
    stalls = asyncio.create_task(_stalls())
    asker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.webhook", str(listening.getsockname()[1]), ca.certificate.decode(),
        stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    began = time.process_time()
    told, _ = await asker.communicate()
    spent = (time.process_time() - began) / AT_ONCE / TURNS
    stalls.cancel()
    webhook.stop()
    await serving
    _print(sorted(json.loads(told)), max(STALLS), spent)


STALLS: list[float] = []


async def _stalls() -> None:
    """What this thread worked while somebody wanted the loop back."""
    while True:
        began = time.thread_time()
        await asyncio.sleep(0)
        STALLS.append(time.thread_time() - began)
        await asyncio.sleep(0.0005)


def _print(took: list[float], stall: float, spent: float) -> None:
    p50, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
    print(
        f"{AT_ONCE} reviews of 100 nodes at once, {TURNS} times: p50 {p50 * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms (≤ 250)"
    )
    print(f"CPU of the webhook, connections and the watcher included: {spent * 1e3:.2f} ms a review")
    print(f"longest time that the loop was held: {stall * 1e3:.0f} ms (≤ 50)")
    write("webhook", {"p50": p50, "p99": p99, "stall": stall, "seconds": took})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(asyncio.run(ask(int(sys.argv[1]), sys.argv[2]))))
    else:
        asyncio.run(serve())
