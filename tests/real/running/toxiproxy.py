"""Toxiproxy: a TCP proxy that can be told to delay, slow down, cut, reset or swallow what goes through it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.real.running.build import TOXIPROXY
from tests.real.running.processes import Daemon, with_free_ports


class Proxy:
    """One way through it, from `address` to where it was made for."""

    def __init__(self, api: httpx.Client, name: str, upstream: str) -> None:
        self._api, self._path = api, f"/proxies/{name}"
        answer = api.post("/proxies", json={"name": name, "listen": "127.0.0.1:0", "upstream": upstream})
        answer.raise_for_status()
        self.address: str = answer.json()["listen"]

    def add(self, kind: str, stream: str, **attributes: Any) -> None:
        """A toxic; `stream` is `upstream` (edge to cloud), `downstream`, or `both`."""
        for one in ("upstream", "downstream") if stream == "both" else (stream,):
            toxic = {"name": f"{kind}-{one}", "type": kind, "stream": one, "attributes": attributes}
            self._api.post(f"{self._path}/toxics", json=toxic).raise_for_status()

    def clear(self) -> None:
        """Remove all toxics; what they held back or swallowed ends its connection."""
        for one in self._api.get(f"{self._path}/toxics").json():
            self._api.delete(f"{self._path}/toxics/{one['name']}").raise_for_status()

    def enable(self, on: bool) -> None:
        """Off: every connection is closed and new ones are refused."""
        self._api.post(self._path, json={"enabled": on}).raise_for_status()


@contextmanager
def toxiproxy(folder: Path) -> Iterator[httpx.Client]:
    """Its API, while it runs."""

    def start(ports: list[int]) -> tuple[Daemon, int]:
        daemon = Daemon("toxiproxy", [TOXIPROXY.path(), "-host", "127.0.0.1", "-port", str(ports[0])], folder)
        daemon.start(lambda: _answers(ports[0]))
        return daemon, ports[0]

    daemon, port = with_free_ports(start, 1)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as api:
            yield api
    finally:
        daemon.stop()


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/version", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
