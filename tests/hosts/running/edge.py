"""An edge host: KubeEdge's layout, its service, our units as they are shipped, and a program to upgrade."""

import compileall
import json
import shutil
import sqlite3
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from beehive.config import Duration
from beehive.journal import Journal
from beehive.messages.tasks import TaskSpec
from modules.taskmanager.edge import RECORD
from modules.taskmanager.record import Attempt
from modules.taskmanager.record import Record as Kept
from modules.upgrader.artefact import Extracted
from modules.upgrader.config import Config, Images
from modules.upgrader.host.files import Files, digest_of
from modules.upgrader.host.layout import MANIFEST, Layout
from modules.upgrader.host.names import attempt_key, unit_key
from modules.upgrader.tool.record import Record, load_record
from modules.upgrader.tool.request import Request, settings_of, write_request
from tests.hosts.running.machine import Machine, wait_until
from tests.real.running.images import OciLayout, installation_package

OLD, NEW = "v1.22.0", "v1.23.0"
UID = "6b1f2c34-0000-4000-8000-000000000000"
UNIT = "beehive-tool@6b1f2c34-0.service"
_IMAGES = "/var/lib/beehive/images"
REPOSITORY = Path(__file__).resolve().parents[3]
_CODE = ("beehive", "modules", "cmd", "configs", "tests")
_PYTHON = f"/opt/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
_WRAPPER = """#!/bin/sh
export PYTHONHOME=/opt/python LD_LIBRARY_PATH=/opt/python/lib
export PYTHONPATH=/opt/beehive:/opt/beehive/cmd:/opt/site-packages PYTHONDONTWRITEBYTECODE=1
if [ -e /cut/clock ]; then PYTHONPATH=/opt/beehive/tests/hosts/inside/clock:$PYTHONPATH; fi
"""
_BEEHIVE = f"""{_WRAPPER}case "$2 " in
"upgrade "|"edge ") if [ -e /cut/stepping ]; then exec {_PYTHON} -m tests.hosts.inside.stepping "$@"; fi ;;
esac
exec {_PYTHON} -m beehive_cli "$@"
"""
PYTHON = "/usr/local/bin/host-python"
EDGECORE_UNIT = """[Unit]
Description=edgecore.service

[Service]
Type={kind}
ExecStart=/usr/local/bin/edgecore --config /etc/kubeedge/config/edgecore.yaml
Restart=always
RestartSec=10
KillMode=process
TimeoutStartSec=3
TimeoutStopSec=2

[Install]
WantedBy=multi-user.target
"""
_BYSTANDER = "[Service]\nExecStart=/bin/sleep infinity\nRestart=always\n[Install]\nWantedBy=multi-user.target\n"


def code(folder: Path) -> Path:
    """Our code as it is now, compiled; what others change meanwhile does not reach the hosts."""
    for name in _CODE:
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "servers"))
    compileall.compile_dir(str(folder), quiet=2, stripdir=str(folder), prependdir="/opt/beehive", workers=1)
    return folder


def binds(code_folder: Path) -> dict[str, Path]:
    """What a host needs of this machine to run our code, read-only."""
    return {
        "/opt/python": Path(sys.base_prefix),
        "/opt/site-packages": Path(sysconfig.get_path("purelib")),
        "/opt/beehive": code_folder,
    }


@dataclass
class Edge:
    """The host, and what a test asks of it."""

    machine: Machine
    kind: str = "simple"
    """`Type=` of the target's unit."""
    soak: float = 1.0
    settings: dict[str, Any] = field(default_factory=dict)
    uid: str = UID
    """Of the attempt at hand."""

    @property
    def unit(self) -> str:
        """The tool's, for the attempt at hand."""
        return f"beehive-tool@{unit_key(self.uid, 0)}.service"

    @property
    def config(self) -> Config:
        """The section `upgrader` of this host."""
        return Config(
            soak=Duration(self.soak),
            start_timeout=Duration(5),
            stop_timeout=Duration(3),
            version_timeout=Duration(10),
            images=Images(registry=False),
            **self.settings,
        )

    @property
    def layout(self) -> Layout:
        """Where things lie, seen from this machine."""
        layout = Layout(Config(root=str(self.machine.root)))
        assert layout.database
        return layout

    # ---- before its first boot ------------------------------------------------------------------------------------

    def install(self, old: Path) -> None:
        """Lay out the host on its mounted disk."""
        root = self.machine.mount()
        _put(root / "usr/local/bin/beehive", _BEEHIVE, 0o755)
        _put(root / "usr/local/bin/keadm", f'{_WRAPPER}exec {_PYTHON} -m modules.upgrader.tool "$@"\n', 0o755)
        _put(root / PYTHON.lstrip("/"), f'{_WRAPPER}exec {_PYTHON} "$@"\n', 0o755)
        _put(root / "etc/kubeedge/config/edgecore.yaml", "kind: EdgeCore\n", 0o600)
        _put(root / "etc/systemd/system/edgecore.service", EDGECORE_UNIT.format(kind=self.kind), 0o644)
        _put(root / "etc/systemd/system/bystander.service", _BYSTANDER, 0o644)
        images = {"registry": False, "layout": _IMAGES}
        upgrader = {"soak": f"{self.soak}s", "startTimeout": "5s", "stopTimeout": "3s", "images": images}
        agent = {"upgrader": upgrader, "runtime": {"admin": {"enable": False}}}
        _put(root / "etc/beehive/edge.yaml", json.dumps(agent), 0o600)
        for unit in (REPOSITORY / "configs/systemd").iterdir():
            shutil.copy(unit, root / "etc/systemd/system" / unit.name)
        for unit_name in ("edgecore", "bystander", "beehive-recover"):
            self.enable(f"{unit_name}.service")
        shutil.copy(old, self.layout.executable)
        self.layout.executable.chmod(0o755)
        self._make_database()

    def enable(self, unit: str) -> None:
        """As `systemctl enable` would, before there is a systemd."""
        wants = self.machine.root / "etc/systemd/system/multi-user.target.wants"
        wants.mkdir(exist_ok=True)
        (wants / unit).symlink_to(f"/etc/systemd/system/{unit}")

    def _make_database(self) -> None:
        place = self.layout.database
        assert place
        place.parent.mkdir(parents=True)
        database = sqlite3.connect(place)
        database.execute("CREATE TABLE meta_v2 (key TEXT PRIMARY KEY, value TEXT)")
        database.executemany("INSERT INTO meta_v2 VALUES (?, ?)", [(f"pod-{n}", "x" * 500) for n in range(50)])
        database.execute("PRAGMA user_version = 8")
        database.commit()
        database.close()

    def offer(self, new: Path, version: str = NEW) -> None:
        """What the check leaves: the new program, extracted, and its manifest."""
        layout = self.layout
        layout.upgrade(version).mkdir(parents=True, exist_ok=True)
        shutil.copy(new, layout.artefact(version))
        layout.artefact(version).chmod(0o755)
        extracted = Extracted(version, f"example/image:{version}", None, digest_of(new), new.stat().st_size)
        (layout.upgrade(version) / MANIFEST).write_bytes(json.dumps(_plain(extracted)).encode())

    def ask(self, new: Path, *, uid: str = UID, old_version: str = OLD, version: str = NEW) -> None:
        """Write the agent's request to the tool; from now on this is the attempt at hand."""
        self.uid = uid
        request = Request(
            job="north",
            uid=uid,
            attempt=0,
            from_version=old_version,
            to_version=version,
            digest=digest_of(new),
            settings=settings_of(self.config),
        )
        write_request(Files(), self.layout, request)

    def give_to_agent(self, new: Path, *, uid: str = UID, version: str = NEW, **spec: Any) -> None:
        """An agent that was told to upgrade, wrote that down, and has not begun; the image is on the host."""
        self.uid, root = uid, self.machine.root
        OciLayout(root / _IMAGES.lstrip("/")).add(version, installation_package(new))
        asked = TaskSpec(version=version, image="kubeedge/installation-package", **spec)
        journal = Journal(root / "var/lib/beehive/journal/taskmanager")
        kept = journal.load(RECORD, Kept) or Kept()
        journal.save(RECORD, replace(kept, attempt=Attempt(job="north", uid=uid, attempt=0, spec=asked)))

    # ---- while it runs --------------------------------------------------------------------------------------------

    def upgrade(self) -> None:
        """Start the tool's unit, as the agent does."""
        self.machine.run("systemctl", "start", self.unit)

    def record(self) -> Record | None:
        """The tool's record of the attempt."""
        return load_record(self.layout, attempt_key(self.uid, 0))

    def agent(self) -> Kept:
        """What the agent remembers."""
        kept = Journal(self.machine.path("/var/lib/beehive/journal/taskmanager")).load(RECORD, Kept)
        assert kept
        return kept

    def until_verdict(self, seconds: float = 60.0) -> Record:
        """Wait until the attempt has its verdict and its tool has ended."""
        wait_until(self._settled, "the attempt has a verdict and no tool runs", seconds, self.explain)
        record = self.record()
        assert record
        return record

    def _settled(self) -> bool:
        record = self.record()
        if not (record and record.verdict and self.layout.report.exists()):
            return False
        return not {self.state(self.unit), self.state("beehive-recover.service")} & {
            "active",
            "activating",
            "deactivating",
        }

    def state(self, unit: str) -> str:
        """`active`, `inactive`, `failed`, …"""
        return self.machine.show(unit, "ActiveState")["ActiveState"]

    def report(self) -> dict[str, Any]:
        """KubeEdge's report file."""
        found: dict[str, Any] = json.loads(self.layout.report.read_bytes())
        return found

    def running(self) -> str:
        """The version of the process that the target's unit runs, by the process's own word; empty: none."""
        pid = self.machine.show("edgecore.service", "MainPID")["MainPID"]
        state = self.machine.path("/var/lib/kubeedge/running")
        if pid == "0" or not state.exists():
            return ""
        try:
            word = json.loads(state.read_text())
        except ValueError:  # of the time before a cut: the program does not sync it
            return ""
        return str(word["version"]) if str(word["pid"]) == pid else ""

    def main_pid(self) -> int:
        """Of the target; 0: it does not run."""
        return int(self.machine.show("edgecore.service", "MainPID")["MainPID"])

    def starts(self) -> list[str]:
        """The version of each start of the target."""
        log = self.machine.path("/var/lib/kubeedge/starts.log")
        return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []

    def explain(self) -> str:
        """Everything that helps when a test failed."""
        units = ("-u", "beehive-tool@*", "-u", "beehive-recover", "-u", "edgecore", "-u", "beehive-edge")
        return f"{self.record()}\n{self.machine.journal(*units)}"


def _plain(extracted: Extracted) -> dict[str, Any]:
    return {name: getattr(extracted, name) for name in extracted.__struct_fields__}


def _put(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
