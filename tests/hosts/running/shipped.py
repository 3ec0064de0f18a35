"""A host on which nothing of ours is installed yet: Debian's systemd, EdgeCore as KubeEdge lays it out, no Python."""

import contextlib
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import yaml

from tests.hosts.running.edge import EDGECORE_UNIT, Edge
from tests.hosts.running.machine import Machine

TREE = "/root/beehive"
AGENT = "beehive-edge.service"
_EDGECORE = "etc/systemd/system/edgecore.service"
# The host shares this machine's loopback, and so would all agents their admin port.
_DROP_IN = f"etc/systemd/system/{AGENT}.d/any-port.conf"
_ANY_PORT = "[Service]\nEnvironment=BEEHIVE_RUNTIME_ADMIN_PORT=0\n"


class Bare(Edge):
    """Such a host; `say_to_shell` is what a person types as root in /root."""

    def __init__(self, machine: Machine, old: Path, packed: Path | None = None) -> None:
        super().__init__(machine)
        machine.binds.clear()
        root = machine.mount()
        for place, text in ((_EDGECORE, EDGECORE_UNIT.format(kind="simple")), (_DROP_IN, _ANY_PORT),
                            ("etc/kubeedge/config/edgecore.yaml", "kind: EdgeCore\n")):  # fmt: skip
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            (root / place).write_text(text)
        self.enable("edgecore.service")
        shutil.copy(old, root / "usr/local/bin/edgecore")
        (root / "usr/local/bin/edgecore").chmod(0o755)
        self._make_database()
        if packed:
            shutil.copy(packed, root / "root" / packed.name)
        machine.sync()

    def say_to_shell(self, script: str, seconds: float = 240) -> tuple[int, str]:
        """Its exit code, and all that it printed."""
        done = self.machine.say("/bin/sh", "-c", f"cd /root; {script}", timeout=seconds)
        return done.returncode, done.stdout + done.stderr

    def owner_allows(self, more: Mapping[str, object]) -> None:
        """The owner's own, in the section `upgrader` of the agent's settings."""
        place = self.machine.path("/etc/beehive/edge.yaml")
        place.parent.mkdir(exist_ok=True)
        found = yaml.safe_load(place.read_text()) if place.exists() else {}
        found.setdefault("upgrader", {}).update(more)
        place.write_text(yaml.safe_dump(found))

    def is_connected(self) -> bool:
        """Its agent has a session with the cloud, by its own readiness."""
        try:
            address = self.machine.path("/var/lib/beehive/admin.address").read_text(encoding="utf-8").strip()
            return httpx.get(f"http://{address}/readyz", timeout=5, trust_env=False).status_code == 200
        except (OSError, httpx.HTTPError):
            return False

    def listing(self) -> dict[str, tuple[int, int, int]]:
        """Everything that an installation makes: mode, i-node and time of writing."""
        places = [self.machine.path(place) for place in ("/usr/local", "/etc/beehive", "/etc/systemd/system")]
        found = [path for place in places for path in [place, *place.rglob("*")]]
        return {str(path): (path.lstat().st_mode, path.lstat().st_ino, path.lstat().st_mtime_ns) for path in found
                if not path.is_dir()}  # fmt: skip


def tools_at_work(host: Bare) -> str:
    """The units of tools that have not ended."""
    states = "--state=active,activating,deactivating"
    return host.machine.run("systemctl", "list-units", "--plain", "--no-legend", states, "beehive-tool@*")


class Onlooker:
    """Somebody who lists the processes again and again, command lines and environments."""

    def __init__(self) -> None:
        self.lines: set[bytes] = set()
        self.environments: set[bytes] = set()
        self._stop = threading.Event()

    @contextlib.contextmanager
    def looking(self) -> Iterator["Onlooker"]:
        """While the block runs."""
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()

    def _look(self) -> None:
        while not self._stop.is_set():
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    self.lines.add((process / "cmdline").read_bytes())
                    self.environments.add((process / "environ").read_bytes())
            time.sleep(0.005)
