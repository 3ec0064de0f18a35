"""The demo's edge hosts: each a directory with its own program, agent, journal and identity, and real processes."""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx

from beehive.config import Source, load
from beehive.errors import BeehiveError
from modules.demo.children import COMMAND, Child, command
from modules.demo.cloud import Cloud
from modules.upgrader.config import Config
from modules.upgrader.host.host import Host as UpgraderHost

EXECUTABLE = "usr/local/bin/edgecore"
STATE = "var/lib/kubeedge"


class Host:
    """One edge host in a directory. `upgrader` overrides settings of its section, such as the image sources."""

    def __init__(self, name: str, directory: Path, cloud: Cloud, upgrader: dict[str, Any]) -> None:
        self.name, self.directory = name, directory
        self.agent: Child | None = None
        self._cloud, self._upgrader = cloud, upgrader

    def install(self, program: bytes, schema: int) -> None:
        """Put a program and its data on the disk, and the agent's configuration beside it."""
        executable = self.directory / EXECUTABLE
        executable.parent.mkdir(parents=True)
        executable.write_bytes(program)
        executable.chmod(0o755)
        self._write(f"{STATE}/schema", f"{schema}\n")
        self._write("etc/kubeedge/config/edgecore.yaml", "modules: {}\n")
        self._write("edge.yaml", json.dumps(self.settings(), indent=1))

    def settings(self) -> dict[str, Any]:
        """The agent's configuration file."""
        return {
            "runtime": {"data": str(self.directory / "var/lib/beehive"), "admin": {"port": 0}},
            "edgehub": {
                "servers": [f"127.0.0.1:{self._cloud.websocket_port}"], "longestDelay": "1s",
                "identity": str(self.directory / "etc/beehive/pki"),
            },
            "upgrader": {
                "root": str(self.directory), "serviceManager": "process", "soak": "1s",
                "target": {
                    "format": "any", "database": f"/{STATE}/schema",
                    "start": ["{executable}", "--state", f"{{root}}/{STATE}"],
                },
                **self._upgrader,
            },
        }  # fmt: skip

    # ---- life --------------------------------------------------------------------------------------------------

    def start_program(self) -> None:
        """What its service manager does at boot."""
        host = self._as_upgrader_sees_it()
        host.services.start(host.service)

    def join(self, token_file: Path) -> None:
        """`beehive edge join`: get an identity from the cloud's CA."""
        url = f"https://127.0.0.1:{self._cloud.https_port}"
        command(
            "edge",
            "join",
            "--cloud",
            url,
            "--node",
            self.name,
            "--token-file",
            str(token_file),
            "--config",
            self._config_file(),
        )

    def start_agent(self) -> None:
        """`beehive --mode edge`; can be called again after `agent.kill()`."""
        arguments = (*COMMAND, "--mode", "edge", "--config", self._config_file())
        self.agent = Child(self.name, arguments, self.directory / "agent.log")

    def end(self) -> None:
        """End the agent, the tool if it still runs, and the program."""
        if self.agent:
            self.agent.end()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def boot(self) -> None:
        """Power is back: the service manager starts the program, if it can, and the agent."""
        with contextlib.suppress(BeehiveError):
            self.start_program()
        self.start_agent()

    def cut_power(self) -> None:
        """Everything on this host ends at once: agent, tool, program, and what keeps them."""
        if self.agent:
            self.agent.kill()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def processes(self) -> list[int]:
        """Pids of this host's own processes: those whose command line names its directory."""
        marked = str(self.directory).encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if marked in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
        return found

    # ---- what is true on it ------------------------------------------------------------------------------------

    def answers(self) -> str:
        """What its program answers to `--version` now; empty when it does not answer."""
        executable = self.directory / EXECUTABLE
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run((executable, "--version"), capture_output=True, text=True, timeout=10, check=True)
            return done.stdout.strip()
        return ""

    def starts(self) -> list[str]:
        """The program's own diary: the version of each start, in order."""
        with contextlib.suppress(FileNotFoundError):
            text = (self.directory / STATE / "starts.log").read_text(encoding="utf-8")
            return [line.split()[0] for line in text.splitlines()]
        return []

    def is_connected(self) -> bool:
        """Its agent has a session with the cloud."""
        address = (self.directory / "var/lib/beehive/admin.address").read_text(encoding="utf-8").strip()
        return httpx.get(f"http://{address}/readyz", timeout=5, trust_env=False).status_code == 200

    def is_upgrading(self) -> bool:
        """The tool has written that it began, and has no verdict yet: the program is being swapped or looked at."""
        for path in (self.directory / "var/lib/beehive/upgrader/records").glob("*.json"):
            with contextlib.suppress(OSError, ValueError):
                if json.loads(path.read_bytes()).get("verdict") is None:
                    return True
        return False

    def runs(self) -> bool:
        """Its program is up, as its service manager sees it."""
        host = self._as_upgrader_sees_it()
        return host.services.status(host.service).active

    # ---- inside ------------------------------------------------------------------------------------------------

    def _as_upgrader_sees_it(self) -> UpgraderHost:
        text = json.dumps({"upgrader": self.settings()["upgrader"]})
        return UpgraderHost(load({"upgrader": Config}, Source(self.name, text))["upgrader"])

    def _config_file(self) -> str:
        return str(self.directory / "edge.yaml")

    def _write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
