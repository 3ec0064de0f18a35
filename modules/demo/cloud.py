"""One cloud process in a directory: `beehive --mode cloud` against the API server that its configuration names."""

import json
import os
import socket
import weakref
from pathlib import Path
from typing import Any

import httpx

from modules.demo.children import COMMAND, Child, command, wait_until


def reserved_port(holder: object) -> int:
    """A TCP port of 127.0.0.1 that nobody else is given for as long as `holder` lives.

    It is bound and does not listen, so Linux lets a program that names it listen there, as every server does that
    reuses addresses, and again after that one was killed.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    port: int = reserved.getsockname()[1]
    weakref.finalize(holder, os.close, reserved.detach())
    return port


class Cloud:
    """The process, its two hub ports, and the operator's commands against it."""

    def __init__(self, directory: Path, informer: dict[str, Any], **sections: Any) -> None:
        self.directory = directory
        self.websocket_port, self.https_port = reserved_port(self), reserved_port(self)
        self.process: Child | None = None
        directory.mkdir(parents=True, exist_ok=True)
        settings = {**self._settings(), **sections, "informer": informer}
        self.config.touch(mode=0o600)
        self.config.write_text(json.dumps(settings, indent=1), encoding="utf-8")

    @property
    def config(self) -> Path:
        """Its configuration file."""
        return self.directory / "cloud.yaml"

    def start(self) -> None:
        """Start it; can be called again after `process.kill()`."""
        self.process = Child("the cloud", (*COMMAND, "--mode", "cloud", "--config", str(self.config)), self.log)

    @property
    def log(self) -> Path:
        return self.directory / "cloud.log"

    def wait_until_ready(self, seconds: float = 30) -> None:
        """Until all its modules are ready. Raises RuntimeFailed with the end of its log when it ends before."""
        assert self.process is not None
        wait_until(self._is_ready, seconds, "The start of the cloud", self.process)

    def readyz(self) -> str:
        """What `/readyz?verbose` says."""
        return httpx.get(f"http://{self._admin()}/readyz?verbose", timeout=10, trust_env=False).text

    def end(self) -> None:
        """End it."""
        if self.process:
            self.process.end()

    def join_token(self, uses: int = 1) -> str:
        """A token with which so many hosts may join: `beehive token create`."""
        return command("token", "create", "--uses", str(uses), "--config", str(self.config)).strip()

    def _admin(self) -> str:
        return (self.directory / "data" / "admin.address").read_text(encoding="utf-8").strip()

    def _is_ready(self) -> bool:
        return httpx.get(f"http://{self._admin()}/readyz", timeout=10, trust_env=False).status_code == 200

    def _settings(self) -> dict[str, Any]:
        return {
            "runtime": {"data": str(self.directory / "data"), "admin": {"port": 0}},
            "taskmanager": {"cloud": {"offlineAfter": "2s", "flush": "200ms"}},
            "admission": {"port": 0},
            "cloudhub": {
                "websocket": {"address": "127.0.0.1", "port": self.websocket_port},
                "https": {"address": "127.0.0.1", "port": self.https_port},
            },
        }
